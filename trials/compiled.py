"""Local SGD of linear models as one compiled loop, where numba is installed (`pip install numba`).

Between two operators of a tensor library a model of a few thousand weights leaves the processor's
cache and a step of ten samples costs more in calls than in arithmetic. Here a client's weights stay
in cache for all its steps. This is one of three ways to the same numbers (see `trials.solver`); they
agree up to rounding.
"""

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from trials.losses import Loss, cross_entropy, half_squared_error, squared_error

Array = npt.NDArray[Any]
SOFTMAX = 0.0
SLOPES: dict[Loss, float] = {
    cross_entropy: SOFTMAX,
    squared_error: 2.0,
    half_squared_error: 1.0,
}
"""The losses that are compiled; of a squared error the c of its slope c (z - y)."""


def sgd(
    w: Array,
    x: Array,
    y: Array,
    loss: Loss,
    samples: Array,
    weight: Array,
    first: Array,
    last: Array,
    lr: Array,
    scale: Array,
    pull: Array,
    shift: Array,
    momentum: float,
    v: Array,
) -> float:
    """Steps `first` (k,) to `last` (k,), exclusive, of k clients, on `w` (k, C p + C) in place.

    z = W x + b for samples x (N, p) with labels y (N,); step j of client i takes the samples
    `samples[i, j]` (B,) with shares `weight[i, j]` (B,), 0 for padding, which comes last, and follows
    u = scale_i g + pull_i w + shift_i with the gradient g: w <- w - lr_ij u, or with momentum m
    v <- m v + u, w <- w - lr_ij v. `shift` and `v` are (k, d), or (0, 0) where there is none; `lr` is
    (k, J), or (1, 1) when all steps have the same. Returns the sum over all steps of their loss.
    """
    return float(
        _sgd(
            w, x, y, SLOPES[loss], samples, weight, first, last, lr, scale, pull, shift, momentum, v
        )
    )


# Sums may be reassociated (that is what makes them vectors), but infinities and NaN keep their
# meaning, since a run that diverges has to show it. Nothing is kept on disk: what numba loads from its
# cache rounds otherwise than what it has just compiled, so that a first run would not repeat.
_jit = numba.njit(fastmath={"reassoc", "contract", "nsz", "arcp"}, nogil=True)


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
def _slopes(z: Array, y: Array, rows: Array, n: int, share: Array, slope: float) -> float:
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
def _sgd(
    weights: Array,
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
    velocity: Array,
) -> float:
    """See `sgd`."""
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
            total += _slopes(z, y, rows, n, share, slope)
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
