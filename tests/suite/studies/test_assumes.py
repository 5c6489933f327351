"""Settings that a paper takes for granted: under others its method is a reference, and nothing else of
it changes.
"""

import pytest

from tests.support.searches import entries_of
from trials.algorithms import ALGORITHMS
from trials.run.spec import away
from trials.settings import Settings

PLUGIN = """
from dataclasses import dataclass
from trials.algorithms.fedavg import FedAvg

@dataclass(frozen=True)
class Whole(FedAvg):
    requires = {
        "batch_size": ("full", "its step is a full gradient"),
        "momentum": (0.0, "its rate is a plain step's"),
    }
"""


@pytest.mark.parametrize(
    ("name", "key", "settings", "level"),
    [
        ("safl", "init=own", {"init": "own"}, "iid"),
        ("safl_extended", "init=own", {"init": "own"}, "iid"),
        ("fedagg", "local_epochs", {"local_epochs": 3}, "iid"),
        ("folb", "system", {}, "iid+system(steps=1..20)"),
    ],
)
def test_a_method_is_at_home_where_its_paper_tried_it(name, key, settings, level):
    cls = ALGORITHMS[name]
    assert away(cls, Settings(**settings), level) == ""
    assert away(cls, Settings(), "dirichlet(0.3)") == cls.home[key]
    (entry,) = entries_of(algorithms=[name], heterogeneity=["labels(2)"])
    assert (entry.away, entry.reference()) == (cls.home[key], False)


def test_any_class_can_declare_them(tmp_path):
    (tmp_path / "own.py").write_text(PLUGIN)
    name = f"{tmp_path / 'own.py'}:Whole"
    (inside,) = entries_of(algorithms=[name], settings={"batch_size": "full"})
    assert (inside.outside(), inside.reference()) == ("", False)
    (both,) = entries_of(algorithms=[name], settings={"batch_size": 5, "momentum": 0.5})
    assert both.reference()
    assert both.outside() == (
        "batch_size is 5, its paper's full: its step is a full gradient; "
        "momentum is 0.5, its paper's 0.0: its rate is a plain step's"
    )
    (entry,) = entries_of(algorithms=["fedavg"], settings={"batch_size": 5, "momentum": 0.5})
    assert (entry.outside(), entry.reference()) == ("", False)


def test_the_mark_is_the_configuration_s_and_no_part_of_what_an_entry_asks(monkeypatch):
    search = {"participation": {"default": 1.0, "low": 0.1, "high": 1.0}}
    (entry,) = entries_of(algorithms=["defed"], search=search)
    assert not entry.reference()
    assert entry.reference({**entry.space.default(), "participation": 0.2})
    study = {"algorithms": ["defed", "local_only"], "settings": {"participation": 0.2}}
    marked, nature = entries_of(**study)
    assert (nature.outside(), nature.reference()) == ("", True), "a reference by nature"
    assert (bool(marked.outside()), marked.id) == (True, "4a521c29")
    monkeypatch.setattr(ALGORITHMS["defed"], "requires", {})
    unmarked = entries_of(**study)[0]
    assert (bool(unmarked.outside()), unmarked.id) == (False, "4a521c29")
