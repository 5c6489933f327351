"""A store of one large sweep, made without training, and what reading it takes.

    python benchmarks/scale.py make FOLDER --trials 1000     100 entries of so many trials, 3 final runs each
    python benchmarks/scale.py measure FOLDER                seconds and memory of the commands that read it

Each trial is journaled and recorded by the code of a sweep. What it reports was reported once, by a run of its
algorithm for 3 rounds, with other scores. With `--quick` the rows of MLflow's tables are written by SQL, without
MLflow, which takes 15 ms of a processor for each run.
"""

import copy
import json
import random
import resource
import sqlite3
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from measuring import parser, show
from suite.formats import FORMAT
from suite.runs import single
from suite.search.trial import TrialRequest
from suite.studies.study import check_study
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.sweep import Sweep
from suite.tracking.schema.tags import PREFIX
from suite.tracking.store import Store
from trials.run.result import TrialResult

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
    """A store whose runs are written as MLflow writes them, without it."""

    def __init__(self, storage: Path) -> None:
        super().__init__(None, storage)
        file = storage / "mlflow.db"
        self._rows = sqlite3.connect(file, check_same_thread=False, timeout=60)
        self._rows.execute("pragma synchronous = off")

    def create(
        self,
        experiment: str,
        name: str,
        tags: Mapping[str, Any],
        parent: str | None = None,
        seconds: float = 0.0,
    ) -> str:
        """Start a run; its id."""
        run_id, now = uuid.uuid4().hex, time.time()
        folder = f"{self.artifacts}/{run_id}/artifacts"
        row = (run_id, name, "UNKNOWN", "", "", "unknown", "RUNNING", int((now - seconds) * 1000))
        self._put("runs", [(*row, None, "", "active", folder, experiment, None)])
        own = {PREFIX + key: str(value) for key, value in {"format": FORMAT, **tags}.items()}
        own |= {"mlflow.runName": name, "mlflow.parentRunId": parent or ""}
        self._put("tags", [(key, text, run_id) for key, text in own.items()])
        return run_id

    def log(
        self,
        run_id: str,
        params: Mapping[str, Any] | None = None,
        history: Iterable[Mapping[str, float]] = (),
        tags: Mapping[str, Any] | None = None,
    ) -> None:
        """Params, tags, and metrics with step = round."""
        now, last = int(time.time() * 1000), {}
        points = [
            (name, float(value), now, run_id, int(entry["round"]), 0)
            for entry in history
            for name, value in entry.items()
            if name != "round"
        ]
        for key, value, at, run, step, _ in points:
            last[key] = (key, value, at, step, 0, run)
        self._put("metrics", points)
        self._put("latest_metrics", list(last.values()))
        self._put("params", [(k, str(v), run_id) for k, v in (params or {}).items()])
        self._put("tags", [(PREFIX + k, str(v), run_id) for k, v in (tags or {}).items()])

    def set_status(self, run_id: str, status: str) -> None:
        """The status, and the end."""
        end = int(time.time() * 1000)
        change = "update runs set status = ?, end_time = ? where run_uuid = ?"
        with self._rows:
            self._rows.execute(change, (status, end, run_id))

    def _put(self, table: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            marks = ", ".join("?" * len(rows[0]))
            with self._rows:
                self._rows.executemany(f"insert or replace into {table} values ({marks})", rows)


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
            while self.progress.unrecorded > WAITING:
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
    args.add_argument("--quick", action="store_true", help="write the runs without MLflow")
    given = args.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.what == "make":
        found = make(given.folder, given.trials, given.entries, given.quick)
    else:
        found = measure(given.folder)
    show(found, given.json)


if __name__ == "__main__":
    main()
