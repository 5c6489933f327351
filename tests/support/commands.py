"""Helpers for tests that run the real command."""

import io
import json
import math
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import chdir, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from filelock import FileLock

from suite.cli.app import main
from suite.execution import cluster, driver
from suite.execution.dispatch import ExecutionPlan
from suite.results.table import FILE, PLAIN, read
from suite.tracking.store import Record, Store

SUITE = str(Path(sys.executable).with_name("suite"))
SINGLY = ("--set", "max_concurrent=1")
# Batched: compiling loops takes the workers of every sweep seconds.
STUDY = """
algorithms: [fedavg, folb]
datasets: [digits]
models: [logreg]
heterogeneity: [iid, "labels(2)+system(steps=1..5)"]
trials: 6
seeds: 2
sampler: random
scheduler: none
target: 0.5
settings: {rounds: 6, clients: 4, participation: 1.0, execution: batched}
"""


def suite(
    *args: Any, cwd: Path, code: int | None = 0, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command, with `env` on top of this process's; checks its exit code unless `code` is
    None.
    """
    whole = {**os.environ, **(env or {})}
    done = subprocess.run(
        [SUITE, *map(str, args)], cwd=cwd, env=whole, capture_output=True, text=True, timeout=280
    )
    if code is not None:
        assert done.returncode == code, done.stderr[-3000:]
    return done


@dataclass(frozen=True)
class Here:
    """What a command did inside this process, which spares the start of another."""

    returncode: int
    stdout: str
    stderr: str


def _here(plan: ExecutionPlan) -> None:
    """Drive a sweep without Ray, as it would be with it."""
    fault = driver.in_process(plan).fault
    if fault is not None:
        raise fault


def suite_here(*args: Any, cwd: Path, code: int | None = 0, on_ray: bool = False) -> Here:
    """Run the command's entry point in this process, trials included; `on_ray` on the Ray that the first such
    sweep of the process starts and the process's end stops. Checks its exit code as `suite` does.
    """
    out, err = io.StringIO(), io.StringIO()

    with (
        chdir(cwd),
        redirect_stdout(out),
        redirect_stderr(err),
        patch("sys.argv", ["suite", *map(str, args)]),
        patch.object(cluster.ray, "shutdown"),
        patch.object(driver, "drive", driver.drive if on_ray else _here),
    ):
        try:
            main()
            got = 0
        except SystemExit as stop:
            got = int(stop.code or 0)
    assert code in (None, got), err.getvalue()[-3000:]
    return Here(got, out.getvalue(), err.getvalue())


def document(done: subprocess.CompletedProcess[str] | Here) -> Any:
    """Its standard output as exactly one JSON document."""
    return json.loads(done.stdout)


def fault(done: subprocess.CompletedProcess[str] | Here) -> str:
    """The message of a command that ended with one, whole: all that follows what it said before."""
    before, _, message = done.stderr.partition("error: ")
    assert before == "" or before.endswith("\n")
    assert "Traceback" not in done.stderr
    return message.removesuffix("\n")


def study_file(folder: Path, text: str = STUDY) -> Path:
    """A study on disk."""
    path = folder / "small.yaml"
    path.write_text(text)
    return path


def once(temporary: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder that is made by the first of several test processes to need it."""
    base = temporary.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    folder = base / name
    with FileLock(base / f"{name}.lock"):
        if not folder.exists():
            make_in = base / f"{name}-made"
            make_in.mkdir()
            make(make_in)
            make_in.rename(folder)
    return folder


@dataclass(frozen=True)
class Run:
    """A run in MLflow; a trial's `tags` also have what its row in the table says."""

    run_id: str
    status: str
    tags: dict[str, Any]
    params: dict[str, str]
    metrics: dict[str, float]


def runs_of(store: Store, status: str = "", **tags: str) -> list[Record]:
    """The runs of a store with these tags, and this status of MLflow's, oldest first."""
    return [
        run
        for run in store._runs("")
        if status in ("", run.status) and all(run.tags.get(k) == v for k, v in tags.items())
    ]


def records(folder: Path, **tags: str) -> list[Run]:
    """What a sweep under `folder` has in its MLflow store, and in its table."""
    store, rows = Store(None, folder / "runs"), {}
    for path in (folder / "runs").glob(f"*/{FILE}"):
        frame = read(path).columns(PLAIN).dropna(axis="columns", how="all")
        rows |= {row["run_id"]: row for row in frame.to_dict("records")}
    found = []
    for run in runs_of(store):
        row = {key: value for key, value in rows.get(run.run_id, {}).items() if value is not None}
        params = store.client.get_run(run.run_id).data.params
        own = {**row, **run.tags}
        if all(str(own.get(key)) == value for key, value in tags.items()):
            found.append(Run(run.run_id, run.status, own, params, dict(run.metrics)))
    return found


def curve(folder: Path, run: Run, metric: str) -> list[tuple[int, float]]:
    """(round, value) of a metric that a run recorded."""
    store = Store(None, folder / "runs")
    entries = store.curve(store.get(run.run_id), [metric])
    return [(int(entry["round"]), entry[metric]) for entry in entries]


def histories(folder: Path) -> dict[str, Any]:
    """Every trial's params and recorded metrics, with times left out, by trial id."""
    store = Store(None, folder / "runs")
    found = {}
    for run in records(folder):
        if run.tags["kind"] in ("search", "final"):
            names = [name for name in run.metrics if not name.endswith("_seconds")]
            curve = store.curve(store.get(run.run_id), names)
            found[run.tags["trial_id"]] = (run.tags["kind"], run.tags["origin"], run.params, curve)
    return found


def counts(folder: Path) -> Counter[tuple[str, str]]:
    """Number of runs by (kind, MLflow status)."""
    runs = runs_of(Store(None, folder / "runs"))
    return Counter((run.tags["kind"], run.status) for run in runs)


STALLED = 600.0
"""Seconds without a word or an event after which a sweep is taken to hang, on a machine that may be busy."""


def goes_on(process: "subprocess.Popen[bytes]", until: Callable[[], bool], *files: Path) -> None:
    """Wait until something is true or a process is over, however long that takes, as long as these files
    of its grow.
    """
    before: list[int] = []
    since = time.monotonic()
    while process.poll() is None and not until():
        sizes = [path.stat().st_size if path.exists() else 0 for path in files]
        if sizes != before:
            before, since = sizes, time.monotonic()
        assert time.monotonic() - since < STALLED, f"nothing happens: {files}"
        time.sleep(0.02)


def cut_short(
    *args: Any, cwd: Path, journal: Path, ends: float, signal: int, event: str = "end"
) -> int:
    """Start the command, send it a signal once so many trials have ended (or met another `event`);
    its exit code.
    """

    def enough() -> bool:
        return journal.exists() and journal.read_text().count(f'"event":"{event}"') >= ends

    env = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with open(cwd / "log", "w") as log:
        process = subprocess.Popen(
            [SUITE, *map(str, args)], cwd=cwd, env=env, stdout=log, stderr=log
        )
        goes_on(process, enough, journal, cwd / "log")
        if process.poll() is None:
            process.send_signal(signal)
        goes_on(process, lambda: False, journal, cwd / "log")
        return process.wait()


def to_its_end(*args: Any, cwd: Path, journal: Path) -> None:
    """Run the command to its end, for as long as it gets on."""
    code = cut_short(*args, cwd=cwd, journal=journal, ends=math.inf, signal=0)
    assert code == 0, (cwd / "log").read_text()[-3000:]


def whole(folder: Path) -> dict[str, tuple[int, int]]:
    """All that is in a folder: kind and size, by name."""
    found = ((path, path.lstat()) for path in folder.rglob("*") if "__pycache__" not in path.parts)
    return {str(path): (stat.st_mode, stat.st_size) for path, stat in found}
