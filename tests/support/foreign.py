"""Files of others, and sweeps in folders with them: opened, and run without Ray."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from suite.runs import single as runs
from suite.studies.study import Study
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.sweep import Sweep
from tests.support.searches import a_study
from trials.run.checkpoint import Checkpoint
from trials.run.outcome import TrialResult
from trials.run.spec import TrialSpec

ROUNDS = {"rounds": 2, "clients": 4, "participation": 1.0}


def little(**given: Any) -> Study:
    """A study whose trials take milliseconds."""
    base = {"trials": 2, "seeds": 1, "sampler": "random", "scheduler": "none", "settings": ROUNDS}
    return a_study(**{**base, **given})


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def put(path: Path, content: bytes = b"mine") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


_outcomes: dict[str, TrialResult] = {}


def outcome(spec: TrialSpec) -> TrialResult:
    """What a trial reports; each runs once."""
    key = spec.model_dump_json()
    if key not in _outcomes:
        done = runs.execute(spec, None, "cpu", lambda entry: None).result
        done.intermediates = {e["round"]: e["val_accuracy"] for e in done.history}
        _outcomes[key] = done
    return _outcomes[key]


def leave_behind(place: str) -> None:
    """All that a trial may: its checkpoint, one set aside, and a write cut off."""
    for path in (place, f"{place}.damaged", f"{place}.0123abcd.part"):
        Checkpoint(path).save({"round": 1})


def play(sweep: Sweep, most: int = 10**6, then: str = "cancelled", deadline: Any = None) -> Any:
    """Run an opened sweep without Ray; after so many trials it is asked to end."""

    def drive(_: Sweep, resources: Any) -> None:
        folder = sweep.paths.checkpoint_folder(sweep.id)
        for _number in range(most):
            found = sweep.search.next()
            if found is None:
                return
            ask, new = found
            sweep._requested(ask, new)
            leave_behind(f"{folder}/{ask.trial_id}.pt")
            sweep._ended(ask, outcome(sweep.search.spec(ask)))
        sweep.control.end(then)

    with patch.object(Sweep, "_drive", drive):
        return sweep.run(SimpleNamespace(), deadline)


def swept(folder: Path, name: str = "s", **given: Any) -> SweepPaths:
    """A finished sweep in the storage `folder`/runs."""
    place = SweepPaths(folder / "runs", name)
    play(Sweep("s", little(**given), place))
    return place
