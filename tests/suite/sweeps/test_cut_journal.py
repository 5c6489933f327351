"""A journal that lost its second half: what ran after it runs again, comes to the same, and is recorded once."""

from pathlib import Path
from typing import Any

import pytest

from suite.execution.cluster import Resources
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.sweep import Sweep
from suite.tracking.store import Store
from tests.support.commands import runs_of
from tests.support.searches import a_study

pytestmark = pytest.mark.usefixtures("in_this_process")


def swept(paths: SweepPaths, resume: bool = False) -> Sweep:
    given: dict[str, Any] = {"algorithms": ["fedavg", "folb"], "trials": 3, "seeds": 2}
    sweep = Sweep("s", a_study(**given, save="best"), paths, resume=resume)
    sweep.run(Resources(max_concurrent=1))
    return sweep


def kept(paths: SweepPaths) -> tuple[dict[str, str], dict[str, bytes], dict[str, bytes]]:
    """The runs of trials in the store, and the files that are tuned and saved."""
    store = Store(None, paths.storage)
    runs = {
        run.run_id: run.tags["trial_id"]
        for run in runs_of(store, sweep="s")
        if "trial_id" in run.tags
    }
    tuned, saved = (
        {
            str(path): path.read_bytes()
            for path in (paths.folder / name).rglob("*")
            if path.is_file()
        }
        for name in ("tuned", "models")
    )
    return runs, tuned, saved


def cut(paths: SweepPaths) -> None:
    lines = paths.journal.read_bytes().splitlines(keepends=True)
    paths.journal.write_bytes(b"".join(lines[: len(lines) // 2]))


def test_what_runs_again_takes_the_place_of_the_former_run_and_its_model(tmp_path: Path) -> None:
    paths = SweepPaths(tmp_path / "runs", "s")
    swept(paths)
    runs, _, _ = kept(paths)
    cut(paths)
    swept(paths, resume=True)
    again, tuned, _ = kept(paths)
    assert sorted(again.values()) == sorted(runs.values())
    assert again.keys() != runs.keys()
    finals = [run_id for run_id, trial in again.items() if "-f" in trial]
    assert len(finals) == 4
    text = b"".join(tuned.values()).decode()
    assert all(run_id in text for run_id in finals)
