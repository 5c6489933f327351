"""A federated-learning system that is measured, as a process that runs rounds on request.

    python benchmarks/loop.py '{"name": "784-10", ...}'

prepares a `Workload`, runs two rounds, in which compilers compile, and prints `ready`. Then it reads lines with a number of
seconds each. For each line it runs whole rounds for at least that time and prints `{"steps": ..., "samples": ..., "seconds":
...}`. At the end of its input it prints `{"peak_bytes": ...}`. All other output goes to standard error.

This module needs only NumPy, so a system can be measured by an interpreter that has the system but not the suite, with this
folder on the `PYTHONPATH`.
"""

import json
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

LR = 0.01
"""The learning rate of all systems: small, since nothing can be learnt from random labels."""
Round = Callable[[], tuple[int, int]]
"""A function that runs a round of FedAvg and returns (local steps, samples in them)."""


@dataclass(frozen=True)
class Workload:
    """FedAvg on random data: client k has `sizes[k]` samples, and trains for one pass over them in a round.

    Each round draws `per_round` clients. A client takes sizes[k] / batch_size steps (a whole number), and models are averaged
    with weights sizes[k]. `model` is a model's name in the suite. Samples are N(0, 1) floats of `shape`, or integers below
    `tokens`; labels are integers below `classes`. `device` is cpu, or cuda for the suite and the loop. `execution` is the
    suite's way to run clients, None for its default.
    """

    name: str
    model: str
    shape: tuple[int, ...]
    classes: int
    sizes: tuple[int, ...]
    per_round: int
    batch_size: int
    tokens: int = 0
    device: str = "cpu"
    execution: str | None = None

    def written(self) -> str:
        """Return the workload as JSON, for a command line."""
        return json.dumps(asdict(self))

    def data(self) -> list[tuple[npt.NDArray[Any], npt.NDArray[np.int64]]]:
        """Return samples `(m, *shape)`, float32 or int64, and labels `(m,)` of each client."""
        rng, clients = np.random.default_rng(0), []
        for m in self.sizes:
            size = (m, *self.shape)
            x = rng.integers(0, self.tokens, size) if self.tokens else rng.normal(size=size)
            y = rng.integers(0, self.classes, m)
            clients.append((x if self.tokens else x.astype(np.float32), y))
        return clients

    def draw(self, rng: np.random.Generator) -> list[int]:
        """Return the clients of a round, drawn without replacement."""
        return rng.choice(len(self.sizes), self.per_round, replace=False).tolist()

    def work(self, clients: list[int]) -> tuple[int, int]:
        """Return the numbers of local steps and of samples in a round of these clients."""
        samples = sum(self.sizes[k] for k in clients)
        return samples // self.batch_size, samples


def read(text: str) -> Workload:
    """Return the workload from its JSON text."""
    content = json.loads(text)
    content |= {name: tuple(content[name]) for name in ("shape", "sizes")}
    return Workload(**content)


def serve(prepare: Callable[[Workload], Round]) -> None:
    """Prepare the workload in the first argument, then answer the lines of the input as the module's docstring describes."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    run_round = prepare(read(sys.argv[1]))
    measured(run_round, 0)
    measured(run_round, 0)
    print("ready", file=answers)
    for line in sys.stdin:
        print(json.dumps(measured(run_round, float(line))), file=answers)
    kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps({"peak_bytes": 1024 * kibibytes}), file=answers)


def measured(run_round: Round, seconds: float) -> dict[str, float]:
    """Run whole rounds, at least one, for at least `seconds`; return the steps, samples and seconds."""
    steps = samples = 0
    started = time.perf_counter()
    while True:
        taken, seen = run_round()
        steps, samples = steps + taken, samples + seen
        elapsed = time.perf_counter() - started
        if elapsed >= seconds:
            return {"steps": steps, "samples": samples, "seconds": elapsed}
