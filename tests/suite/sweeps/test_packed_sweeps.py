"""A sweep has the same journal packed or not: what is asked, what comes out, what is chosen. Real trials,
driven in this process without Ray.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from suite.configurations.configuration import read
from suite.execution.cluster import Resources
from suite.search import schedulers
from suite.sweeps.journal.events import outcomes
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.sweep import Sweep
from tests.support.commands import once
from tests.support.searches import a_study
from tests.support.simulations import ROOT, timeless
from trials.run.outcome import TrialKind
from trials.run.simulation import Simulation

COMMON: dict[str, Any] = {
    "algorithms": ["fedavg", "fedprox"],
    "models": ["mlp(8,8)"],
    "trials": 6,
    "seeds": 1,
    "search": {"lr": {"default": 0.1, "low": 0.001, "high": 300.0, "log": True}},
    "settings": {"rounds": 9, "clients": 4, "eval_every": 1, "batch_size": 10},
}
STUDIES: dict[str, dict[str, Any]] = {
    "modelled": {"sampler": "tpe", "trials": 8, "algorithms": ["fedavg"]},
    "scenarios": {
        "heterogeneity": ["iid", "labels(2)"],
        "models": ["mlp(8,8)", "mlp(6,6)"],
        "algorithms": ["fedprox"],
        "trials": 2,
    },
    "stopped early": {"scheduler": "asha"},
    "compiled": {"models": ["logreg"], "algorithms": ["safl", "defed"], "trials": 4},
    "confirmed": {"confirm": {"best": 2, "seeds": 1}, "trials": 3},
    "own parts": {
        "models": [f"{ROOT / 'examples' / 'own_model.py'}:make(width=8)"],
        "datasets": [f"{ROOT / 'tests' / 'support' / 'own_samples.py'}:digits"],
        "trials": 3,
    },
}
"""The last one's model has BatchNorm and dropout, and its data are a torch Dataset."""


def below(early: schedulers.EntrySchedulers, trial_id: str, at: int, value: float) -> bool:
    """Stop what is below a score: a decision of the recorded score alone, whatever came before."""
    return at in early.stops(early.requests[trial_id]) and value < 0.15


@pytest.fixture(autouse=True)
def by_scores(monkeypatch: pytest.MonkeyPatch, in_this_process: None) -> None:
    monkeypatch.setattr(schedulers.EntrySchedulers, "decide", below)


class Killed(BaseException):
    """The end of the process, without a word."""


def sweep(folder: Path, study: str, pack: int | str, resume: bool = False) -> Path:
    """Run a sweep to its end, two Tune trials at once; its folder."""
    content = a_study(**{**COMMON, **STUDIES[study], "pack": pack})
    opened = Sweep("s", content, SweepPaths(folder, "s"), resume=resume)
    opened.run(Resources(max_concurrent=2, checkpoint_seconds=0.0))
    return folder


def said(folder: Path) -> tuple[Any, dict[str, Any], str]:
    """What the journal's asks and ends say, by trial, and what was tuned. When reports came, and how
    long trials took, depends on the company.
    """
    paths = SweepPaths(folder, "s")
    requests, ends = paths.state().requests, {}
    for trial_id, end in outcomes(paths.journal, requests.keys()):
        # Of a trial that diverged NaN is said, which equals nothing.
        history = [{name: repr(v) for name, v in e.items()} for e in timeless(end.history)]
        ends[trial_id] = replace(end, history=history, seconds=0.0, intermediates={})
    assert requests.keys() == ends.keys()
    tuned = sorted((paths.folder / "tuned").rglob("*.yaml"))
    return requests, ends, "".join(str(read(path).params) for path in tuned)


@pytest.fixture
def alone(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """What a study's sweep without packs says; it is run once for all tests."""

    def whole(study: str) -> Any:
        return said(once(tmp_path_factory, f"alone {study}", lambda at: sweep(at, study, 1)))

    return whole


@pytest.mark.slow("two sweeps of real trials")
@pytest.mark.parametrize(("study", "pack"), zip(STUDIES, [3, *["auto"] * 4, 3], strict=True))
def test_packed_or_not_the_journal_says_the_same(
    tmp_path: Path, alone: Callable[[str], Any], study: str, pack: Any
) -> None:
    whole = alone(study)
    assert said(sweep(tmp_path / "packed", study, pack)) == whole
    statuses = {end.status for end in whole[1].values()}
    assert statuses >= {"finished", *["pruned"] * (study == "stopped early")}


@pytest.mark.parametrize("study", ["stopped early", "own parts"])
@pytest.mark.parametrize("share", [0.35, 0.9])
def test_a_killed_pack_is_resumed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    alone: Callable[[str], Any],
    share: float,
    study: str,
) -> None:
    """After a share of the evaluations: amid the search, amid the final runs. The rest may be packed
    otherwise.
    """
    whole = alone(study)
    evaluations = sum(len(end.history) - 1 for end in whole[1].values())
    advance, left = Simulation.advance, round(share * evaluations)

    def dies(self: Simulation) -> dict[str, float]:
        nonlocal left
        left -= 1
        if not left:
            raise Killed
        return advance(self)

    monkeypatch.setattr(Simulation, "advance", dies)
    with pytest.raises(Killed):
        sweep(tmp_path, study, 4)
    asked = SweepPaths(tmp_path, "s").state().requests.values()
    assert any(request.kind == TrialKind.FINAL for request in asked) == (share > 0.5)
    assert said(sweep(tmp_path, study, 3, resume=True)) == whole
