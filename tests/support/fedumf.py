"""The clients, cases and minibatches that the tests of FedUmf and FedUmf + FedDC share."""

import numpy as np

from tests.support.oracle import SEED, run_of
from trials.common.randomness import uniform
from trials.engine.training import minibatches

LR = 0.3
SIZES = [5, 9, 3, 7, 4]
ROUNDS = 8
COMMON = {"rounds": ROUNDS, "participation": 0.4}
COUNT = 2
EAGER = {"rounds": ROUNDS, "participation": 0.4, "batch_size": 4, "local_steps": None}


def work(data, t, given, level_steps=None):
    """Every client's minibatches of round t."""
    x, y, ids = data.dataset.x.astype(float), data.dataset.y, np.arange(data.clients)
    m, batch = np.diff(data.offsets), given.get("batch_size", "full")
    if level_steps is not None:
        low, high = level_steps
        steps = low + (uniform("steps", SEED, t, ids) * (high - low + 1)).astype(int)
    elif given.get("local_steps", 4) is not None:
        steps = np.full(len(ids), given.get("local_steps", 4))
    else:
        steps = given.get("local_epochs", 1) * -(-m // batch)
    plan = minibatches(data, ids, steps, batch, (SEED, t))
    return [
        [(x[b], y[b]) for b in (plan.samples[k, j][plan.weight[k, j] > 0] for j in range(steps[k]))]
        for k in ids
    ]


def common(algorithm, **given):
    return run_of(algorithm, SIZES, **{**COMMON, **given})


CASES = {
    "full batches": {},
    "a decaying rate": {"lr_decay": 0.6},
    "momentum and decay": {"momentum": 0.5, "weight_decay": 0.05},
    "minibatches": {"batch_size": 4, "local_steps": None, "local_epochs": 2},
    "everything": {
        "batch_size": 2,
        "local_steps": None,
        "lr_decay": 0.8,
        "momentum": 0.5,
        "weight_decay": 5e-4,
    },
}
