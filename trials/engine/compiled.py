"""Local SGD of linear models as one compiled loop, where numba is installed (`pip install numba`).

In a step of ten samples, a tensor library spends more time on calls than on arithmetic. Here weights also stay in cache.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from trials.common.tensors import Tensor, torch
from trials.federated_data import Samples

Array = npt.NDArray[Any]


def follow(training: Any, memory: Any, x: Samples, y: Tensor, slope: float) -> dict[str, Tensor]:
    """Train k linear models z = W x + b from the start weights and on the minibatches that `training` holds. Return by name their
    final and intermediate weights, losses, and optimizer state. `memory` is the optimizer state before training. If `slope`
    is 0, the loss is cross-entropy. Otherwise the loss is a squared error, whose derivative by z is `slope` times (z - y).
    """
    plan, marks = training.plan, training.marks
    w = training.start.clone(memory_format=torch.contiguous_format)
    path, losses = w.new_empty(*marks.shape, w.shape[1]), np.zeros(len(w))
    momentum = training.optimizer.momentum
    v = memory.moments[:, 0] if momentum else w.new_empty(0, 0)
    absent = w.new_zeros(0, 0)
    terms = [
        (absent if term is None else term).contiguous().numpy()
        for term in (training.lr, training.scale, training.pull, training.shift)
    ]
    matrix, labels, samples = x.x.flatten(1), y, plan.samples
    weight, done = plan.weight.astype(w.numpy().dtype), np.zeros_like(plan.steps)
    loop = _ready(w.numpy().dtype, labels.numpy().dtype)
    # Stops are contiguous like `plan.steps`, since the loop is compiled anew for other layouts.
    for e, stop in enumerate([*np.ascontiguousarray(marks.T), plan.steps]):
        plans = matrix.numpy(), labels.numpy(), slope, samples, weight, done, stop
        loop(w.numpy(), v.numpy(), losses, *plans, *terms, momentum)
        done = stop
        if e < marks.shape[1]:
            path[:, e] = w
    return {"w": w, "loss": torch.from_numpy(losses), "path": path, **vars(memory)}


# Sums may be reassociated, which makes them vectors; infinities and NaN stay, since a run that diverges has to show it.
@numba.njit(fastmath={"reassoc", "contract", "nsz", "arcp"}, nogil=True)
def _sgd(
    weights: Array,
    velocity: Array,
    losses: Array,
    x: Array,
    y: Array,
    slope: float,
    samples: Array,
    weight: Array,
    first: Array,
    last: Array,
    lr: Array,
    scale: Array,
    pull: Array,
    shift: Array,
    momentum: float,
) -> None:
    """Train k clients by SGD in place, from step `first` (k,) to `last` - 1. `weights` has a row per client. An empty `pull` or `shift` is unused."""
    p, kind = x.shape[1], weights.dtype.type
    outputs = weights.shape[1] // (p + 1)
    size = outputs * p
    slopes = np.empty((samples.shape[2], outputs), weights.dtype)
    for i in range(len(weights)):
        w = weights[i]
        matrix, bias = w[:size].reshape(outputs, p), w[size:]
        for j in range(first[i], last[i]):
            rows, share = samples[i, j], weight[i, j]
            n = len(share)
            while share[n - 1] == 0:
                n -= 1
            for r in range(n):
                row, z, label = x[rows[r]], slopes[r], y[rows[r]]
                for c in range(outputs):
                    total, unit = kind(0), matrix[c]
                    for q in range(p):
                        total += row[q] * unit[q]
                    z[c] = total + bias[c]
                if slope > 0.0:
                    error = z[0] - label
                    losses[i] += share[r] * 0.5 * slope * error * error
                    z[0] = share[r] * slope * error
                    continue
                top = z[0]
                for c in range(1, outputs):
                    if not z[c] <= top:  # also true for a NaN
                        top = z[c]
                shifted, norm = z[int(label)] - top, kind(0)
                for c in range(outputs):
                    z[c] = np.exp(z[c] - top)
                    norm += z[c]
                losses[i] += share[r] * (np.log(norm) - shifted)
                for c in range(outputs):
                    z[c] *= share[r] / norm
                z[int(label)] -= share[r]
            rate = lr[i, min(j, lr.shape[1] - 1)] if len(lr) else kind(0)
            along, along_factor = (velocity[i], kind(1)) if momentum > 0.0 else (w, -rate)
            if momentum > 0.0:
                for q in range(len(w)):
                    along[q] *= kind(momentum)
            if len(pull):
                toward = along_factor * pull[i, 0]
                for q in range(len(w)):
                    along[q] += toward * w[q]
            if len(shift):
                for q in range(len(w)):
                    along[q] += along_factor * shift[i, q]
            factor = along_factor * scale[i, 0]
            for c in range(outputs):
                unit = along[c * p : (c + 1) * p]
                # Two samples at a time, so that the sum is read and written half as often.
                for r in range(0, n - 1, 2):
                    a, b, x1, x2 = slopes[r, c], slopes[r + 1, c], x[rows[r]], x[rows[r + 1]]
                    a, b = factor * a, factor * b
                    along[size + c] += a + b
                    for q in range(p):
                        unit[q] += a * x1[q] + b * x2[q]
                if n % 2:
                    a, x1 = factor * slopes[n - 1, c], x[rows[n - 1]]
                    along[size + c] += a
                    for q in range(p):
                        unit[q] += a * x1[q]
            if momentum > 0.0 and len(lr):
                for q in range(len(w)):
                    w[q] -= rate * along[q]


@cache
def _ready(kind: np.dtype[Any], labels: np.dtype[Any]) -> Any:
    """Return the SGD loop, compiled by numba for these dtypes of weights (`kind`) and labels."""
    with suppress(RuntimeError):  # numba finds no folder for its cache
        _sgd.enable_caching()
    w, none, ids = np.zeros((0, 2), kind), np.zeros(0, np.int64), np.zeros((0, 0, 0), np.int64)
    plans = np.zeros((0, 1), kind), np.zeros(0, labels), 0.0, ids, ids.astype(kind), none, none
    try:
        with suppress(OSError):  # it is compiled, but the disk has no room for the cache
            _sgd(w, w, np.zeros(0), *plans, w, w, w, w, 0.0)
    except Exception:  # the cached loop was cut off, or is of an earlier version
        _sgd.recompile()
    return _sgd
