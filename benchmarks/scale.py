"""Make the records of one large sweep without training, and measure the commands that read them.

    python benchmarks/scale.py make FOLDER --trials 1000     100 entries, each with these trials and 3 final runs
    python benchmarks/scale.py measure FOLDER                seconds and memory of the commands that read it

A sweep's own code journals and records each trial. Its results are those of one real run of the algorithm for 3 rounds, with
random scores. With `--quick` no trial has a run in MLflow, which saves 15 ms of processor time per trial.
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
"""The largest number of records that may wait to be written."""


class Quick(Store):
    """A store that records a sweep and its leaderboard, but none of its trials."""

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
        """Start a run and return its id; a trial's run gets an id, but is not recorded."""
        if "trial_id" not in tags:
            return super().create(experiment, name, tags, parent, seconds)
        run_id = uuid.uuid4().hex
        self._left_out.add(run_id)
        return run_id

    def log(self, run_id: str, *args: Any, **options: Any) -> None:
        """Write to a run unless it is a trial's."""
        if run_id not in self._left_out:
            super().log(run_id, *args, **options)

    def set_status(self, run_id: str, status: str) -> None:
        """Set the status of a run unless it is a trial's."""
        if run_id not in self._left_out:
            super().set_status(run_id, status)


class Filled(Sweep):
    """A sweep whose trials end at once, with made-up results."""

    quick = False

    def _drive(self, resources: Any) -> None:
        if self.quick:
            self.recording.store = Quick(self.paths.storage)
        self.reported: dict[str, TrialResult] = {}
        while (proposal := self.search.next()) is not None:
            request, new = proposal
            self._requested(request, new)
            self._ended(request, self._outcome(request))
            while len(self.state.ended) - len(self.state.recorded) > WAITING:
                time.sleep(0.1)

    def _outcome(self, request: TrialRequest) -> TrialResult:
        """Return the result of one real run of the trial's algorithm, with random scores that depend on the trial's id."""
        spec = self.search.spec(request)
        kind = f"{spec.algorithm} {request.counted}"
        if kind not in self.reported:
            done = single.execute(spec, None, "cpu", lambda entry: None).result
            done.intermediates = {int(e["round"]): e["val_accuracy"] for e in done.history}
            self.reported[kind] = done
        result = copy.deepcopy(self.reported[kind])
        draw = random.Random(request.trial_id)
        for entry in result.history[1:]:
            entry["val_accuracy"] = draw.random()
            entry["test_accuracy"] = entry["val_accuracy"] + draw.gauss(0, 0.01)
        result.intermediates = {int(e["round"]): e["val_accuracy"] for e in result.history}
        return result


def make(folder: Path, trials: int, entries: int, quick: bool) -> dict[str, Any]:
    """Make the sweep with these trials per entry and 10 or more entries; return its numbers of runs, times and sizes."""
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
    """Return the seconds, processor seconds and peak memory of each command that reads the sweep, run in a new process."""
    rows = []
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
        rows.append(row)
    return {"commands": rows}


_PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
"""
"""The program that runs a command and prints its peak memory in kB last."""


def main() -> None:
    """Make the records of a large sweep, or measure the commands that read them."""
    options = parser(__doc__)
    options.add_argument("what", choices=["make", "measure"])
    options.add_argument("folder", type=Path)
    options.add_argument("--trials", type=int, default=1000)
    options.add_argument("--entries", type=int, default=100, help="10 or more")
    options.add_argument("--quick", action="store_true", help="record no trial in MLflow")
    args = options.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    if args.what == "make":
        document = make(args.folder, args.trials, args.entries, args.quick)
    else:
        document = measure(args.folder)
    show(document, args.json)


if __name__ == "__main__":
    main()
