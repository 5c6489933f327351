"""What only names and describes loads none of the libraries that compute."""

import subprocess
import sys

DESCRIBE = """
import sys
from trials import algorithms, datasets, heterogeneity, models
from trials.common import names
from trials.run.spec import Scenario, canonical
from trials.settings import Settings

for name, cls in algorithms.known().items():
    assert cls.ranges()["lr"].high and cls.__doc__ and sys.modules[cls.__module__].__doc__, name
    defaults = cls().params()
    assert cls.configured(defaults).params() == defaults
registries = (datasets.DATASETS, datasets.PATHS, models.MODELS, heterogeneity.PARTITIONS,
    heterogeneity.MODIFIERS)
for registry in registries:
    for name, cls in registry.items():
        assert cls.summary and names.usage(name, cls).startswith(name)
place = Scenario("synthetic( 1,1 )", "mlp", "dirichlet( 0.30 ) + system(steps=1..20)")
spec = canonical("defed", {"topology": "ring( 4 )"}, place, Settings(rounds=3), 1)
assert spec.params["topology"] == "ring(4)" and spec.configured().params() == spec.params
computing = {"torch", "torchvision", "ray", "optuna", "mlflow", "scipy", "sklearn",
    "numba", "pandas"}
sys.exit(str(computing & set(sys.modules)) if computing & set(sys.modules) else 0)
"""


def test_what_trials_declare_is_read_without_the_libraries_that_compute() -> None:
    subprocess.run([sys.executable, "-c", DESCRIBE], check=True)
