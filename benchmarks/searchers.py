"""Which search finds good configurations soonest: simulated searches on the bank, each family of data sets left out in turn.

    python benchmarks/searchers.py --repetitions 30 --output docs/results/searchers.json --figure docs/results/searchers.svg

A search is the suite's own: its sampler, its lag, its random opening. In the place of training a forest of the scenario's recorded
trials answers, without noise. Regret is by how much the best configuration so far is behind the best that is known in the
scenario, in points of accuracy. Searches differ in their sampler, and in what they know:

    cold        the default configuration, which every search tries first
    portfolio   after it the four configurations of a portfolio of the other families
    prior       suggestion i is with probability 2 / i one of the portfolio's, changed by a normal step of a fourth of each range: a
                prior that fades, as piBO's and PriorBand's do
    bad prior   the same, with the portfolio of the algorithm whose learning rates are farthest, and the low ends of all else

Families weigh alike in all means; intervals are Student's, over families.
"""

import json
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

import plots
from measuring import listed, parser, show
from reports.leaderboard.statistics import interval
from suite.bank import load
from suite.bank.benchmark import Benchmark
from suite.configurations.portfolio import SIZE, Losses
from suite.search.proposer import Observation, Proposer
from suite.search.trial import InitialConfiguration
from suite.studies.initial_design import RATE, random_startup, shared_draw
from suite.studies.samplers import LAG, SAMPLERS
from trials import algorithms
from trials.common import randomness
from trials.run.outcome import Status

if TYPE_CHECKING:
    import pandas as pd

TRIALS = 40
BUDGETS = (1, 2, 4, 5, 8, 16, 32)
"""Budgets that the table shows."""
FADING = 2.0
WIDTH = 0.25
"""The prior's standard deviation, as a share of a range."""
SAMPLED = ("tpe", "gp", "random")
KNOWN = ("cold", "portfolio", "prior", "bad prior")


@dataclass(frozen=True)
class Pair:
    """An algorithm in a scenario: its benchmark, the best gain that is known, and what other families know of it."""

    benchmark: Benchmark
    family: str
    best: float
    portfolio: list[dict[str, Any]]
    bad: list[dict[str, Any]]

    def search(self, sampler: str, knows: str, seed: int) -> list[float]:
        """The regret after 1, 2, ... trials of a search, in points."""
        of, space = SAMPLERS[sampler], self.benchmark.space
        default = algorithms.resolve(self.benchmark.algorithm).configured({}).params()
        warm = self.portfolio if knows == "portfolio" else []
        known = [InitialConfiguration("default", default)]
        known += [InitialConfiguration("warm", one) for one in warm if one != default]
        words = (
            seed,
            zlib.crc32(repr((self.benchmark.algorithm, *self.benchmark.scenario)).encode()),
        )
        prior = {"prior": self.portfolio, "bad prior": self.bad}.get(knows, [])

        def opens(index: int) -> dict[str, Any]:
            draw = randomness.generator("prior", *words, index)
            if prior and draw.random() < FADING / (index + 1):
                return self._near(prior[draw.integers(len(prior))], draw)
            if RATE in space.searched and index < random_startup(of, LAG):
                share = shared_draw(index - len(known), self.benchmark.scenario, (seed,))
                return {RATE: space.searched[RATE].at(share)}
            return {}

        proposer = Proposer(of, space, known, "maximize", words, opens)
        gains: list[float] = []
        for index in range(TRIALS):
            if (due := index - LAG) >= 0:
                proposer.tell(due, Observation(Status.FINISHED, gains[due], {}, {}))
            made = proposer.propose(index)
            gains.append(float(self.benchmark.predicted([made.params])[0]))
        return list(100 * (self.best - np.maximum.accumulate(gains)))

    def _near(self, center: Mapping[str, Any], draw: np.random.Generator) -> dict[str, Any]:
        """A configuration around another one."""
        found = {}
        for name, spec in self.benchmark.space.searched.items():
            if name not in center:
                continue
            if spec.choices is not None:
                found[name] = center[name]
            else:
                share = spec.share(center[name]) + WIDTH * draw.normal()
                found[name] = spec.at(min(max(share, 0.0), 1.0))
        return found


def pairs(trials: "pd.DataFrame", names: Sequence[str]) -> tuple[list[Pair], dict[str, Losses]]:
    """Every algorithm in every scenario of the bank."""
    losses = {name: Losses.of(name, trials) for name in names}
    chosen = {
        (name, family): [dict(of.candidates[i]) for i in of.greedy(SIZE, of.families != family)]
        for name, of in losses.items()
        for family in np.unique(of.families)
    }
    middle = {
        key: float(np.median(np.log([one[RATE] for one in of]))) for key, of in chosen.items()
    }
    found = []
    for name, of in losses.items():
        for number, benchmark in enumerate(of.benchmarks):
            family = str(of.families[number])
            far = max(names, key=lambda other: abs(middle[other, family] - middle[name, family]))
            lows = {
                k: s.low
                for k, s in benchmark.space.searched.items()
                if s.choices is None and not s.when
            }
            bad = [{**lows, RATE: one[RATE]} for one in chosen[far, family]]
            best = float(of.best[number])
            found.append(Pair(benchmark, family, best, chosen[name, family], bad))
    return found, losses


def searchers(
    trials: "pd.DataFrame", names: Sequence[str], samplers: Sequence[str], repetitions: int
) -> dict[str, Any]:
    """The regret of every search, and what was asked of portfolios."""
    found, losses = pairs(trials, names)
    regret: dict[str, Any] = {}
    rows, seconds, count = [], 0.0, 0
    for sampler in samplers:
        for knows in KNOWN:
            started = time.process_time()
            curves = np.array(
                [
                    np.mean([one.search(sampler, knows, r) for r in range(repetitions)], 0)
                    for one in found
                ]
            )
            spent = time.process_time() - started
            seconds, count = seconds + spent, count + repetitions * len(found)
            label = f"{sampler}, {knows}"
            regret[label] = curves
            rows.append(
                {
                    "search": label,
                    **_by_budget(found, curves),
                    "ms_per_trial": 1e3 * spent / curves.size / repetitions,
                }
            )
    return {
        "scenarios": len({one.benchmark.scenario for one in found}),
        "families": len({one.family for one in found}),
        "pairs": len(found),
        "repetitions": repetitions,
        "seconds_of_1000_searches": 1000 * seconds / count,
        "searches": rows,
        "portfolios": [_portfolios(losses, regret, found)] if "tpe" in samplers else [],
        "curves": {label: list(map(float, _mean(found, of))) for label, of in regret.items()},
    }


def _mean(found: Sequence[Pair], curves: np.ndarray) -> np.ndarray:
    """The mean over pairs, families weighing alike."""
    return np.mean(_families(found, curves), 0)


def _families(found: Sequence[Pair], curves: np.ndarray) -> np.ndarray:
    """Means by family."""
    of = np.array([one.family for one in found])
    return np.array([curves[of == family].mean(0) for family in np.unique(of)])


def _by_budget(found: Sequence[Pair], curves: np.ndarray) -> dict[str, Any]:
    by_family = _families(found, curves)
    low, high = interval(list(by_family[:, 7]))
    return {f"after {n}": fmean(by_family[:, n - 1]) for n in BUDGETS} | {
        "after_8_low": low,
        "after_8_high": high,
    }


def _portfolios(
    losses: Mapping[str, Losses], regret: Mapping[str, np.ndarray], found: Sequence[Pair]
) -> dict[str, Any]:
    """The shares of pairs in which a portfolio of other families does what is asked of it."""
    elsewhere = 100 * np.concatenate([of.left_out(SIZE) / 100 for of in losses.values()])
    ours, cold = regret["tpe, portfolio"], regret["tpe, cold"]
    bad = regret["tpe, bad prior"]
    costs = {
        f"bad_prior_trials_for_{n}": _reached(_mean(found, bad), _mean(found, cold)[n - 1])
        for n in (8, 16, 32)
    }
    return {
        "8_with_portfolio_at_most_32_cold": float(np.mean(ours[:, 7] <= cold[:, 31] + 1e-9)),
        "within_half_a_point": float(np.mean(ours[:, 7] <= cold[:, 31] + 0.5)),
        "first_within_1_point": float(np.mean(elsewhere[:, 0] <= 1)),
        "best_of_4_within_1_point": float(np.mean(elsewhere[:, 3] <= 1)),
        **costs,
    }


def _reached(curve: np.ndarray, target: float) -> int | None:
    """The first number of trials whose regret is at most the target."""
    hits = np.flatnonzero(curve <= target)
    return int(hits[0]) + 1 if len(hits) else None


def main() -> None:
    """Entry point."""
    args = parser(__doc__)
    args.add_argument(
        "--bank",
        type=Path,
        nargs="*",
        default=[],
        help="files and folders; default: as suite.bank.load()",
    )
    args.add_argument("--algorithms", type=listed, help="with commas between; default: all")
    args.add_argument("--samplers", type=listed, default=list(SAMPLED))
    args.add_argument("--repetitions", type=int, default=30)
    args.add_argument("--output", type=Path, help="where to write the document as JSON")
    args.add_argument("--figure", type=plots.file, help="where to draw it: SVG, PNG or PDF")
    asked = args.parse_args()
    trials = load(*asked.bank)
    names = asked.algorithms or sorted(trials["algorithm"].unique())
    found = searchers(trials, names, asked.samplers, asked.repetitions)
    if asked.figure:
        plots.searchers(found, asked.figure)
    if asked.output:
        asked.output.write_text(json.dumps(found, indent=1) + "\n")
    show({key: value for key, value in found.items() if key != "curves"}, asked.json)


if __name__ == "__main__":
    main()
