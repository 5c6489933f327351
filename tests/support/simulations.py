"""Small federations made by hand, and what two runs are compared by."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from suite.testing.algorithms import finish, numbers, timeless
from trials import heterogeneity, models
from trials.algorithm import Algorithm
from trials.algorithms import ALGORITHMS
from trials.datasets.base import Dataset
from trials.engine.federation import Federation
from trials.federated_data import FederatedData
from trials.models.base import Model
from trials.run.simulation import Simulation
from trials.scoring import losses
from trials.settings import Settings

CPU = torch.device("cpu")
ROOT = Path(__file__).resolve().parents[2]


def partitioned(
    sizes: list[int], shape: tuple[int, ...] = (2,), classes: int = 3, seed: int = 0, tests: int = 6
) -> FederatedData:
    """Clients of these sizes with Gaussian samples and random labels; their ids are scattered."""
    rng = np.random.default_rng(seed)
    total = sum(sizes) + tests
    x = rng.normal(size=(total, *shape)).astype(np.float32)
    y = rng.integers(0, classes, total)
    order = rng.permutation(total)
    train, test = order[: sum(sizes)], np.sort(order[sum(sizes) :])
    dataset = Dataset(x, y, np.isin(np.arange(total), test), classes)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return FederatedData(dataset, train, offsets, np.array([], np.int64), test)


def settings(**given: Any) -> Settings:
    """Five rounds of all clients, four full batches each, float64, evaluated every round."""
    base = {
        "rounds": 5,
        "participation": 1.0,
        "batch_size": "full",
        "local_steps": 4,
        "dtype": "float64",
        "eval_every": 1,
    }
    return Settings(**{**base, **given})


def honoured(name: str, given: dict[str, Any], level: str) -> tuple[dict[str, Any], str]:
    """The settings and the level, less what the algorithm refuses."""
    refused = dict(ALGORITHMS[name].unsupported)
    if not vars(ALGORITHMS[name]).get("any_optimizer"):
        refused |= {"optimizer": "", "keep_moments": ""}
    kept = {k: v for k, v in given.items() if not {k, f"{k}={v}"} & set(refused)}
    return kept, level.partition("+")[0] if "system" in refused else level


def local_work(name: str, steps: int = 4) -> dict[str, Any]:
    """Full-batch steps, written as epochs where an algorithm refuses steps."""
    if "local_steps" in ALGORITHMS[name].unsupported:
        return {"local_steps": None, "local_epochs": steps}
    return {"local_steps": steps}


def simulation(
    algorithm: Algorithm,
    data: FederatedData,
    common: Settings,
    model: str = "logreg",
    level: str = "iid",
    seed: int = 0,
    federation: type[Federation] = Federation,
    device: torch.device = CPU,
) -> Simulation:
    """A simulation at round 0; of `level` only the system part matters, data are partitioned already."""
    loss = losses.resolve(common.loss, data.dataset.task.metric)
    shape, classes = data.dataset.shape, data.dataset.classes
    mixed = common.dtype == "bf16"
    fitted = Model(models.parse(model), shape, classes, loss, mixed, common.buffers)
    level_ = heterogeneity.parse(level)
    fed = federation(data, fitted, level_, common, seed, device)
    return Simulation(algorithm, fed)


def rounds(run: Simulation) -> Iterator[np.ndarray]:
    """The server's weights after each evaluation."""
    while not run.finished:
        run.advance()
        yield run.state["w"].numpy().copy()


def state(run: Simulation) -> dict[str, np.ndarray]:
    """All tensors of the state; of per-client tables the rows of all clients."""
    return {name: value.numpy() for name, value in numbers(run).items()}


def same(a: Simulation, b: Simulation, tolerance: float) -> None:
    """Assert that two runs end in the same state, up to rounding."""
    assert not a.diverged
    assert not b.diverged
    left, right = state(a), state(b)
    assert left.keys() == right.keys()
    for name in left:
        np.testing.assert_allclose(left[name], right[name], rtol=0, atol=tolerance)


def digest(run: Simulation) -> str:
    """A hash of every bit of the history (times apart) and of the state."""
    found = hashlib.sha256(json.dumps(timeless(run.history), sort_keys=True).encode())
    for name, value in sorted(state(run).items()):
        found.update(name.encode() + value.tobytes())
    return found.hexdigest()


def linear_digest() -> str:
    """The digest of a run on compiled loops, on one thread."""
    torch.set_num_threads(1)
    data = partitioned([40, 30, 20], shape=(60,), classes=10)
    common = settings(dtype="float32", batch_size=10, local_steps=None, rounds=8)
    return digest(finish(simulation(ALGORITHMS["fedprox"](lr=0.3), data, common)))


def fresh_process(script: str) -> str:
    """What a script prints in a new interpreter, with other string hashes than this one's."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "123"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def holdings(data: FederatedData) -> list[np.ndarray]:
    """Training ids of each client."""
    return np.split(data.train, data.offsets[1:-1])


def well_split(data: FederatedData) -> None:
    """Assert that no id is in two places and that test is the data set's."""
    ids = np.concatenate([data.train, data.val, data.test])
    assert len(np.unique(ids)) == len(ids)
    assert data.dataset.test[data.test].all()
    assert len(data.test) == data.dataset.test.sum()
    assert data.offsets[0] == 0
    assert data.offsets[-1] == len(data.train)
    assert (data.sizes >= 1).all()
