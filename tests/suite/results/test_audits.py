"""Commands that mend what an audit finds."""

from types import SimpleNamespace
from typing import Any

from reports.leaderboard.audit import edges
from suite.results.leaderboards import remedy
from suite.studies.study import read_study
from trials.algorithm import Range


def mended(changes: dict[str, Any], study: str = "smoke", **highs: float) -> Any:
    """The commands for a sweep of a study with these changes, whose winners are at the high end of their rates."""
    content = read_study(study, changes)[1].model_dump(mode="json")
    entries, audits = [], {}
    for name, high in highs.items():
        space = {"lr": Range("float", 0.1, high, log=True)}
        entries.append(SimpleNamespace(id=name, algorithm=name, space=space))
        ends = edges({"lr": high}, space)
        audits[name] = SimpleNamespace(hyperparameters=1, edges=ends)
    known = {"study_name": study, "name": "mine", "study": content, "study_file": None}
    sweep: Any = SimpleNamespace(**known, entries=entries)
    return remedy(sweep, audits, ["--storage", "my runs"])  # type: ignore[arg-type]


def test_a_rate_s_own_range_is_the_one_that_is_widened() -> None:
    """That of all would not reach a method of which the study says its own."""
    mend = mended({"trials": 5, "search.folb.lr": {"high": 3.0}}, fedavg=1.0, fedprox=2.0, folb=3.0)
    at = "--storage 'my runs'"
    ranges = "--set search.lr=0.1..20 --set search.folb.lr=0.1..30"
    assert mend.more == f"suite sweep smoke --name mine --resume --trials 10 {at}"
    assert mend.wider == f"suite sweep smoke --name mine-wider {at} {ranges}"


def test_the_data_sets_that_a_study_leaves_open_are_given_again() -> None:
    wider = mended({"datasets": ["digits"]}, study="own", fedavg=1.0).wider
    assert wider.startswith("suite sweep own --name mine-wider")
    assert " --datasets digits " in wider
