"""`suite bench engine`: local steps per second of the suite, of a hand-written loop and of peers.

Every system is a process of its own (`suite.bench.worker`) with one thread on one core. In each of
several runs they take turns, each for a second, so that a machine that slows down slows all of them;
medians over the runs are compared.
"""

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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from suite.bench.limit import FLOPS
from suite.bench.worker import Workload
from suite.console import say
from suite.tracking.machine import processor
from trials import models
from trials.device import DEVICES, named, usable
from trials.errors import UserError, unknown
from trials.models.base import Model
from trials.settings import Settings
from trials.solver import EXECUTIONS, executions

ROOT = Path(__file__).resolve().parents[2]
PEERS = ("fedjax", "flwr", "pfl", "fedlab")
"""Peers by the module that is imported; each has a script in benchmarks/."""
PATIENCE = 120.0
"""Seconds that a system may take to get ready."""
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "PYTHONPATH": str(ROOT),
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
    """A running system, see `suite.bench.worker`; raises `RuntimeError` when it ends too early."""

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


@dataclass(frozen=True)
class Plan:
    """What is measured: workloads and peers by name, how often, how long each time, where. Besides as the
    suite chooses itself, it is measured in those of the `executions` that a workload has.

    Raises `UserError` for what there is not, and for peers on a GPU, where they are not set up.
    """

    workloads: tuple[str, ...] = tuple(WORKLOADS)
    peers: tuple[str, ...] = PEERS
    peer_python: str = sys.executable
    runs: int = 5
    seconds: float = 1.0
    device: str = "cpu"
    executions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.workloads:
            if name not in WORKLOADS:
                raise unknown("workload", name, WORKLOADS)
        for name in self.peers:
            if name not in PEERS:
                raise unknown("peer", name, PEERS)
        for name in self.executions:
            if name not in EXECUTIONS:
                raise unknown("execution", name, EXECUTIONS)
        if self.device not in DEVICES:
            raise unknown("device", self.device, DEVICES)
        if self.device == "cuda" and self.peers:
            raise UserError("device is cuda, which peers are not set up for; use --peers none")
        usable(self.device)


def measure(plan: Plan) -> dict[str, Any]:
    """Everything in a plan, as one document; see docs/engine.md for its fields."""
    missing = absent(plan.peers, plan.peer_python)
    there = replace(plan, peers=tuple(name for name in plan.peers if name not in missing))
    return {
        "machine": machine(),
        "runs": plan.runs,
        "seconds": plan.seconds,
        "device": plan.device,
        "not_installed": missing,
        "workloads": [
            _workload(replace(WORKLOADS[name], device=plan.device), there)
            for name in plan.workloads
        ],
    }


def absent(peers: tuple[str, ...], python: str) -> list[str]:
    """The peers that an interpreter cannot import, or that have no script here."""
    code = "import sys, importlib.util as u; print(*(n for n in sys.argv[1:] if u.find_spec(n)))"
    try:
        said = subprocess.run([python, "-c", code, *peers], capture_output=True, text=True)
    except OSError as error:
        raise UserError(f"peer_python is {python!r}, but cannot be run: {error.strerror}") from None
    if said.returncode:
        raise UserError(f"peer_python is {python!r}, but must be a Python: {said.stderr.strip()}")
    found = {name for name in said.stdout.split() if _script(name).exists()}
    return [name for name in peers if name not in found]


def machine() -> dict[str, Any]:
    """The processor's name, where the system tells, and how many cores this process may use."""
    return {"processor": processor() or "unknown", "cores": len(_cores())}


def flops(workload: Workload) -> int:
    """Floating-point operations of a local step in matrix products and convolutions: those of the
    gradient as the suite computes it for one client.
    """
    model = Model(models.parse(workload.model), workload.shape, workload.classes)
    b = workload.batch_size
    x, y = torch.zeros(1, b, *workload.shape), torch.zeros(1, b, dtype=torch.int64)
    with FlopCounterMode(display=False) as counter:
        model.gradients(torch.zeros(1, model.d), x, y, torch.full((1, b), 1 / b))
    return int(counter.get_total_flops())


def _executions(workload: Workload, wanted: tuple[str, ...]) -> list[str]:
    """Those of the wanted executions that a workload has on its device."""
    model = Model(models.parse(workload.model), workload.shape, workload.classes)
    settings = Settings(batch_size=workload.batch_size)
    return [how for how in executions(model, settings, named(workload.device)) if how in wanted]


def _script(peer: str) -> Path:
    return ROOT / "benchmarks" / f"{peer}_peer.py"


def _cores() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def _workload(workload: Workload, plan: Plan) -> dict[str, Any]:
    """One workload on all systems, which take turns, and then two of ours at once."""
    commands = {
        name: [sys.executable, "-m", f"suite.bench.{name}"] for name in ("limit", "ours", "loop")
    }
    commands |= {name: [plan.peer_python, str(_script(name))] for name in plan.peers}
    systems = {name: (command, workload) for name, command in commands.items()}
    for how in _executions(workload, plan.executions):
        systems[f"ours, {how}"] = commands["ours"], replace(workload, execution=how)
    one, *others = _cores()
    failed: dict[str, str] = {}
    with ExitStack() as stack:
        workers: dict[str, Worker] = {}
        for name, (command, work) in systems.items():
            say(f"{workload.name}: preparing {name}")
            try:
                workers[name] = stack.enter_context(running(command, work, one))
            except RuntimeError as error:
                if name not in plan.peers:
                    raise
                failed[name] = str(error)
        second = None
        if others:
            second = stack.enter_context(running(commands["ours"], workload, others[0]))
        found: dict[str, list[dict[str, float]]] = {name: [] for name in workers}
        both: list[float] = []
        for run in range(plan.runs):
            say(f"{workload.name}: run {run + 1} of {plan.runs}")
            for name, worker in workers.items():
                worker.start(plan.seconds)
                found[name].append(worker.result())
            if second is not None:
                pair = (workers["ours"], second)
                for worker in pair:
                    worker.start(plan.seconds)
                both.append(sum(_rate(worker.result()) for worker in pair))
        peaks = {name: worker.finish() for name, worker in workers.items()}
    rates = {name: [_rate(run) for run in runs] for name, runs in found.items()}
    return {
        **_compared(workload, rates, peaks),
        "failed": failed,
        "two_at_once": _pair(both, rates),
    }


def _compared(
    workload: Workload, rates: dict[str, list[float]], peaks: dict[str, int]
) -> dict[str, Any]:
    """Each system's steps per second, beside ours and what the processor could do at most."""
    limit = statistics.median(rates["limit"]) * FLOPS
    ours, step = statistics.median(rates["ours"]), flops(workload)
    return {
        "workload": workload.name,
        "flops_a_step": step,
        "limit_flops_per_second": limit,
        "systems": [
            {
                "system": name,
                "steps_per_second": statistics.median(runs),
                "samples_per_second": statistics.median(runs) * workload.batch_size,
                "ours_is_faster": ours / statistics.median(runs),
                "share_of_limit": statistics.median(runs) * step / limit,
                "peak_bytes": peaks[name],
                "runs": runs,
            }
            for name, runs in rates.items()
            if name != "limit"
        ],
    }


def _pair(both: list[float], rates: dict[str, list[float]]) -> dict[str, Any] | None:
    """Two of ours at once against one; None where there is only one core."""
    if not both:
        return None
    together = statistics.median(both)
    ratio = together / statistics.median(rates["ours"])
    return {"steps_per_second": together, "ratio_to_one": ratio, "runs": both}


def _rate(result: dict[str, float]) -> float:
    return result["steps"] / result["seconds"]
