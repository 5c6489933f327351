"""One federated-learning system under measurement, as a process that runs rounds when told to.

    python benchmarks/loop.py '{"name": "784-10", ...}'

prepares a `Workload`, runs two rounds (that is when compilers compile) and prints `ready`. Each line
it then reads is a number of seconds: it runs whole rounds for at least so long and prints
`{"steps": ..., "samples": ..., "seconds": ...}`. When there are no more lines it prints
`{"peak_bytes": ...}`. All else that it prints goes to standard error.

Needs only the standard library and NumPy, so that a system can be measured under another interpreter
that has the system but not the suite (`PYTHONPATH` leads here).
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
"""Everyone's learning rate: small, since there is nothing to learn from random labels."""
Round = Callable[[], tuple[int, int]]
"""Runs a round of FedAvg; the local steps in it, and the samples in these."""


@dataclass(frozen=True)
class Workload:
    """FedAvg on random data: client k holds `sizes[k]` samples and goes through them once a round.

    `per_round` clients, drawn anew each round, take sizes[k] / batch_size steps each, which comes out
    even; they are averaged by their samples. `model` is a name of the suite's. Samples are N(0, 1)
    floats of `shape`, or whole numbers below `tokens`; labels are below `classes`. `device` is cpu, or
    cuda for the suite and the loop; `execution` is the suite's, None its own choice.
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
        """The workload as JSON, for a command line."""
        return json.dumps(asdict(self))

    def data(self) -> list[tuple[npt.NDArray[Any], npt.NDArray[np.int64]]]:
        """Samples (m, *shape), float32 or int64, and labels (m,) of each client."""
        rng, found = np.random.default_rng(0), []
        for m in self.sizes:
            size = (m, *self.shape)
            x = rng.integers(0, self.tokens, size) if self.tokens else rng.normal(size=size)
            y = rng.integers(0, self.classes, m)
            found.append((x if self.tokens else x.astype(np.float32), y))
        return found

    def draw(self, rng: np.random.Generator) -> list[int]:
        """The clients of a round."""
        return rng.choice(len(self.sizes), self.per_round, replace=False).tolist()

    def work(self, clients: list[int]) -> tuple[int, int]:
        """Local steps and samples of a round of these clients."""
        samples = sum(self.sizes[k] for k in clients)
        return samples // self.batch_size, samples


def read(text: str) -> Workload:
    """The workload that `written` gave the text of."""
    content = json.loads(text)
    content |= {name: tuple(content[name]) for name in ("shape", "sizes")}
    return Workload(**content)


def serve(prepare: Callable[[Workload], Round]) -> None:
    """Be the worker of the module's docstring; the workload is the first argument."""
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
    """Whole rounds, at least one, for at least `seconds`."""
    steps = samples = 0
    started = time.perf_counter()
    while True:
        taken, seen = run_round()
        steps, samples = steps + taken, samples + seen
        elapsed = time.perf_counter() - started
        if elapsed >= seconds:
            return {"steps": steps, "samples": samples, "seconds": elapsed}
