"""A store of one large sweep, made without training, and what reading it takes.

    python benchmarks/scale.py make FOLDER --trials 1000     100 entries of so many trials, 3 final runs each
    python benchmarks/scale.py measure FOLDER                seconds and memory of the commands that read it

Each trial is journaled and recorded by the code of a sweep. What it reports was reported once, by a run of its
algorithm for 3 rounds, with other scores. With `--quick` no trial has a run in MLflow, which takes 15 ms of a processor for each.
"""

import copy
import json
import random
import resource
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from measuring import parser, show
from suite.runs import single
from suite.search.trial import TrialRequest
from suite.studies.study import check_study
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.sweep import Sweep
from suite.tracking.store import Store
from trials.run.outcome import TrialResult

NAME = "scale"
ALGORITHMS = (
    *("fedavg", "fedprox", "fednova", "scaffold", "feddyn"),
    *("fedadam", "fedyogi", "fedadagrad", "fedavgm", "folb"),
)
LEVELS = [
    "iid",
    *(f"dirichlet({alpha})" for alpha in (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 2.0, 5.0, 10.0)),
]
READING: dict[str, tuple[str, ...]] = {
    "leaderboard": ("leaderboard", NAME),
    "tuned list": ("tuned", "list"),
    "status": ("status", NAME),
    "sweep --resume": ("sweep", f"{NAME}.yaml", "--resume"),
}
WAITING = 2000
"""Records that may wait to be written."""


class Quick(Store):
    """A store that takes the runs of a sweep and of its leaderboard, and no trial's."""

    def __init__(self, storage: Path) -> None:
        super().__init__(None, storage)
        self._left_out: set[str] = set()

    def create(
        self,
        experiment: str,
        name: str,
        tags: Mapping[str, Any],
        parent: str | None = None,
        seconds: float = 0.0,
    ) -> str:
        """Start a run; return its id."""
        if "trial_id" not in tags:
            return super().create(experiment, name, tags, parent, seconds)
        run_id = uuid.uuid4().hex
        self._left_out.add(run_id)
        return run_id

    def log(self, run_id: str, *given: Any, **more: Any) -> None:
        """Write to a run, if there is one."""
        if run_id not in self._left_out:
            super().log(run_id, *given, **more)

    def set_status(self, run_id: str, status: str) -> None:
        """Set the status of a run, if there is one."""
        if run_id not in self._left_out:
            super().set_status(run_id, status)


class Filled(Sweep):
    """A sweep whose trials end at once."""

    quick = False

    def _drive(self, resources: Any) -> None:
        if self.quick:
            self.recording.store = Quick(self.paths.storage)
        self.reported: dict[str, TrialResult] = {}
        while (found := self.search.next()) is not None:
            request, new = found
            self._requested(request, new)
            self._ended(request, self._outcome(request))
            while len(self.state.ended) - len(self.state.recorded) > WAITING:
                time.sleep(0.1)

    def _outcome(self, request: TrialRequest) -> TrialResult:
        """What a run of its algorithm reported, with scores of its own."""
        spec = self.search.spec(request)
        kind = f"{spec.algorithm} {request.counted}"
        if kind not in self.reported:
            done = single.execute(spec, None, "cpu", lambda entry: None).result
            done.intermediates = {int(e["round"]): e["val_accuracy"] for e in done.history}
            self.reported[kind] = done
        found = copy.deepcopy(self.reported[kind])
        draw = random.Random(request.trial_id)
        for entry in found.history[1:]:
            entry["val_accuracy"] = draw.random()
            entry["test_accuracy"] = entry["val_accuracy"] + draw.gauss(0, 0.01)
        found.intermediates = {int(e["round"]): e["val_accuracy"] for e in found.history}
        return found


def make(folder: Path, trials: int, entries: int, quick: bool) -> dict[str, Any]:
    """Make the sweep, of 10 entries or more; what came of it."""
    study = {
        "algorithms": list(ALGORITHMS),
        "datasets": ["digits"],
        "models": ["logreg"],
        "heterogeneity": LEVELS[: entries // len(ALGORITHMS)],
        "trials": trials,
        "seeds": 3,
        "sampler": "random",
        "scheduler": "none",
        "settings": {"rounds": 3, "clients": 4, "participation": 1.0, "eval_every": 1},
    }
    (folder / f"{NAME}.yaml").write_text(json.dumps(study))
    paths = SweepPaths(folder / "runs", NAME)
    began = time.perf_counter()
    sweep = Filled(NAME, check_study(study, {}, NAME), paths, resume=paths.begun)
    sweep.quick = quick
    summary = sweep.run(SimpleNamespace()).summary
    seconds = time.perf_counter() - began
    runs = len(sweep.state.ended)
    size = (folder / "runs" / "mlflow.db").stat().st_size
    journal = paths.journal.stat().st_size
    return {
        "runs": runs,
        "final_runs": summary.final_runs,
        "seconds": round(seconds, 1),
        "runs_per_minute": round(60 * runs / seconds),
        "store_bytes_per_run": round(size / runs),
        "journal_bytes_per_run": round(journal / runs),
    }


def measure(folder: Path) -> dict[str, Any]:
    """Seconds, seconds of processors and peak memory of each command, in a process of its own."""
    found = []
    for name, words in READING.items():
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [str(Path(sys.executable).with_name("suite")), *words]
        timed = ["/usr/bin/env", "python3", "-c", _PEAK, *command]
        done = subprocess.run(timed, cwd=folder, capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        row = {
            "command": name,
            "seconds": round(time.perf_counter() - began, 1),
            "processor_seconds": round(used, 1),
            "peak_megabytes": int(done.stderr.splitlines()[-1]) // 1024,
        }
        found.append(row)
    return {"commands": found}


_PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
"""
"""Runs a command and says its peak memory in kB last."""


def main() -> None:
    """Do as the command line says."""
    args = parser(__doc__)
    args.add_argument("what", choices=["make", "measure"])
    args.add_argument("folder", type=Path)
    args.add_argument("--trials", type=int, default=1000)
    args.add_argument("--entries", type=int, default=100, help="10 or more")
    args.add_argument("--quick", action="store_true", help="give no trial a run in MLflow")
    given = args.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.what == "make":
        found = make(given.folder, given.trials, given.entries, given.quick)
    else:
        found = measure(given.folder)
    show(found, given.json)


if __name__ == "__main__":
    main()
