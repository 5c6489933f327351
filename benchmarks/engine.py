"""Local steps per second of the suite, of a hand-written loop and of peers.

    python benchmarks/engine.py --peer-python .venv-peers/bin/python --plot engine.svg
    python benchmarks/engine.py --device cuda

Every system is a process of its own (`worker.py`) with one thread on one core. In each of several runs
they take turns, each for a second, so that a machine that slows down slows all of them; medians over the
runs are compared.
"""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import plots
from measuring import ROOT, cores, machine, parser, show
from suite.console import say
from trials import models
from trials.common.device import DEVICES, named, usable
from trials.engine.training import EXECUTIONS, executions
from trials.models.base import Model
from trials.settings import Settings
from worker import Workload

HERE = Path(__file__).resolve().parent
PEERS = ("fedjax", "flwr", "pfl", "fedlab")
"""Peers by the module that is imported; each has a script beside this one."""
SYSTEMS = ("ours", "loop")
PATIENCE = 120.0
"""Seconds that a system may take to get ready."""
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "PYTHONPATH": f"{ROOT}{os.pathsep}{HERE}",
}


def _workloads() -> Iterator[Workload]:
    yield Workload("784-10", "logreg", (784,), 10, (600,) * 10, 10, 10)
    uneven = tuple(10 * (1 + 7 * k % 20) for k in range(30))  # 1..20 steps
    yield Workload("60-10", "logreg", (60,), 10, uneven, 10, 10)
    yield Workload("cnn", "mcmahan_cnn", (1, 28, 28), 10, (600,) * 2, 2, 50)
    yield Workload("lstm", "char_lstm", (80,), 80, (20,) * 10, 10, 10, tokens=80)
    yield Workload("cifar10_cnn", "cifar10_cnn", (3, 32, 32), 10, (500,) * 2, 2, 50)


WORKLOADS = {workload.name: workload for workload in _workloads()}


class Worker:
    """A running system, see `worker`; raises `RuntimeError` when it ends too early."""

    def __init__(self, command: list[str], workload: Workload, core: int) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - lives as long as the worker
        self._process = subprocess.Popen(
            [*command, workload.written()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=os.environ | ONE_THREAD,
            start_new_session=True,
        )
        if hasattr(os, "sched_setaffinity"):  # Linux
            os.sched_setaffinity(self._process.pid, {core})

    def wait(self) -> None:
        """Until it is ready; one that takes longer than `PATIENCE` is ended."""
        timer = threading.Timer(PATIENCE, self.close)
        timer.start()
        try:
            self._line()
        finally:
            timer.cancel()

    def start(self, seconds: float) -> None:
        """Run rounds for at least so long; `result` waits for them."""
        assert self._process.stdin is not None
        print(seconds, file=self._process.stdin, flush=True)

    def result(self) -> dict[str, float]:
        """Steps, samples and seconds of what was started."""
        found: dict[str, float] = json.loads(self._line())
        return found

    def finish(self) -> int:
        """Let it end; its peak memory in bytes."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        peak = int(json.loads(self._line())["peak_bytes"])
        self._process.wait()
        return peak

    def close(self) -> None:
        """End it and what it started, if they are still there."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            said = self._errors.read().strip().splitlines() or ["no message"]
            raise RuntimeError(f"a system that is measured ended: {said[-1]}")
        return line


@contextmanager
def running(command: list[str], workload: Workload, core: int) -> Iterator[Worker]:
    """Start a worker, give it when it is ready, and end it afterwards."""
    worker = Worker(command, workload, core)
    try:
        worker.wait()
        yield worker
    finally:
        worker.close()


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    """Everything that was asked for, as one document; see docs/engine.md for its fields."""
    usable(asked.device)
    missing = absent(asked.peers, asked.peer_python)
    asked.peers = [name for name in asked.peers if name not in missing]
    parts: list[dict[str, list[dict[str, Any]]]] = []
    for name in asked.workloads:
        try:
            parts.append(_workload(replace(WORKLOADS[name], device=asked.device), asked))
        except RuntimeError as error:  # the figures of the others are kept
            failed = {"workload": name, "system": "ours or loop", "why": str(error)}
            parts.append({"systems": [], "two_at_once": [], "failed": [failed]})
    return {
        "machine": machine(),
        "runs": asked.runs,
        "seconds": asked.seconds,
        "device": asked.device,
        "not_installed": missing,
        **{key: [row for part in parts for row in part[key]] for key in parts[0]},
    }


def absent(peers: list[str], python: str) -> list[str]:
    """The peers that an interpreter cannot import."""
    code = "import sys, importlib.util as u; print(*(n for n in sys.argv[1:] if u.find_spec(n)))"
    said = subprocess.run([python, "-c", code, *peers], capture_output=True, text=True, check=True)
    return [name for name in peers if name not in said.stdout.split()]


def _executions(workload: Workload, wanted: list[str]) -> list[str]:
    """Those of the wanted executions that a workload has on its device."""
    model = Model(models.parse(workload.model), workload.shape, workload.classes)
    settings = Settings(batch_size=workload.batch_size)
    return [how for how in executions(model, settings, named(workload.device)) if how in wanted]


def _workload(workload: Workload, asked: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """One workload on all systems, which take turns, and then two of ours at once."""
    commands = {name: [sys.executable, str(HERE / f"{name}.py")] for name in SYSTEMS}
    commands |= {name: [asked.peer_python, str(HERE / f"{name}_peer.py")] for name in asked.peers}
    systems = {name: (command, workload) for name, command in commands.items()}
    for how in _executions(workload, asked.executions):
        systems[f"ours, {how}"] = commands["ours"], replace(workload, execution=how)
    one, *others = cores()
    failed: dict[str, str] = {}
    with ExitStack() as stack:
        workers: dict[str, Worker] = {}
        for name, (command, work) in systems.items():
            say(f"{workload.name}: preparing {name}")
            try:
                workers[name] = stack.enter_context(running(command, work, one))
            except RuntimeError as error:
                if name not in asked.peers:
                    raise
                failed[name] = str(error)
        second = None
        if others:
            second = stack.enter_context(running(commands["ours"], workload, others[0]))
        found: dict[str, list[float]] = {name: [] for name in workers}
        both: list[float] = []
        for run in range(asked.runs):
            say(f"{workload.name}: run {run + 1} of {asked.runs}")
            for name, worker in workers.items():
                worker.start(asked.seconds)
                found[name].append(_rate(worker.result()))
            if second is not None:
                pair = (workers["ours"], second)
                for worker in pair:
                    worker.start(asked.seconds)
                both.append(sum(_rate(worker.result()) for worker in pair))
        peaks = {name: worker.finish() for name, worker in workers.items()}
    return {
        "systems": _compared(workload, found, peaks),
        "two_at_once": _pair(workload, both, found["ours"]),
        "failed": [{"workload": workload.name, "system": n, "why": w} for n, w in failed.items()],
    }


def _compared(
    workload: Workload, rates: dict[str, list[float]], peaks: dict[str, int]
) -> list[dict[str, Any]]:
    """Each system's steps per second, beside ours."""
    ours = statistics.median(rates["ours"])
    return [
        {
            "workload": workload.name,
            "system": name,
            "steps_per_second": (rate := statistics.median(runs)),
            "samples_per_second": rate * workload.batch_size,
            "ours_is_faster": ours / rate,
            "peak_bytes": peaks[name],
            "runs": runs,
        }
        for name, runs in rates.items()
    ]


def _pair(workload: Workload, both: list[float], alone: list[float]) -> list[dict[str, Any]]:
    """Two of ours at once against one; nothing where there is only one core."""
    if not both:
        return []
    together = statistics.median(both)
    ratio = together / statistics.median(alone)
    row = {"workload": workload.name, "steps_per_second": together, "ratio_to_one": ratio}
    return [row | {"runs": both}]


def _rate(result: dict[str, float]) -> float:
    return result["steps"] / result["seconds"]


def main() -> None:
    """Entry point."""
    args = parser(__doc__)
    args.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    args.add_argument("--peers", nargs="*", choices=PEERS, help="default: all; none on cuda")
    args.add_argument("--peer-python", default=sys.executable, help="see benchmarks/README.md")
    args.add_argument("--device", choices=DEVICES, default="cpu")
    args.add_argument(
        "--executions", nargs="*", choices=EXECUTIONS, help="ours in each; default: all on cuda"
    )
    args.add_argument("--runs", type=int, default=5, help="medians of so many")
    args.add_argument("--seconds", type=float, default=1.0, help="of each, at least")
    args.add_argument("--plot", type=plots.file, help="picture to write: .svg, .png or .pdf")
    asked = args.parse_args()
    cuda = asked.device == "cuda"
    if asked.peers is None:
        asked.peers = [] if cuda else list(PEERS)
    elif cuda and asked.peers:
        args.error("peers are not set up for cuda")
    if asked.executions is None:
        asked.executions = list(EXECUTIONS) if cuda else []
    found = measure(asked)
    if asked.plot:
        plots.engine(found, asked.plot)
    show(found, asked.json)


if __name__ == "__main__":
    main()
