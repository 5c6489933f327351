"""Measure the local steps per second of the suite, of a hand-written loop and of peers.

    python benchmarks/engine.py --peer-python .venv-peers/bin/python --plot engine.svg
    python benchmarks/engine.py --device cuda

Each system is a separate process (`worker.py`) with one thread on one core. In each of several runs the systems take
turns of a second, so a machine that slows down slows all of them. The medians over runs are compared.
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
"""The modules of the peers; each peer has a script in this folder."""
SYSTEMS = ("ours", "loop")
PATIENCE = 120.0
"""Seconds after which a system that is not ready is killed."""
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
    """A running system (see `worker.py`). Its methods raise `RuntimeError` if the process has ended too early."""

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
        """Wait until the system is ready; kill it after `PATIENCE` seconds."""
        timer = threading.Timer(PATIENCE, self.close)
        timer.start()
        try:
            self._line()
        finally:
            timer.cancel()

    def start(self, seconds: float) -> None:
        """Start rounds that last at least these seconds in all; `result` waits for their end."""
        assert self._process.stdin is not None
        print(seconds, file=self._process.stdin, flush=True)

    def result(self) -> dict[str, float]:
        """Wait for the rounds that were started; return their steps, samples and seconds."""
        measured: dict[str, float] = json.loads(self._line())
        return measured

    def finish(self) -> int:
        """Let the process end, and return its peak memory in bytes."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        peak = int(json.loads(self._line())["peak_bytes"])
        self._process.wait()
        return peak

    def close(self) -> None:
        """Kill the process and all that it started, if they still run."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            errors = self._errors.read().strip().splitlines() or ["no message"]
            raise RuntimeError(f"the process of a system ended: {errors[-1]}")
        return line


@contextmanager
def running(command: list[str], workload: Workload, core: int) -> Iterator[Worker]:
    """Start a worker on a core, yield it when it is ready, and kill it afterwards."""
    worker = Worker(command, workload, core)
    try:
        worker.wait()
        yield worker
    finally:
        worker.close()


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Measure what the command line says, and return one document; docs/engine.md explains its fields."""
    usable(args.device)
    missing = absent(args.peers, args.peer_python)
    args.peers = [name for name in args.peers if name not in missing]
    parts: list[dict[str, list[dict[str, Any]]]] = []
    for name in args.workloads:
        try:
            parts.append(_workload(replace(WORKLOADS[name], device=args.device), args))
        except RuntimeError as error:  # the other workloads' figures are kept
            failed = {"workload": name, "system": "ours or loop", "why": str(error)}
            parts.append({"systems": [], "two_at_once": [], "failed": [failed]})
    return {
        "machine": machine(),
        "runs": args.runs,
        "seconds": args.seconds,
        "device": args.device,
        "not_installed": missing,
        **{key: [row for part in parts for row in part[key]] for key in parts[0]},
    }


def absent(peers: list[str], python: str) -> list[str]:
    """Return the peers that an interpreter cannot import."""
    code = "import sys, importlib.util as u; print(*(n for n in sys.argv[1:] if u.find_spec(n)))"
    done = subprocess.run([python, "-c", code, *peers], capture_output=True, text=True, check=True)
    return [name for name in peers if name not in done.stdout.split()]


def _executions(workload: Workload, wanted: list[str]) -> list[str]:
    """Return those of the wanted executions that are possible for a workload on its device."""
    model = Model(models.parse(workload.model), workload.shape, workload.classes)
    settings = Settings(batch_size=workload.batch_size)
    return [how for how in executions(model, settings, named(workload.device)) if how in wanted]


def _workload(workload: Workload, args: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """Measure a workload on all systems in turns, and in each run also two processes of the suite at once."""
    commands = {name: [sys.executable, str(HERE / f"{name}.py")] for name in SYSTEMS}
    commands |= {name: [args.peer_python, str(HERE / f"{name}_peer.py")] for name in args.peers}
    systems = {name: (command, workload) for name, command in commands.items()}
    for how in _executions(workload, args.executions):
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
                if name not in args.peers:
                    raise
                failed[name] = str(error)
        second = None
        if others:
            second = stack.enter_context(running(commands["ours"], workload, others[0]))
        rates: dict[str, list[float]] = {name: [] for name in workers}
        both: list[float] = []
        for run in range(args.runs):
            say(f"{workload.name}: run {run + 1} of {args.runs}")
            for name, worker in workers.items():
                worker.start(args.seconds)
                rates[name].append(_rate(worker.result()))
            if second is not None:
                pair = (workers["ours"], second)
                for worker in pair:
                    worker.start(args.seconds)
                both.append(sum(_rate(worker.result()) for worker in pair))
        peaks = {name: worker.finish() for name, worker in workers.items()}
    return {
        "systems": _compared(workload, rates, peaks),
        "two_at_once": _pair(workload, both, rates["ours"]),
        "failed": [{"workload": workload.name, "system": n, "why": w} for n, w in failed.items()],
    }


def _compared(
    workload: Workload, rates: dict[str, list[float]], peaks: dict[str, int]
) -> list[dict[str, Any]]:
    """Return a row per system: its median steps per second, and how many times the suite is faster."""
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
    """Return a row on two processes of the suite at once against one; the list is empty if there is only one core."""
    if not both:
        return []
    together = statistics.median(both)
    ratio = together / statistics.median(alone)
    row = {"workload": workload.name, "steps_per_second": together, "ratio_to_one": ratio}
    return [row | {"runs": both}]


def _rate(result: dict[str, float]) -> float:
    return result["steps"] / result["seconds"]


def main() -> None:
    """Measure and print, as the command line says."""
    cli = parser(__doc__)
    cli.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    cli.add_argument("--peers", nargs="*", choices=PEERS, help="default: all; none on cuda")
    cli.add_argument("--peer-python", default=sys.executable, help="see benchmarks/README.md")
    cli.add_argument("--device", choices=DEVICES, default="cpu")
    cli.add_argument(
        "--executions", nargs="*", choices=EXECUTIONS, help="of the suite; default: all on cuda"
    )
    cli.add_argument("--runs", type=int, default=5, help="the medians of runs count")
    cli.add_argument("--seconds", type=float, default=1.0, help="of each turn, at least")
    cli.add_argument("--plot", type=plots.file, help="picture to write: .svg, .png or .pdf")
    args = cli.parse_args()
    cuda = args.device == "cuda"
    if args.peers is None:
        args.peers = [] if cuda else list(PEERS)
    elif cuda and args.peers:
        cli.error("peers are not set up for cuda")
    if args.executions is None:
        args.executions = list(EXECUTIONS) if cuda else []
    document = measure(args)
    if args.plot:
        plots.engine(document, args.plot)
    show(document, args.json)


if __name__ == "__main__":
    main()
