"""A search without training: an algorithm on a recorded scenario, which answers configurations from the bank.

    benchmark = Benchmark("fedprox", ("wisdm", "logreg", "natural"))
    study = optuna.create_study(direction=benchmark.direction, sampler=...)
    study.optimize(benchmark, n_trials=32)

A configuration that was recorded is answered by its trial. Any other is answered by the nearest recorded one, or by a
surrogate: a forest of regression trees that predicts the curve and the score. A benchmark is as noisy as one trial.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from suite.bank.table import load
from suite.json_files import parse
from suite.studies.space import Space
from trials import algorithms
from trials.algorithm import Range
from trials.common.errors import UserError
from trials.common.lazy import Lazy
from trials.run.outcome import Status
from trials.run.scenario import Scenario
from trials.scoring.metrics import TASKS, Direction

if TYPE_CHECKING:
    import optuna
    import pandas as pd

ensemble: Any = Lazy("sklearn.ensemble")
Array = npt.NDArray[Any]
TREES = 50
SCENARIO = ["dataset", "model", "heterogeneity"]
"""The columns that name a scenario."""


@dataclass(frozen=True)
class BankAnswer:
    """The validation score of a configuration and its `curve` by round, and who says so: a `recorded` trial, the
    `nearest` one, `distance` away, or the `surrogate`. A distance is the Euclidean one between shares of ranges, each on its
    scale; another choice is 1 away.
    """

    value: float
    curve: Mapping[int, float]
    source: str
    distance: float


class Benchmark:
    """The search trials of an algorithm in a scenario, as a function of the configuration.

    `trials` are rows of a bank (`suite.bank.load()` by default). Diverged trials count with the task's worst score.
    Raises `UserError` where the bank has no such trials.
    """

    def __init__(
        self,
        algorithm: str,
        scenario: Sequence[str],
        trials: "pd.DataFrame | None" = None,
        answers: Literal["nearest", "surrogate"] = "nearest",
    ) -> None:
        self.algorithm, self.scenario = algorithms.canonical(algorithm), Scenario(*scenario)
        self.answers = answers
        rows = of_search(load() if trials is None else trials)
        for column, name in zip(["algorithm", *SCENARIO], [self.algorithm, *scenario], strict=True):
            rows = rows[rows[column] == name]
        if rows.empty:
            raise UserError(f"the bank has no search trial of {self.algorithm} on {self.scenario}")
        rows = rows[rows["settings"] == rows["settings"].mode()[0]]
        self.task = TASKS[rows["metric"].iloc[0]]
        self.configurations = [parse(text) for text in rows["configuration"]]
        finished = (rows["status"] == Status.FINISHED).to_numpy()
        self.scores: Array = np.where(finished, rows["val_score"].to_numpy(float), self.task.worst)
        self.rounds, self.curves = self._curves(rows)
        self.space = Space(_observed(self.algorithm, self.configurations), {})
        self.points = np.array([self._point(one) for one in self.configurations])

    @property
    def direction(self) -> Direction:
        """Optuna's word for which scores are better."""
        return self.task.direction

    def ask(self, configuration: Mapping[str, Any]) -> BankAnswer:
        """The answer to a configuration."""
        point = self._point(configuration)
        apart = np.sqrt(((self.points - point) ** 2).sum(1))
        at = int(apart.argmin())
        exact = apart[at] == 0
        if exact or self.answers == "nearest":
            value, curve = self.scores[at], self.curves[at]
            source, distance = "recorded" if exact else "nearest", float(apart[at])
        else:
            *curve, value = self._predict(point[None])[0]
            source, distance = "surrogate", float(apart[at])
        known = {r: float(v) for r, v in zip(self.rounds, curve, strict=True) if v == v}
        return BankAnswer(float(value), known, source, distance)

    def __call__(self, trial: "optuna.Trial") -> float:
        """An objective of Optuna: the score, with the curve reported for a pruner."""
        import optuna

        answer = self.ask(self.space.suggest(trial))
        for at, value in answer.curve.items():
            trial.report(value, at)
            if trial.should_prune():
                raise optuna.TrialPruned
        return answer.value

    def predicted(self, configurations: Sequence[Mapping[str, Any]]) -> Array:
        """The surrogate's scores with their sign, so that more is better, one for each configuration."""
        points = np.array([self._point(one) for one in configurations])
        return self.task.sign * self._predict(points)[:, -1]

    def _curves(self, rows: "pd.DataFrame") -> tuple[list[int], Array]:
        """The rounds that are evaluated, and the validation scores there (trials, rounds); NaN after a divergence."""
        rounds = sorted({int(r) for one in rows["evaluations"] for r in one})
        curves = np.full((len(rows), len(rounds)), np.nan)
        for i, (at, values) in enumerate(zip(rows["evaluations"], rows["val_curve"], strict=True)):
            curves[i, np.searchsorted(rounds, at)] = values
        return rounds, curves

    def _point(self, configuration: Mapping[str, Any]) -> Array:
        """A configuration as shares of its ranges; choices as 0 or 1 each, sqrt(1/2) so that two are 1 apart, and -1
        for what does not exist.
        """
        found: list[float] = []
        for name, spec in self.space.searched.items():
            value = configuration.get(name)
            if spec.choices is not None:
                found += [np.sqrt(0.5) * (value == choice) for choice in spec.choices]
            else:
                found.append(-1.0 if value is None else max(-1.0, spec.share(value)))
        return np.array(found)

    def _predict(self, points: Array) -> Array:
        """Curves and scores of points (k, p): (k, rounds + 1), means over trees."""
        points = points.astype(np.float32)
        trees = (tree.tree_.predict(points)[..., 0] for tree in self._forest.estimators_)
        total: Array = sum(trees) / TREES
        return total if self.task.sign > 0 else np.exp(total)

    @cached_property
    def _forest(self) -> Any:
        """The forest, of errors by their logarithm; what a diverged trial did not reach counts as the task's worst."""
        known = np.column_stack([self.curves, self.scores])
        known = np.where(np.isfinite(known), known, self.task.worst)
        if self.task.sign < 0:
            known = np.log(np.maximum(known, np.finfo(float).tiny))
        forest = ensemble.RandomForestRegressor(TREES, random_state=0)
        return forest.fit(self.points, known)


def of_search(trials: "pd.DataFrame") -> "pd.DataFrame":
    """The rows of search trials that ended by themselves."""
    ended = trials["status"].isin([Status.FINISHED, Status.DIVERGED])
    return trials[ended & (trials["kind"] == "search")]


def _observed(algorithm: str, configurations: Sequence[Mapping[str, Any]]) -> dict[str, Range]:
    """The algorithm's ranges, as wide as the values that were tried; raises `UserError` where one has no meaning."""
    found = {}
    for name, spec in algorithms.resolve(algorithm).ranges().items():
        values = [one[name] for one in configurations if name in one]
        if spec.choices is not None:
            found[name] = replace(spec, choices=tuple(dict.fromkeys(sorted(values))))
        elif values:
            low, high = (spec.check(f"{algorithm}.{name}", end(values)) for end in (min, max))
            found[name] = replace(spec, low=low, high=high, searched=True)
    return found
