"""Settings that a paper takes for granted: under others its method is a reference, and nothing else of
it changes.
"""

import pytest

from tests.support.searches import entries_of
from trials.algorithms import ALGORITHMS
from trials.run.spec import away
from trials.settings import Settings


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


def test_the_mark_is_the_configuration_s_and_no_part_of_what_an_entry_asks(monkeypatch):
    search = {"participation": {"default": 1.0, "low": 0.1, "high": 1.0}}
    (entry,) = entries_of(algorithms=["defed"], search=search)
    assert not entry.reference()
    assert entry.reference({**entry.space.default(), "participation": 0.2})
    study = {"algorithms": ["defed", "local_only"], "settings": {"participation": 0.2}}
    marked, nature = entries_of(**study)
    assert (nature.outside(), nature.reference()) == ("", True), "a reference by nature"
    assert (bool(marked.outside()), marked.id) == (True, "ad7c42a4")
    monkeypatch.setattr(ALGORITHMS["defed"], "requires", {})
    unmarked = entries_of(**study)[0]
    assert (bool(unmarked.outside()), unmarked.id) == (False, "ad7c42a4")
