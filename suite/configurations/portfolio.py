"""Portfolios: few configurations of an algorithm that together lose least on what the bank has recorded.

The loss of a configuration in a scenario is how much its validation score, as a forest predicts it from the scenario's
trials (`suite.bank.benchmark`), is behind the best one there: points of accuracy, or a difference of errors' logarithms.
Where a bank has scenarios of both kinds, those of the more frequent kind count.
A portfolio begins with the candidate that loses least on average, and goes on with the one that lowers the average loss of
the best so far most. Candidates are the default configuration and the best of every scenario. Families of data sets weigh alike.

What a portfolio of k costs elsewhere is measured by leaving each family out in turn: its portfolio is made of the other
families, and the best of its first k is what it loses there.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reports.frames import frame
from reports.leaderboard.budget import expected_best
from reports.leaderboard.statistics import interval
from reports.table import Column, ColumnKind, Table, table
from reports.wording.words import number, params_text
from suite.bank.benchmark import SCENARIO, Benchmark, of_search
from suite.bank.table import load
from trials import algorithms
from trials.common.errors import UserError, unknown

if TYPE_CHECKING:
    import pandas as pd

Array = npt.NDArray[Any]
LEAST = 20
"""Search trials that a scenario needs, for a forest to say anything of it."""
BEST = 3
"""Candidates of each scenario."""
SIZE = 4
"""Configurations of a portfolio, unless it is asked for another number."""


@dataclass(frozen=True)
class Choice:
    """A configuration of a portfolio, and what the portfolio up to it loses in families that it was not made of: the mean,
    its 95 % interval over families (Student's t), and `random_trials`, after how many a random search loses no more, None where
    more than were recorded.
    """

    params: dict[str, Any]
    loss: float
    low: float | None
    high: float | None
    random_trials: int | None


@dataclass(frozen=True)
class Portfolio:
    """Configurations of an algorithm in the order in which to try them, made of so many scenarios of `families`."""

    algorithm: str
    unit: str
    families: tuple[str, ...]
    scenarios: int
    members: tuple[Choice, ...]

    @property
    def source(self) -> str:
        """It in words, for records."""
        return f"portfolio({len(self.members)}) of {self.scenarios} scenarios in the bank"

    def __repr__(self) -> str:
        lines = (f"{one.loss:.4g} {params_text(one.params)}" for one in self.members)
        return "\n".join([self.legend, *lines])

    def _repr_html_(self) -> str:
        from reports.document import Text
        from reports.page.notebook import html

        return html([self.table, Text(self.legend, "legend")])

    def to_pandas(self) -> "pd.DataFrame":
        """A row a configuration, with columns such as `loss` and `params.lr`."""
        return frame(map(asdict, self.members))

    @property
    def legend(self) -> str:
        """What the losses are of."""
        return (
            f"{self.algorithm}: {self.scenarios} scenarios, {len(self.families)} families of data sets; losses are in "
            f"{self.unit}, of the best of the first so many, on families that were left out"
        )

    @property
    def table(self) -> Table:
        """The table of `suite tuned portfolio`."""
        columns = (
            Column("first"),
            Column("loss"),
            Column("95 %"),
            Column("as random trials"),
            Column("params", ColumnKind.WORDS),
        )
        rows = [
            [
                str(k),
                number(one.loss),
                "" if one.low is None else f"{number(one.low)} to {number(one.high)}",
                "more" if one.random_trials is None else str(one.random_trials),
                params_text(one.params),
            ]
            for k, one in enumerate(self.members, 1)
        ]
        return table(columns, rows)


@dataclass(frozen=True)
class Losses:
    """What candidates lose in the scenarios of `benchmarks`, where the `best` gains are known: `loss` (candidates, scenarios).
    `families` names each scenario's; `random` (scenarios, n) is what the best of 1, 2, ... n recorded configurations in random
    order loses.
    """

    candidates: Sequence[Mapping[str, Any]]
    benchmarks: Sequence[Benchmark]
    best: Array
    loss: Array
    families: Array
    random: Array
    unit: str

    @classmethod
    def of(cls, algorithm: str, trials: "pd.DataFrame") -> "Losses":
        """Those of an algorithm in a bank; raises `UserError` where it has none of its trials."""
        rows = of_search(trials)
        rows = rows[rows["algorithm"] == algorithm]
        made = {
            Benchmark(algorithm, [*map(str, key)], of, "surrogate"): str(of["family"].iloc[0])
            for key, of in rows.groupby(SCENARIO, sort=True)
        }
        made = {one: family for one, family in made.items() if len(one.configurations) >= LEAST}
        if not made:
            known = ", ".join(sorted(trials["algorithm"].unique())) or "none"
            raise UserError(
                f"the bank has no scenario with {LEAST} search trials of {algorithm}; it has trials of {known}"
            )
        sign = Counter(one.task.sign for one in made).most_common(1)[0][0]
        made = {one: family for one, family in made.items() if one.task.sign == sign}
        recorded = [one.predicted(one.configurations) for one in made]
        candidates = [algorithms.resolve(algorithm).configured({}).params()]
        for one, gains in zip(made, recorded, strict=True):
            candidates += [one.configurations[i] for i in np.argsort(-gains, kind="stable")[:BEST]]
        scale = (lambda gains: 100 * gains) if sign > 0 else (lambda gains: -np.log(-gains))
        losses, random, bests = [], [], []
        most = min(len(gains) for gains in recorded)
        for one, gains in zip(made, recorded, strict=True):
            theirs = one.predicted(candidates)
            bests.append(max(gains.max(), theirs.max()))
            losses.append(scale(bests[-1]) - scale(theirs))
            drawn = expected_best([(gain, gain) for gain in scale(gains).tolist()])
            random.append(scale(bests[-1]) - np.array(drawn[:most]))
        return cls(
            candidates,
            list(made),
            np.array(bests),
            np.array(losses).T,
            np.array(list(made.values())),
            np.array(random),
            "points of accuracy" if sign > 0 else "logarithm of the error",
        )

    def greedy(self, k: int, known: Array) -> list[int]:
        """The first k candidates of the portfolio that the scenarios `known` (bool) make; of those that lower the loss alike
        the one that loses least alone.
        """
        loss, weight = self.loss[:, known], self.weights[known]
        so_far = np.full(loss.shape[1], inf)
        found: list[int] = []
        alone = loss @ weight
        for _ in range(min(k, len(self.candidates))):
            means = np.minimum(loss, so_far) @ weight
            means[found] = inf
            found.append(int(np.lexsort((alone, means))[0]))
            so_far = np.minimum(so_far, loss[found[-1]])
        return found

    @property
    def weights(self) -> Array:
        """Each scenario's weight: families weigh alike."""
        of, count = np.unique(self.families, return_counts=True)
        return 1 / count[np.searchsorted(of, self.families)]

    def left_out(self, k: int) -> Array:
        """What portfolios of the other families lose in each scenario with 1, 2, ... k configurations: (scenarios, k)."""
        found = np.full((len(self.families), k), np.nan)
        for family in np.unique(self.families):
            own = self.families == family
            chosen = self.greedy(k, ~own)
            best = np.minimum.accumulate(self.loss[chosen][:, own])
            found[own] = np.pad(best, ((0, k - len(chosen)), (0, 0)), mode="edge").T
        return found


def portfolio(
    algorithm: str,
    k: int = SIZE,
    leave_out: str | None = None,
    trials: "pd.DataFrame | None" = None,
) -> Portfolio:
    """The portfolio of an algorithm in a bank, by default `suite.bank.load()`, without the trials of the family `leave_out`. Raises `UserError` where the bank has no trials of it, or no such family, or no other."""
    name, trials = algorithms.canonical(algorithm), load() if trials is None else trials
    if leave_out is not None:
        if leave_out not in (known := sorted(trials["family"].unique())):
            raise unknown("family", leave_out, known)
        trials = trials[trials["family"] != leave_out]
    losses = Losses.of(name, trials)
    families = sorted(set(map(str, losses.families)))
    if len(families) < 2:
        raise UserError(
            f"a portfolio of {name} needs two families of data sets; the bank has {families[0]} alone"
        )
    chosen = losses.greedy(k, np.ones(len(losses.families), bool))
    elsewhere = losses.left_out(len(chosen))
    by_family = [elsewhere[losses.families == family].mean(0) for family in families]
    random = losses.weights @ losses.random / losses.weights.sum()
    members = []
    for i, at in enumerate(chosen):
        loss = float(np.mean([of[i] for of in by_family]))
        low, high = interval([float(of[i]) for of in by_family])
        low = None if low is None else max(0.0, low)  # as no loss is below
        enough = np.flatnonzero(random <= loss)
        budget = int(enough[0]) + 1 if len(enough) else None
        members.append(Choice(dict(losses.candidates[at]), loss, low, high, budget))
    return Portfolio(name, losses.unit, tuple(families), len(losses.families), tuple(members))
