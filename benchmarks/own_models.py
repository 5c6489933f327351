"""Steps a second of modules beside the registry's models of the same shape, and the ratio, in one run.

python benchmarks/own_models.py [--seconds 2] [--device cpu]
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch

from trials import heterogeneity, models
from trials.algorithms import ALGORITHMS
from trials.datasets import Dataset
from trials.engine.federation import Federation
from trials.federated_data import partition
from trials.models.base import Model
from trials.run.simulation import Simulation
from trials.settings import Settings

FILE = Path(__file__).resolve().parents[1] / "tests" / "support" / "own_models.py"
PAIRS = {"mlp(width=200)": "mlp", "lenet5": "lenet5", "mcmahan_cnn": "mcmahan_cnn"}


def images() -> Dataset:
    """Images of 28x28 pixels, at random."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2400, 1, 28, 28)).astype(np.float32), rng.integers(0, 10, 2400)
    return Dataset(x, y, np.arange(2400) >= 2000, classes=10)


def simulation(model: str, data: Dataset, device: str) -> Simulation:
    """FedAvg with 20 clients and 10 steps of 10 samples a round."""
    settings = Settings(
        rounds=10_000, clients=20, participation=1, local_steps=10, batch_size=10, eval_every=10_000
    )
    level = heterogeneity.parse("iid")
    fitted = Model(models.parse(model), data.shape, data.classes)
    fed = Federation(
        partition(data, level, settings), fitted, level, settings, 0, torch.device(device)
    )
    return Simulation(ALGORITHMS["fedavg"](lr=0.01), fed)


def rounds(run: Simulation, seconds: float) -> float:
    """Local steps a second."""
    done, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        run.fed.begin(run.fed.round + 1)
        run.state = run.algorithm.round(run.state, run.fed)
        float(run.fed.train_loss)
        done += 200
    return done / (time.perf_counter() - started)


def main() -> None:
    """Print a line for each pair: the medians of five turns, one after the other."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for own, twin in PAIRS.items():
        data = images()
        runs = [simulation(name, data, given.device) for name in (f"{FILE}:{own}", twin)]
        for run in runs:
            rounds(run, 0.5)
        turns = np.array([[rounds(run, given.seconds) for run in runs] for _ in range(5)])
        mine, its = np.median(turns, axis=0)
        ratio = np.median(turns[:, 0] / turns[:, 1])
        ways = "/".join(run.fed.execution for run in runs)
        print(
            f"{twin}: module {mine:.0f}, registry {its:.0f} steps a second, ratio {ratio:.2f}, {ways}"
        )


if __name__ == "__main__":
    main()
