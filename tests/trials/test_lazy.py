"""What only names and describes loads none of the libraries that compute."""

import pickle
import subprocess
import sys

from trials.common.lazy import Lazy

DESCRIBE = """
import sys
from trials import algorithms, datasets, heterogeneity, models, topology
from trials.scoring import losses
from trials.common import names
from trials.run.scenario import Scenario
from trials.settings import Settings
from trials.run.spec import canonical

for name, cls in algorithms.known().items():
    assert cls.ranges()["lr"].high and cls.__doc__ and sys.modules[cls.__module__].__doc__, name
    defaults = cls().params()
    assert cls.configured(defaults).params() == defaults
registries = (datasets.DATASETS, datasets.PATHS, models.MODELS, heterogeneity.PARTITIONS,
    heterogeneity.MODIFIERS)
for registry in registries:
    for name, cls in registry.items():
        assert cls.summary and names.usage(name, cls).startswith(name)
place = Scenario("synthetic( 1,1 )", "mlp( 200,200 )",
    "dirichlet( 0.30 ) + sizes(lognormal(0.3)) + system(steps=1..20)")
spec = canonical("defed", {"topology": "ring( 4 )"}, place, Settings(rounds=3), 1)
assert spec.params["topology"] == "ring(4)" and spec.model == "mlp"
assert spec.heterogeneity == "dirichlet(0.3)+sizes(lognormal(0.3))+system(steps=1..20)"
assert spec.configured().params() == spec.params and spec.data_key
assert models.canonical("sent_lstm(500)") == "sent_lstm(500,300)"
computing = {"torch", "torchvision", "ray", "optuna", "mlflow", "networkx", "scipy", "sklearn",
    "numba", "pandas"}
sys.exit(str(computing & set(sys.modules)) if computing & set(sys.modules) else 0)
"""


def test_what_trials_declare_is_read_without_the_libraries_that_compute() -> None:
    subprocess.run([sys.executable, "-c", DESCRIBE], check=True)


def test_a_lazy_module_is_its_module_and_travels_by_its_name() -> None:
    """It keeps what was asked for, which its pickle leaves behind."""
    lazy = Lazy("colorsys")
    sys.modules.pop("colorsys", None)
    travelled = pickle.loads(pickle.dumps(lazy))
    assert "colorsys" not in sys.modules
    assert travelled.rgb_to_hsv(1.0, 0.0, 0.0) == (0.0, 1.0, 1.0)
    assert travelled.rgb_to_hsv is sys.modules["colorsys"].rgb_to_hsv
    assert "rgb_to_hsv" in vars(travelled)
    assert "rgb_to_hsv" not in vars(pickle.loads(pickle.dumps(travelled)))
