"""Local SGD of linear models as one compiled loop, where numba is installed (`pip install numba`).

Between two operators of a tensor library a model of a few thousand weights leaves the processor's
cache and a step of ten samples costs more in calls than in arithmetic. Here a client's weights stay
in cache for all its steps. This is one of three ways to the same numbers (see `trials.engine.solver`); they
agree up to rounding.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pickle import UnpicklingError
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt

from trials.scoring.losses import Loss, cross_entropy, half_squared_error, squared_error

Array = npt.NDArray[Any]
SOFTMAX = 0.0
SLOPES: dict[Loss, float] = {
    cross_entropy: SOFTMAX,
    squared_error: 2.0,
    half_squared_error: 1.0,
}
"""The losses that are compiled; of a squared error the c of its slope c (z - y)."""


class CompiledSamples(NamedTuple):
    """Samples `x` (N, p) with their labels `y` (N,), and the `slope` of their loss (`SLOPES`)."""

    x: Array
    y: Array
    slope: float


class Steps(NamedTuple):
    """Steps `first` (k,) to `last` (k,), exclusive, of k clients.

    Step j of client i takes the samples `samples[i, j]` (B,) with shares `weight[i, j]` (B,), 0 for
    padding, which comes last, and has the rate `lr[i, j]`; `lr` is (1, 1) when all have the same.
    """

    samples: Array
    weight: Array
    first: Array
    last: Array
    lr: Array


class Rule(NamedTuple):
    """What a step follows: u = scale_i g + pull_i w + shift_i of the gradient g, or with momentum m
    v <- m v + u. `shift` and `v` are (k, d), or (0, 0) where there is none.
    """

    scale: Array
    pull: Array
    shift: Array
    momentum: float
    v: Array


def sgd(w: Array, of: CompiledSamples, steps: Steps, rule: Rule) -> float:
    """All `steps` of k clients on `w` (k, C p + C) in place, where outputs are z = W x + b: w <- w - lr u,
    or with momentum w <- w - lr v. Returns the sum over all steps of their loss.
    """
    _ready(w.dtype, of.y.dtype)
    return float(_sgd(w, of, steps, rule))


def _jit(function: Callable[..., Any]) -> Any:
    """The function, compiled when it is first called, and kept on disk where there is a place for it."""
    # Sums may be reassociated (that is what makes them vectors), but infinities and NaN keep their
    # meaning, since a run that diverges has to show it.
    made = numba.njit(fastmath={"reassoc", "contract", "nsz", "arcp"}, nogil=True)(function)
    with suppress(RuntimeError):  # no folder can be written to
        made.enable_caching()
    return made


@_jit
def _outputs(w: Array, b: Array, x: Array, rows: Array, n: int, z: Array) -> None:
    """z[:n] = x[rows[:n]] w' + b, two samples and four outputs at a time."""
    outputs, p = w.shape
    zero = w.dtype.type(0)
    for i in range(0, n, 2):
        two = i + 1 < n
        xa = x[rows[i]]
        xb = x[rows[i + 1]] if two else xa
        for c in range(0, outputs - outputs % 4, 4):
            w0, w1, w2, w3 = w[c], w[c + 1], w[c + 2], w[c + 3]
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = zero
            for q in range(p):
                s, t = xa[q], xb[q]
                a0 += s * w0[q]
                a1 += s * w1[q]
                a2 += s * w2[q]
                a3 += s * w3[q]
                b0 += t * w0[q]
                b1 += t * w1[q]
                b2 += t * w2[q]
                b3 += t * w3[q]
            z[i, c], z[i, c + 1], z[i, c + 2], z[i, c + 3] = a0, a1, a2, a3
            if two:
                j = i + 1
                z[j, c], z[j, c + 1], z[j, c + 2], z[j, c + 3] = b0, b1, b2, b3
        for c in range(outputs - outputs % 4, outputs):
            w0 = w[c]
            a0 = b0 = zero
            for q in range(p):
                a0 += xa[q] * w0[q]
                b0 += xb[q] * w0[q]
            z[i, c] = a0
            if two:
                z[i + 1, c] = b0
    for i in range(n):
        for c in range(outputs):
            z[i, c] += b[c]


@_jit
def _gradients(z: Array, y: Array, rows: Array, n: int, share: Array, slope: float) -> float:
    """Replace outputs z[:n] by the slopes of the weighted loss in them; that loss."""
    total = 0.0
    for i in range(n):
        row, label = z[i], y[rows[i]]
        if slope > 0.0:
            error = row[0] - label
            total += share[i] * 0.5 * slope * error * error
            row[0] = share[i] * slope * error
            continue
        own = int(label)
        top = row[0]
        for c in range(1, len(row)):
            if not row[c] <= top:  # a NaN ends here too
                top = row[c]
        at = row[own] - top
        norm = row.dtype.type(0)
        for c in range(len(row)):
            row[c] = np.exp(row[c] - top)
            norm += row[c]
        total += share[i] * (np.log(norm) - at)
        for c in range(len(row)):
            row[c] *= share[i] / norm
        row[own] -= share[i]
    return total


@_jit
def _add(w: Array, x: Array, rows: Array, n: int, z: Array, factor: float) -> None:
    """w += factor z[:n]' x[rows[:n]], two outputs and five samples at a time."""
    outputs, p = w.shape
    for c in range(0, outputs, 2):
        two = c + 1 < outputs
        d = c + 1 if two else c
        w0, w1 = w[c], w[d]
        for i in range(0, n - n % 5, 5):
            x0, x1, x2 = x[rows[i]], x[rows[i + 1]], x[rows[i + 2]]
            x3, x4 = x[rows[i + 3]], x[rows[i + 4]]
            a0, a1, a2 = factor * z[i, c], factor * z[i + 1, c], factor * z[i + 2, c]
            a3, a4 = factor * z[i + 3, c], factor * z[i + 4, c]
            if two:
                b0, b1, b2 = factor * z[i, d], factor * z[i + 1, d], factor * z[i + 2, d]
                b3, b4 = factor * z[i + 3, d], factor * z[i + 4, d]
                for q in range(p):
                    w0[q] += a0 * x0[q] + a1 * x1[q] + a2 * x2[q] + a3 * x3[q] + a4 * x4[q]
                    w1[q] += b0 * x0[q] + b1 * x1[q] + b2 * x2[q] + b3 * x3[q] + b4 * x4[q]
            else:
                for q in range(p):
                    w0[q] += a0 * x0[q] + a1 * x1[q] + a2 * x2[q] + a3 * x3[q] + a4 * x4[q]
        for i in range(n - n % 5, n):
            x0, a0 = x[rows[i]], factor * z[i, c]
            for q in range(p):
                w0[q] += a0 * x0[q]
            if two:
                b0 = factor * z[i, d]
                for q in range(p):
                    w1[q] += b0 * x0[q]


@_jit
def _shift(w: Array, fixed: Array, toward: float, rate: float) -> None:
    """w -= toward w + rate fixed."""
    for q in range(len(w)):
        w[q] -= toward * w[q] + rate * fixed[q]


@_jit
def _sgd(weights: Array, of: CompiledSamples, steps: Steps, rule: Rule) -> float:
    x, y, slope = of
    samples, weight, first, last, lr = steps
    scale, pull, shift, momentum, velocity = rule
    k, d = weights.shape
    p = x.shape[1]
    outputs = d // (p + 1)
    kind = weights.dtype.type
    z = np.empty((samples.shape[2], outputs), weights.dtype)
    total = 0.0
    for i in range(k):
        w = weights[i]
        matrix, bias = w[: outputs * p].reshape(outputs, p), w[outputs * p :]
        for j in range(first[i], last[i]):
            rows, share = samples[i, j], weight[i, j]
            n = len(share)
            while share[n - 1] == 0:
                n -= 1
            rate = kind(lr[i % lr.shape[0], j % lr.shape[1]])
            _outputs(matrix, bias, x, rows, n, z)
            total += _gradients(z, y, rows, n, share, slope)
            if momentum > 0.0:
                v = velocity[i]
                keep, toward = kind(momentum), pull[i]
                for q in range(d):
                    v[q] = keep * v[q] + toward * w[q]
                if len(shift):
                    for q in range(d):
                        v[q] += shift[i, q]
                _add(v[: outputs * p].reshape(outputs, p), x, rows, n, z, scale[i])
                for c in range(outputs):
                    for r in range(n):
                        v[outputs * p + c] += scale[i] * z[r, c]
                for q in range(d):
                    w[q] -= rate * v[q]
                continue
            if len(shift):
                _shift(w, shift[i], rate * pull[i], rate)
            elif pull[i] != 0:
                toward = rate * pull[i]
                for q in range(d):
                    w[q] -= toward * w[q]
            factor = -rate * scale[i]
            _add(matrix, x, rows, n, z, factor)
            for c in range(outputs):
                for r in range(n):
                    bias[c] += factor * z[r, c]
    return total


@cache
def _ready(kind: np.dtype[Any], labels: np.dtype[Any]) -> None:
    """Compile the loop for weights and labels of these types, or load it: what it calls first.

    The loop's own code holds copies of what it calls, optimized once more, which round otherwise. Whichever
    is there first is the one that runs, so a loop that comes from disk alone would give other bits than
    one that was compiled with all that it calls. For the same reason all that lies on disk is of one
    process: another one waits, and loads it.
    """
    zero, none = kind.type(0), np.zeros(0, np.int64)
    w, row, y = np.zeros((0, 2), kind), np.zeros(0, kind), np.zeros(0, labels)
    samples = np.zeros((0, 0, 0), np.int64)
    of = CompiledSamples(np.zeros((0, 1), kind), y, SOFTMAX)
    steps = Steps(samples, samples.astype(kind), none, none, np.zeros((1, 1), kind))
    rule = Rule(row, row, w, 0.0, w)
    calls: list[tuple[Any, tuple[Any, ...]]] = [
        (_outputs, (w, row, w, none, 0, w)),
        (_gradients, (w, y, none, 0, row, SOFTMAX)),
        (_add, (w, w, none, 0, w, zero)),
        (_shift, (row, row, zero, zero)),
        (_sgd, (w, of, steps, rule)),
    ]
    with _alone():
        try:
            _in_turn(calls)
        # What lies there was cut off, or names a class of an earlier version.
        except (EOFError, UnpicklingError, AttributeError, ImportError):
            for compiled, _ in calls:
                compiled.recompile()
            _in_turn(calls)


def _in_turn(calls: list[tuple[Any, tuple[Any, ...]]]) -> None:
    for compiled, given in calls:
        try:
            compiled(*given)
        except OSError:  # it is compiled, and there is no room to keep it
            compiled(*given)


@contextmanager
def _alone() -> Iterator[None]:
    """One process after the other, as far as the folder of what is compiled can be locked."""
    folder = _sgd.stats.cache_path
    with ExitStack() as stack:
        with suppress(OSError, TypeError):
            os.makedirs(folder, exist_ok=True)
            place = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, place)
            fcntl.flock(place, fcntl.LOCK_EX)
        yield
