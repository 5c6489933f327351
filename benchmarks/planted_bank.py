"""The bank of `planted_papers.py`: real runs under every reading of made-up papers, kept as curves.

OMP_NUM_THREADS=1 python benchmarks/planted_bank.py digits --seeds 6 --parts runs/planted   # 8 CPU minutes
OMP_NUM_THREADS=1 python benchmarks/planted_bank.py mlp --seeds 4 --parts runs/planted      # 2 CPU minutes

A bank has scenarios, readings (those that a paper's file would declare, and others that no file does), methods and
seeds. A stage is one seed of one scenario; the command makes those that are missing in `--parts`, and writes
`benchmarks/planted/BANK.npz` with the seeds of which every stage is there.

`correct`: of `tests` test samples those that are classified right, (scenario, reading, method, seed, round), round 0
first. `declared`: how many of the readings take declared candidates; the others follow.
"""

import itertools
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from measuring import parser
from suite.console import say
from trials.datasets.base import Dataset
from trials.engine.pack import Pack
from trials.run.scenario import Scenario
from trials.run.spec import TrialSpec, canonical
from trials.run.trial import load_dataset, partition_data, simulate
from trials.settings import Settings

FOLDER = Path(__file__).resolve().parent / "planted"
TOGETHER = 192
"""Runs that are computed in one pack."""
STANDARDISED = "standardised"
"""Of the setting `inputs`: less the training samples' mean, in their deviation; `unit` is in [0, 1]."""
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "fedavg": ("fedavg", {}),
    "fedprox": ("fedprox", {"mu": 1.0}),
    "fedadam": ("fedadam", {"server_lr": 0.03}),
    "plain": ("folb", {"variant": "plain"}),
    "psi 0.3": ("folb", {"variant": "heterogeneity", "psi": 0.3}),
    "psi 1": ("folb", {"variant": "heterogeneity", "psi": 1.0}),
}
"""Three baselines, then the own method's three variants."""
BASELINES = 3


@dataclass(frozen=True)
class Bank:
    """What runs: a model, scenarios (level of heterogeneity, participation), the declared candidates of each open
    setting, and what the readings outside change, one of these each, `outside` times.
    """

    model: str
    rounds: int
    scenarios: Sequence[tuple[str, float]]
    candidates: Mapping[str, Sequence[Any]]
    others: Sequence[Mapping[str, Any]]
    outside: int

    @property
    def declared(self) -> list[dict[str, Any]]:
        """All combinations of the candidates."""
        columns = self.candidates.values()
        return [dict(zip(self.candidates, v, strict=True)) for v in itertools.product(*columns)]

    @property
    def readings(self) -> list[dict[str, Any]]:
        """The declared ones, and then those outside: a declared one with another value of something."""
        rng = random.Random(0)
        drawn = [
            {**rng.choice(self.declared), **o} for o in self.others for _ in range(self.outside)
        ]
        return self.declared + drawn


OTHERS = (
    {"lr": 0.01},
    {"lr": 3.0},
    {"momentum": 0.5},
    {"batch_size": 3},
    {"local_epochs": 10},
    {"weight_decay": 0.1},
    {"clients": 50},
    {"deal": "other"},
)
OTHER_DEALS = {"shards(2)": "shards(1)", "dirichlet(0.3)": "dirichlet(0.05)", "iid": "shards(5)"}
SCENARIOS = (("shards(2)", 0.5), ("iid", 0.5), ("dirichlet(0.3)", 0.5))
BANKS = {
    "digits": Bank(
        "logreg",
        15,
        SCENARIOS,
        {
            "lr": (0.03, 0.1, 0.3, 1.0),
            "momentum": (0.0, 0.9),
            "inputs": ("unit", STANDARDISED),
            "batch_size": (10, 32),
            "local_epochs": (1, 3),
        },
        OTHERS,
        2,
    ),
    "mlp": Bank(
        "mlp(16)",
        15,
        SCENARIOS[1:2],
        {
            "lr": (0.1, 0.3, 1.0),
            "momentum": (0.0, 0.9),
            "inputs": ("unit", STANDARDISED),
            "batch_size": (10, 32),
        },
        OTHERS,
        1,
    ),
}


def spec_of(
    bank: Bank, at: tuple[str, float], reading: Mapping[str, Any], method: str, seed: int
) -> TrialSpec:
    """One run: the seed also partitions the data."""
    level, participation = at
    given = {"clients": 20, **reading}
    if given.pop("deal", None):
        level = OTHER_DEALS[level]
    algorithm, params = METHODS[method]
    lr = given.pop("lr")
    given.pop("inputs")
    settings = Settings(
        rounds=bank.rounds,
        eval_every=1,
        participation=participation,
        val_fraction=0.0,
        partition_seed=seed,
        execution="batched",
        **given,
    )
    return canonical(
        algorithm, {**params, "lr": lr}, Scenario("digits", bank.model, level), settings, seed
    )


def standardised(dataset: Dataset) -> Dataset:
    """The same samples with training inputs of mean 0 and deviation 1."""
    samples = np.asarray(dataset.x)
    train = samples[~dataset.test]
    x = ((samples - train.mean()) / train.std()).astype(np.float32)
    return replace(dataset, x=x)


def stage(bank: Bank, at: tuple[str, float], seed: int) -> npt.NDArray[np.uint16]:
    """All readings and methods of a scenario with one seed: (reading, method, round)."""
    unit = load_dataset(spec_of(bank, at, bank.readings[0], "fedavg", seed), None)
    inputs = {"unit": unit, STANDARDISED: standardised(unit)}
    runs = [(i, j) for i in range(len(bank.readings)) for j in range(len(METHODS))]
    # What can be computed together comes together: equal inputs, momentum and batch size.
    alike = ("inputs", "momentum", "batch_size")
    runs.sort(key=lambda run: [str(bank.readings[run[0]][key]) for key in alike])
    found = np.zeros((len(bank.readings), len(METHODS), bank.rounds + 1), np.uint16)
    names = list(METHODS)
    for first in range(0, len(runs), TOGETHER):
        some, pack = runs[first : first + TOGETHER], Pack()
        works: list[Callable[[], list[int]]] = []
        for i, j in some:
            reading = bank.readings[i]
            spec = spec_of(bank, at, reading, names[j], seed)
            works.append(partial(curve, spec, inputs[reading["inputs"]], pack))
        for (i, j), counts in zip(some, pack.run(works), strict=True):
            found[i, j, : len(counts)] = counts
            found[i, j, len(counts) :] = counts[0]  # it diverged: the untrained model's
    return found


def curve(spec: TrialSpec, dataset: Dataset, pack: Pack) -> list[int]:
    """Test samples that are right after each round."""
    data = partition_data(spec, dataset, keep=True)
    simulation = simulate(spec, data, solver=pack.solver, members=TOGETHER)
    for _ in simulation.evaluations():
        pass
    if simulation.diverged:
        return [round(simulation.history[0]["test_accuracy"] * len(data.test))]
    return [round(entry["test_accuracy"] * len(data.test)) for entry in simulation.history]


def main() -> None:
    """The command."""
    made = parser(__doc__)
    made.add_argument("bank", choices=BANKS)
    made.add_argument("--seeds", type=int, default=6)
    made.add_argument(
        "--parts", type=Path, required=True, help="folder of the stages that are done"
    )
    given = made.parse_args()
    bank, parts = BANKS[given.bank], given.parts / given.bank
    parts.mkdir(parents=True, exist_ok=True)
    stages = [(seed, s) for seed in range(given.seeds) for s in range(len(bank.scenarios))]
    for seed, s in stages:
        path = parts / f"{s}-{seed}.npy"
        if path.exists():
            continue
        started = time.process_time()
        found = stage(bank, bank.scenarios[s], seed)
        with open(f"{path}.part", "wb") as file:
            np.save(file, found)
        os.replace(f"{path}.part", path)
        say(
            f"{given.bank}: seed {seed}, {bank.scenarios[s]}: {time.process_time() - started:.0f} CPU s"
        )
    curves = [
        np.stack([np.load(parts / f"{s}-{n}.npy") for n in range(given.seeds)], 2)
        for s in range(len(bank.scenarios))
    ]
    tests = load_dataset(spec_of(bank, bank.scenarios[0], bank.readings[0], "fedavg", 0), None).test
    FOLDER.mkdir(exist_ok=True)
    np.savez_compressed(
        FOLDER / f"{given.bank}.npz",
        correct=np.stack(curves),
        tests=int(tests.sum()),
        declared=len(bank.declared),
    )


if __name__ == "__main__":
    main()
