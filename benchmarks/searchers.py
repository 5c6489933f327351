"""Which search finds good configurations soonest: simulated searches on recorded trials.

    python benchmarks/searchers.py --repetitions 6 --output docs/results/searchers.json --figure docs/results/searchers.svg

A search is the suite's own: its sampler, its lag, its random opening. In the place of training a forest of the scenario's random
trials answers, without noise. Regret is by how much the best configuration so far is behind the best that is known in the
scenario, in points of accuracy. Families of data sets weigh alike in all means; intervals are Student's, over families.
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
"""Budgets that the table shows."""
SAMPLED = ("tpe", "gp", "random")
SCENARIO = ["dataset", "model", "heterogeneity"]
TREES = 50
LEAST = 20
"""Search trials that a scenario needs, for a forest to say anything of it."""
BEST = 3
"""Configurations of each scenario that the others try, to know how good one can be."""


class Pair:
    """An algorithm in a scenario, as a function of the configuration: a forest of what was recorded of it.

    `rows` are its search trials under the settings that most of them have. Diverged ones count as accuracy 0. The ranges are as
    wide as the values that were tried.
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
        """The accuracy of configurations: means over trees."""
        points = np.array([self._point(one) for one in configurations], np.float32)
        trees = [tree.tree_.predict(points)[:, 0] for tree in self.forest.estimators_]
        return np.mean(trees, axis=0)

    def _point(self, configuration: Mapping[str, Any]) -> list[float]:
        """A configuration as shares of its ranges; a choice as 0 or 1 each, and -1 for what does not exist."""
        point: list[float] = []
        for name, spec in self.space.searched.items():
            value = configuration.get(name)
            if spec.choices is not None:
                point += [float(value == choice) for choice in spec.choices]
            else:
                point.append(-1.0 if value is None else max(-1.0, spec.share(value)))
        return point

    def search(self, sampler: str, seed: int) -> Array:
        """The regret after 1, 2, ... trials of a search, in points."""
        of, space = SAMPLERS[sampler], self.space
        default = algorithms.resolve(self.algorithm).configured({}).params()
        words = (seed, zlib.crc32(repr((self.algorithm, *self.scenario)).encode()))

        def suggested(index: int) -> dict[str, Any]:
            opening = {}
            if RATE in space.searched and index < random_startup(of, LAG):
                share = shared_draw(index - 1, self.scenario, (seed,))
                opening = {RATE: space.searched[RATE].at(share)}
            return proposer.suggest(index, opening)

        proposer = Proposer(of, space, "maximize", words)
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
    """The algorithm's ranges, as wide as the values that were tried."""
    ranges = {}
    for name, spec in algorithms.resolve(algorithm).ranges().items():
        values = [one[name] for one in configurations if name in one]
        if spec.choices is not None:
            ranges[name] = replace(spec, choices=tuple(sorted(set(values))))
        elif values:
            ranges[name] = replace(spec, low=min(values), high=max(values), searched=True)
    return ranges


def random_trials() -> pd.DataFrame:
    """The random search trials of the tables that ended by themselves, ranked by accuracy."""
    trials = pd.read_parquet(TABLES)
    ended = trials.status.isin([Status.FINISHED, Status.DIVERGED])
    drawn = trials.study.str.startswith("bank_") & (trials.kind == "search")
    return trials[drawn & ended & (trials.metric == "accuracy")]


def pairs(trials: pd.DataFrame, names: Sequence[str]) -> list[Pair]:
    """Every algorithm in every scenario that has enough trials of it.

    The best that is known in a scenario is that of its own configurations, of the default one, and of the best of the others.
    """
    made = []
    for name in names:
        of = trials[trials.algorithm == name]
        own = []
        for key, rows in of.groupby(SCENARIO, sort=True):
            rows = rows[rows.settings == rows.settings.mode()[0]]
            if len(rows) >= LEAST:
                own.append(Pair(name, tuple(map(str, key)), rows))
        candidates = [algorithms.resolve(name).configured({}).params()]
        for pair in own:
            candidates += [pair.configurations[i] for i in np.argsort(-pair.recorded)[:BEST]]
        for pair in own:
            pair.best = max(pair.best, float(pair.predicted(candidates).max()))
        made += own
    return made


def searchers(
    trials: pd.DataFrame, names: Sequence[str], samplers: Sequence[str], repetitions: int
) -> dict[str, Any]:
    """The regret of every sampler."""
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
    """Entry point."""
    args = parser(__doc__)
    args.add_argument("--algorithms", type=listed, help="with commas between; default: all")
    args.add_argument("--samplers", type=listed, default=list(SAMPLED))
    args.add_argument("--repetitions", type=int, default=30)
    args.add_argument("--output", type=Path, help="where to write the document as JSON")
    args.add_argument("--figure", type=plots.file, help="where to draw it: SVG, PNG or PDF")
    asked = args.parse_args()
    trials = random_trials()
    names = asked.algorithms or sorted(trials.algorithm.unique())
    document = searchers(trials, names, asked.samplers, asked.repetitions)
    if asked.figure:
        plots.searchers(document, asked.figure)
    if asked.output:
        asked.output.write_text(json.dumps(document, indent=1) + "\n")
    show({key: value for key, value in document.items() if key != "curves"}, asked.json)


if __name__ == "__main__":
    main()
