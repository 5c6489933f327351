"""Which readings the baselines' numbers of a table rule out: one statistic over all of its rows, and weights.

A row has J printed numbers and R readings; a reading of the table takes one reading of each row. For number j
under a reading, with the printed x_j and our mean m_j over n runs of variance s_j^2 each:

    d_j = x_j - m_j
    v_j = s_j^2 (1 / k + 1 / n) + tol_j^2 / 3
    Q = sum_j d_j^2 / v_j

The print is the mean of k of the paper's runs (1 where it does not say), and tol^2 / 3 is the variance of an error that is
even within the tolerance. A bound that is kept has d = 0. Q / J is held against F(b, f): b = J^2 / sum_ij c_ij^2 is
the number of independent numbers that J correlated ones are worth (Box 1954; c: correlations of d, whose noise shares
seeds and whose tolerance does not), f the degrees of freedom of s^2. A reading's weight is its composite likelihood, to
the power b / J (b: the mean over readings) for the same reason (Pauli, Racugno and Ventura 2011):
w = exp(-b / 2J (Q + sum_j log v_j)), over all readings adding up to 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import numpy.typing as npt

from trials.common.lazy import Lazy

special = Lazy("scipy.special")

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
LEVEL = 0.05
"""A table rules out a reading under which a statistic as large has a smaller probability."""
REFUTED = 0.001
"""The same for one seed: such a reading is not run with all."""
SHARED = 4.0
"""Degrees of freedom that all readings together add to the variance of a number under one: with few seeds a
variance of its own may be near 0 by chance.
"""


@dataclass(frozen=True)
class FittedRow:
    """The numbers of a row (J,) with tolerances, and under each reading our mean (R, J), the variance of a run
    (R, J), how many ran (R,) and the variances' degrees of freedom (R,), 0 where there is none: such a reading
    is not left. `correlation` (J, J): of numbers over seeds.
    """

    printed: Array
    bounds: Ints
    """-1: at most the number, 1: at least, 0: equal to it."""
    tolerance: Array
    means: Array
    variances: Array
    runs: Array
    freedom: Array
    correlation: Array
    values: Array
    """(R, seeds, J), what all of this is from."""

    @classmethod
    def of(cls, printed: Array, bounds: Ints, tolerance: Array, values: Array) -> Self:
        """From values (R, seeds, J), NaN where a reading was not run."""
        means, variances, runs = moments(values)
        freedom = np.where(runs > 1, runs - 1 + SHARED, 0.0)
        return cls(
            printed, bounds, tolerance, means, variances, runs, freedom, correlation(values), values
        )

    def after_one_seed(self, first: Array) -> Self:
        """The same row for readings of which one seed is known, (R, J): with the largest variance of those known here."""
        ran: Bools = np.asarray(np.isfinite(first).all(axis=1))
        known = np.flatnonzero(self.freedom > 0)
        most = self.variances[known].max(0) if len(known) else np.zeros(first.shape[1])
        freedom = np.where(ran, SHARED, 0.0) if len(known) else np.zeros(len(first))
        means, spread = np.where(ran.reshape(-1, 1), first, 0.0), np.broadcast_to(most, first.shape)
        return replace(self, means=means, variances=spread, runs=ran.astype(float), freedom=freedom)

    def statistic(self, paper_runs: int) -> Array:
        """Q, sum of log v and sum of c^2 of each reading, (3, R)."""
        each = 1 / paper_runs + 1 / np.maximum(self.runs, 1)[:, None]
        noise = self.variances * each
        v = noise + self.tolerance**2 / 3
        d = self.printed - self.means
        d = np.where(self.bounds * d < 0, 0.0, d)
        shared = self.correlation**2 - np.eye(len(self.printed))
        squares = len(self.printed) + np.einsum("ri,ij,rj->r", noise / v, shared, noise / v)
        return np.stack([(d**2 / v).sum(1), np.log(v).sum(1), squares])


def moments(values: Array) -> tuple[Array, Array, Array]:
    """Means (R, J), variances of one run (R, J), `pooled`, and runs (R,), of values (R, seeds, J)."""
    runs = np.isfinite(values).all(2).sum(1)
    there = np.where(np.isfinite(values), values, 0.0)
    count = np.maximum(runs, 1)[:, None]
    means = there.sum(1) / count
    squares = (np.where(np.isfinite(values), values - means[:, None], 0.0) ** 2).sum(1)
    return means, pooled(squares / np.maximum(count - 1, 1), runs), runs.astype(float)


def pooled(variances: Array, runs: Ints) -> Array:
    """Variances (R, J), each drawn to their mean over readings as if that had `SHARED` degrees of freedom."""
    there = runs > 1
    if not there.any():
        return variances
    df = np.maximum(runs - 1, 0)[:, None]
    return (df * variances + SHARED * variances[there].mean(0)) / (df + SHARED)


def correlation(values: Array) -> Array:
    """(J, J) over seeds, of all readings together, each in its own deviation."""
    known = values[np.isfinite(values).all(axis=(1, 2))]
    if known.shape[1] < 2 or not len(known):
        return np.ones((values.shape[2],) * 2)
    rest = known - known.mean(1, keepdims=True)
    rest = (rest / np.maximum(rest.std(1, keepdims=True), 1e-9)).reshape(-1, values.shape[2])
    cross = rest.T @ rest
    scale = np.sqrt(np.maximum(np.diag(cross), 1e-12))
    found: Array = np.where(np.eye(len(cross), dtype=bool), 1.0, cross / np.outer(scale, scale))
    return found


@dataclass(frozen=True)
class Weights:
    """Of each reading of a table: the probability of a statistic as large (`p`), and its share of all weight."""

    p: Array
    weight: Array

    @property
    def left(self) -> Bools:
        """Which readings the table does not rule out."""
        return self.p >= LEVEL


def weigh(rows: Sequence[FittedRow], taken: Ints, paper_runs: int = 1) -> Weights:
    """The weights of a table's readings: `taken` (T, rows) is the reading that each takes of each row."""
    sums, df = np.zeros((3, len(taken))), np.full(len(taken), np.inf)
    for row, of in zip(rows, taken.T, strict=True):
        sums += row.statistic(paper_runs)[:, of]
        df = np.minimum(df, row.freedom[of])
    q, logs, squares = sums
    count = sum(len(row.printed) for row in rows)
    worth = count**2 / squares
    ran = df > 0
    p = np.where(ran, special.fdtrc(worth, np.maximum(df, 1), q / count), 0.0)
    if not ran.any():
        return Weights(p, np.zeros(len(taken)))
    log_weight = np.where(ran, -worth[ran].mean() / count / 2 * (q + logs), -np.inf)
    weight = np.exp(log_weight - log_weight.max())
    return Weights(p, weight / weight.sum())


def tails(low: Array, high: Array, variances: Array, runs: Array) -> Array:
    """The probabilities (3, R) that a mean lies below, within or above a range whose ends are given less our mean of
    `runs`: Student's t.
    """
    error = np.sqrt(np.maximum(variances / runs, 1e-18))
    df = runs - 1 + SHARED
    below, above = special.stdtr(df, low / error), special.stdtr(df, -high / error)
    return np.stack([below, 1 - below - above, above])


def left_by_chance(
    rows: Sequence[FittedRow], taken: Ints, paper_runs: int, draws: int = 300
) -> float:
    """The share of tables with other numbers, each shifted evenly by up to two tolerances, that leave some reading."""
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(draws):
        shifts = [rng.uniform(-2, 2, len(row.printed)) * row.tolerance for row in rows]
        moved = [
            replace(row, printed=row.printed + by) for row, by in zip(rows, shifts, strict=True)
        ]
        hits += bool(weigh(moved, taken, paper_runs).left.any())
    return hits / draws


def recall(values: Sequence[Array], rows: Sequence[FittedRow], taken: Ints) -> float | None:
    """How often a reading is left by the table that one of its own seeds, held out, would have printed, over all readings with at
    least three seeds; None where there is none. `values`: of each row, (R, seeds, J).
    """
    found = []
    for seed in range(min(v.shape[1] for v in values)):
        rest = [np.delete(v, seed, 1) for v in values]
        for t, of in enumerate(taken):
            prints = [v[r, seed] for v, r in zip(values, of, strict=True)]
            if any(
                not np.isfinite(v[r]).all() or v.shape[1] < 3
                for v, r in zip(values, of, strict=True)
            ):
                continue
            others = [
                FittedRow.of(x, np.zeros_like(row.bounds), row.tolerance, v)
                for x, row, v in zip(prints, rows, rest, strict=True)
            ]
            found.append(bool(weigh(others, taken[t : t + 1]).left[0]))
    return float(np.mean(found)) if found else None
