"""Compare how soon searches find good configurations, by simulated searches on recorded trials.

    python benchmarks/searchers.py --repetitions 6 --output docs/results/searchers.json --figure docs/results/searchers.svg

A search is the suite's own, with its sampler, its lag and its random first trials. A random forest predicts the accuracy of each
configuration, without noise. It is fitted to the scenario's recorded trials of random search. Regret is the lead in accuracy, in
percentage points, of the scenario's best recorded configuration over the best one that the search has tried.
All families of data sets have equal weight in means; intervals are Student's, over families.
"""

import json
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.ensemble import RandomForestRegressor

import plots
from measuring import TABLES, listed, parser, show
from reports.leaderboard.statistics import interval
from suite.search.candidates import RATE, random_startup, shared_draw
from suite.search.proposer import Proposer
from suite.search.trial import ValidationResult
from suite.studies.samplers import LAG, SAMPLERS
from suite.studies.space import Space
from trials import algorithms
from trials.algorithm import Range
from trials.run.outcome import Status

Array = npt.NDArray[Any]
TRIALS = 40
BUDGETS = (1, 2, 4, 5, 8, 16, 32)
"""The numbers of trials that the table shows."""
SAMPLED = ("tpe", "gp", "random")
SCENARIO = ["dataset", "model", "heterogeneity"]
TREES = 50
LEAST = 20
"""The fewest search trials of a scenario to which a forest is fitted."""
BEST = 3
"""The number of best configurations of each scenario that are tried in all others, to find the best known accuracy."""


class Pair:
    """An algorithm in a scenario: a random forest that predicts the accuracy of a configuration from recorded trials. `rows`
    are the search trials with the most frequent settings. A diverged trial counts as accuracy 0. The ranges of
    hyperparameters reach from the smallest to the largest value that was tried.
    """

    def __init__(self, algorithm: str, scenario: tuple[str, ...], rows: pd.DataFrame) -> None:
        self.algorithm, self.scenario = algorithm, scenario
        self.family = str(rows["family"].iloc[0])
        self.configurations = [json.loads(text) for text in rows["configuration"]]
        self.space = Space(_observed(algorithm, self.configurations), {})
        finished = (rows["status"] == Status.FINISHED).to_numpy()
        scores = np.where(finished, rows["val_score"].to_numpy(float), 0.0)
        points = [self._point(configuration) for configuration in self.configurations]
        self.forest = RandomForestRegressor(TREES, random_state=0).fit(points, scores)
        self.recorded = self.predicted(self.configurations)
        self.best = float(self.recorded.max())

    def predicted(self, configurations: Sequence[Mapping[str, Any]]) -> Array:
        """Return the predicted accuracy of each configuration, as a mean over trees."""
        points = np.array(list(map(self._point, configurations)), np.float32)
        trees = [tree.tree_.predict(points)[:, 0] for tree in self.forest.estimators_]
        return np.mean(trees, axis=0)

    def _point(self, configuration: Mapping[str, Any]) -> list[float]:
        """Return the features of a configuration: shares of ranges (-1 if a value is missing), and 0 or 1 for each choice."""
        point: list[float] = []
        for name, spec in self.space.searched.items():
            value = configuration.get(name)
            if spec.choices is not None:
                point += [float(value == choice) for choice in spec.choices]
            else:
                point.append(-1.0 if value is None else max(-1.0, spec.share(value)))
        return point

    def search(self, sampler: str, seed: int) -> Array:
        """Return the regret after 1, 2, ... trials of a simulated search, in percentage points."""
        sampling, space = SAMPLERS[sampler], self.space
        default = algorithms.resolve(self.algorithm).configured({}).params()
        words = (seed, zlib.crc32(repr((self.algorithm, *self.scenario)).encode()))

        def suggested(index: int) -> dict[str, Any]:
            opening = {}
            if RATE in space.searched and index < random_startup(sampling, LAG):
                share = shared_draw(index - 1, self.scenario, (seed,))
                opening = {RATE: space.searched[RATE].at(share)}
            return proposer.suggest(index, opening)

        proposer = Proposer(sampling, space, "maximize", words)
        proposer.add(0, default)
        scores: list[float] = []
        for index in range(TRIALS):
            if (due := index - LAG) >= 0:
                ended = ValidationResult(Status.FINISHED, scores[due])
                proposer.tell(due, ended, scores[due], {})
            params = suggested(index) if index else default
            scores.append(float(self.predicted([params])[0]))
        return 100 * (self.best - np.maximum.accumulate(scores))


def _observed(algorithm: str, configurations: Sequence[Mapping[str, Any]]) -> dict[str, Range]:
    """Return the algorithm's ranges, narrowed to the values that were tried."""
    ranges = {}
    for name, spec in algorithms.resolve(algorithm).ranges().items():
        values = [params[name] for params in configurations if name in params]
        if spec.choices is not None:
            ranges[name] = replace(spec, choices=tuple(sorted(set(values))))
        elif values:
            ranges[name] = replace(spec, low=min(values), high=max(values), searched=True)
    return ranges


def random_trials() -> pd.DataFrame:
    """Return the recorded trials of random search that finished or diverged, where the metric is accuracy."""
    trials = pd.read_parquet(TABLES)
    ended = trials.status.isin([Status.FINISHED, Status.DIVERGED])
    drawn = trials.study.str.startswith("bank_") & (trials.kind == "search")
    return trials[drawn & ended & (trials.metric == "accuracy")]


def pairs(trials: pd.DataFrame, names: Sequence[str]) -> list[Pair]:
    """Return every pair of an algorithm and a scenario with enough trials. The best known accuracy of a pair is over its own
    configurations, the default one, and the best ones of other scenarios.
    """
    all_pairs = []
    for name in names:
        own = []
        for key, rows in trials[trials.algorithm == name].groupby(SCENARIO, sort=True):
            rows = rows[rows.settings == rows.settings.mode()[0]]
            if len(rows) >= LEAST:
                own.append(Pair(name, tuple(map(str, key)), rows))
        candidates = [algorithms.resolve(name).configured({}).params()]
        for pair in own:
            candidates += [pair.configurations[i] for i in np.argsort(-pair.recorded)[:BEST]]
        for pair in own:
            pair.best = max(pair.best, float(pair.predicted(candidates).max()))
        all_pairs += own
    return all_pairs


def searchers(
    trials: pd.DataFrame, names: Sequence[str], samplers: Sequence[str], repetitions: int
) -> dict[str, Any]:
    """Return the regret of each sampler over all pairs, as means over families, with curves and time per trial."""
    compared = pairs(trials, names)
    families = np.array([pair.family for pair in compared])
    rows, curves = [], {}
    for sampler in samplers:
        started = time.process_time()
        regret = np.array(
            [
                np.mean([pair.search(sampler, seed) for seed in range(repetitions)], axis=0)
                for pair in compared
            ]
        )
        spent = time.process_time() - started
        by_family = np.array(
            [regret[families == family].mean(axis=0) for family in np.unique(families)]
        )
        low, high = interval(list(by_family[:, 7]))
        curves[sampler] = by_family.mean(axis=0).tolist()
        rows.append(
            {"search": sampler}
            | {f"after {n}": fmean(by_family[:, n - 1]) for n in BUDGETS}
            | {"after_8_low": low, "after_8_high": high}
            | {"ms_per_trial": 1e3 * spent / regret.size / repetitions}
        )
    return {
        "scenarios": len({pair.scenario for pair in compared}),
        "families": len(set(families)),
        "pairs": len(compared),
        "repetitions": repetitions,
        "searches": rows,
        "curves": curves,
    }


def main() -> None:
    """Measure and print, as the command line says."""
    cli = parser(__doc__)
    cli.add_argument("--algorithms", type=listed, help="separated by commas; default: all")
    cli.add_argument("--samplers", type=listed, default=list(SAMPLED))
    cli.add_argument("--repetitions", type=int, default=30)
    cli.add_argument("--output", type=Path, help="the JSON file to write")
    cli.add_argument("--figure", type=plots.file, help="the figure to write: .svg, .png or .pdf")
    args = cli.parse_args()
    trials = random_trials()
    names = args.algorithms or sorted(trials.algorithm.unique())
    document = searchers(trials, names, args.samplers, args.repetitions)
    if args.figure:
        plots.searchers(document, args.figure)
    if args.output:
        args.output.write_text(json.dumps(document, indent=1) + "\n")
    show({key: value for key, value in document.items() if key != "curves"}, args.json)


if __name__ == "__main__":
    main()
