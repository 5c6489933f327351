"""What a round of each algorithm costs, and how the time of a round grows.

    python benchmarks/rounds.py algorithms                    against FedAvg's, logistic regression at 784-10
    python benchmarks/rounds.py scaling --plot scaling.svg    with clients a round, clients in all, weights

One process, one thread, whose processor time counts: what else runs on the machine matters less so.
Algorithms take turns, and medians over the runs are reported.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

import plots
from engine import WORKLOADS
from measuring import machine, parser, show
from ours import federation, round_of
from suite.console import say
from trials import datasets, heterogeneity, models
from trials.algorithms import ALGORITHMS
from trials.common.errors import UserError
from trials.engine.federation import Federation
from trials.federated_data import partition
from trials.models.base import Model
from trials.settings import Settings
from worker import Round, Workload


def seconds_a_round(run_round: Round, least: float) -> float:
    """Mean processor time of a round over at least `least` seconds, and at least one round."""
    rounds, started = 0, time.process_time()
    while True:
        run_round()
        rounds += 1
        elapsed = time.process_time() - started
        if elapsed >= least:
            return elapsed / rounds


def turns(rounds: dict[str, Round], runs: int, seconds: float) -> dict[str, float]:
    """Median over `runs` of each one's seconds a round; they take turns of `seconds`."""
    found: dict[str, list[float]] = {name: [] for name in rounds}
    for run in range(runs):
        say(f"run {run + 1} of {runs}")
        for name, run_round in rounds.items():
            found[name].append(seconds_a_round(run_round, seconds))
    return {name: statistics.median(times) for name, times in found.items()}


def algorithms(runs: int, seconds: float) -> dict[str, Any]:
    """A round of every algorithm at 784-10, as ratios to FedAvg's: time, and samples whose gradient
    is taken. `skipped` are those that cannot run there, with the reason.
    """
    torch.set_num_threads(1)
    rounds: dict[str, Round] = {}
    samples: dict[str, int] = {}
    skipped: dict[str, str] = {}
    for name in ["fedavg", *(name for name in ALGORITHMS if name != "fedavg")]:
        fed = federation(WORKLOADS["784-10"])
        try:
            ALGORITHMS[name]().check(fed.n, fed.model, fed.settings)
            rounds[name] = round_of(fed, name)
            rounds[name]()  # the first may do more than the others
            samples[name] = rounds[name]()[1]
        except UserError as error:
            skipped[name] = str(error)
    times = turns(rounds, runs, seconds)
    return {
        "machine": machine(),
        "runs": runs,
        "seconds": seconds,
        "algorithms": [
            {
                "algorithm": name,
                "seconds_a_round": times[name],
                "ratio": times[name] / times["fedavg"],
                "ratio_of_sample_gradients": samples[name] / samples["fedavg"],
            }
            for name in sorted(rounds, key=lambda name: times[name])
        ],
        "skipped": skipped,
    }


@dataclass(frozen=True)
class Axis:
    """One thing that grows: `make(model, x)` is the round at x; `models` are measured."""

    name: str
    points: tuple[int, ...]
    models: tuple[str, ...]
    make: Callable[[str, int], Round]


def _per_round(model: str, k: int) -> Round:
    return round_of(federation(Workload("", model, (784,), 10, (20,) * k, k, 10)))


def _in_all(model: str, n: int) -> Round:
    settings = Settings(clients=n, participation=10 / n, batch_size=10, local_steps=10)
    level = heterogeneity.parse("natural")
    data = partition(datasets.parse("gaussians").load(0, n, None), level, settings)
    fitted = Model(models.parse(model), data.dataset.shape, data.dataset.classes)
    return round_of(Federation(data, fitted, level, settings, 0, torch.device("cpu")))


def model_of(d: int) -> str:
    """Two hidden layers of w, such that w^2 + (784 + 1 + 1 + 10) w + 10 is about d."""
    w = max(1, round((-796 + math.sqrt(796**2 + 4 * (d - 10))) / 2))
    return f"mlp({w},{w})"


def _weights(model: str, d: int) -> Round:
    return round_of(federation(Workload("", model_of(d), (784,), 10, (50,) * 10, 10, 10)))


AXES = (
    Axis("clients a round", (10, 30, 100, 300, 1000), ("logreg", "mlp(20,20)"), _per_round),
    Axis("clients in all", (100, 1000, 10_000, 100_000), ("logreg", "mlp(20,20)"), _in_all),
    Axis("weights", (1000, 10_000, 100_000, 1_000_000, 10_000_000), ("mlp(w,w)",), _weights),
)


def scaling(runs: int, seconds: float, most: int) -> dict[str, Any]:
    """Time of a round along each of `AXES`, up to `most` of anything.

    Samples have 784 features, minibatches 10 samples. A client takes 2 steps a round on the first axis,
    where all take part; 10 on the second and 5 on the third, with 10 clients a round. A `slope` is that
    from the point before on logarithmic axes: 1 where twice as much takes twice as long.
    """
    torch.set_num_threads(1)
    points = [
        point
        for axis in AXES
        for model in axis.models
        for point in _line(axis, model, runs, seconds, most)
    ]
    return {"machine": machine(), "runs": runs, "seconds": seconds, "points": points}


def _line(axis: Axis, model: str, runs: int, seconds: float, most: int) -> Iterator[dict[str, Any]]:
    before: tuple[int, float] | None = None
    for at in (x for x in axis.points if x <= most):
        say(f"{axis.name}: {model}, {at:,}")
        run_round = axis.make(model, at)
        run_round()
        time = statistics.median(seconds_a_round(run_round, seconds) for _ in range(runs))
        slope = before and math.log(time / before[1]) / math.log(at / before[0])
        yield {
            "axis": axis.name,
            "model": model,
            "at": at,
            "seconds_a_round": time,
            "slope": slope,
        }
        before = at, time


def main() -> None:
    """Entry point."""
    args = parser(__doc__)
    args.add_argument("what", choices=("algorithms", "scaling"))
    args.add_argument("--runs", type=int, help="medians of so many; 51 of algorithms, 3 of scaling")
    args.add_argument("--seconds", type=float, help="of each, at least; 0 and 0.5")
    args.add_argument("--most", type=int, default=10**7, help="scaling: leave out what is beyond")
    args.add_argument("--plot", type=plots.file, help="scaling: picture to write")
    asked = args.parse_args()
    runs, seconds = (51, 0.0) if asked.what == "algorithms" else (3, 0.5)
    runs = runs if asked.runs is None else asked.runs
    seconds = seconds if asked.seconds is None else asked.seconds
    if asked.what == "algorithms":
        found = algorithms(runs, seconds)
    else:
        found = scaling(runs, seconds, asked.most)
        if asked.plot:
            plots.scaling(found, asked.plot)
    show(found, asked.json)


if __name__ == "__main__":
    main()
