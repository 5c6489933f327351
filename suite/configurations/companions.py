"""Companions: for each algorithm two settings of its hyperparameters that are no rates, which lose least elsewhere.

What carries over between families of data is not the learning rate but what goes with it. A forest of the recorded trials of a
scenario answers how good a setting is there at a rate. The first companion loses least at its best rate, in the mean over families;
beside it the second gains most at the same rate.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from importlib.resources import files
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from suite.console import say
from suite.search.trial import InitialConfiguration
from suite.studies.entries import Entry
from suite.studies.validation import Faults, Written
from suite.yaml_files import parse_mapping, read_text
from trials import algorithms, datasets
from trials.algorithm import Algorithm, existing
from trials.common.errors import UserError
from trials.common.mappings import only
from trials.run.outcome import Status
from trials.run.spec import Scenario

if TYPE_CHECKING:
    import pandas as pd

COMPANIONS, SOME = "companions", "some-companions"
"""`warm_start` by a file, which `:FILE` may name: in scenarios of whose algorithms each has companions, or wherever one has."""
LEAST = 20
"""Search trials that a scenario needs, for a forest to say anything of it."""
FAMILIES = 2
"""Families of data sets that an algorithm needs, to have companions."""
BEST = 3
"""Settings that are considered of each scenario: those of its best trials."""
RATES = 29
"""Rates at which a setting is tried, evenly spaced over those recorded."""
PLACE = ["algorithm", "dataset", "model", "heterogeneity"]
READ = ["family", "kind", "metric", "status", "params", "val_score"]
Array = npt.NDArray[Any]


class Companion(Written):
    """A setting, and the points of accuracy that it loses against the best known at the first one's best rate, over families."""

    params: dict[str, Any]
    loses: float


class Measurement(Written):
    """An algorithm's companions, and from how many families and search trials they are."""

    families: int
    trials: int
    companions: list[Companion]


class Companions(Written):
    """A file of companions, and the command that made it."""

    command: str
    algorithms: dict[str, Measurement]


def others(cls: type[Algorithm], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters of a configuration that are searched and no rates."""
    searched = [name for name, spec in cls.ranges().items() if spec.searched and not spec.rate]
    return only(params, searched)


class RecordedScenario:
    """What was recorded of an algorithm in a scenario, as a function of its configuration."""

    def __init__(self, cls: type[Algorithm], rows: "pd.DataFrame") -> None:
        from sklearn.ensemble import RandomForestRegressor  # which takes a second to load

        self.cls, self.family, self.trials = cls, str(rows["family"].iloc[0]), len(rows)
        params = [*map(json.loads, rows["params"])]
        points = [*map(self._point, params)]
        # A trial that diverged is no missing value: its rate is known to be too high.
        scores = rows["val_score"].where(rows["status"] == Status.FINISHED, 0.0)
        self.forest = RandomForestRegressor(50, random_state=0).fit(points, scores)
        rates = [*map(itemgetter("lr"), params)]
        self.rates = np.geomspace(min(rates), max(rates), RATES)
        # By the forest, since the best of many noisy scores is lucky.
        top = np.argsort(-self.forest.predict(points), kind="stable")[:BEST]
        self.best = [others(cls, params[i]) for i in top]

    def curves(self, settings: Sequence[Mapping[str, Any]]) -> Array:
        """Return the predicted accuracy of settings at each of the rates: (settings, rates)."""
        points = [self._point({**each, "lr": rate}) for each in settings for rate in self.rates]
        return np.asarray(self.forest.predict(points)).reshape(len(settings), RATES)

    def _point(self, params: Mapping[str, Any]) -> list[float]:
        """Return a configuration as numbers: shares of ranges, choices by their place (others last), -1 for what does not exist."""
        ranges = self.cls.ranges()
        whole = existing({**self.cls.configured({}).__dict__, **params}, ranges)
        point: list[float] = []
        for name, spec in ranges.items():
            if not spec.searched:
                continue
            value = whole.get(name)
            if value is None:
                point.append(-1.0)
            elif spec.choices is not None:
                point.append(float([*spec.choices, value].index(value)))
            else:
                point.append(max(-1.0, spec.share(value)))
        return point


def recorded(
    tables: Sequence[Path], names: Collection[str] = algorithms.ALGORITHMS
) -> dict[str, list[RecordedScenario]]:
    """Return by algorithm, of these, the scenarios of tables of trials with enough search trials, scored by accuracy. Raises
    `UserError` for a file that is no such table.
    """
    import pandas as pd

    frames = []
    for path in tables:
        try:
            frame = pd.read_parquet(path).rename(columns={"configuration": "params"})
            frame["family"] = frame["dataset"].map(datasets.family)
            frames.append(frame[[*PLACE, *READ]])
        except (OSError, KeyError, ValueError) as error:
            raise UserError(f"{path} is no table of trials: {error}") from None
    trials = pd.concat(frames)
    ended = trials["status"].isin([Status.FINISHED, Status.DIVERGED])
    trials = trials[ended & (trials["kind"] == "search") & (trials["metric"] == "accuracy")]
    scenarios: dict[str, list[RecordedScenario]] = {}
    for place, rows in trials.groupby(PLACE):
        name = str(place[0])
        if len(rows) >= LEAST and name in names:
            scenarios.setdefault(name, []).append(RecordedScenario(algorithms.resolve(name), rows))
    return scenarios


def measure(
    scenarios: Mapping[str, Sequence[RecordedScenario]], leave_out: str | None
) -> dict[str, Measurement]:
    """Return the companions of each algorithm, without the scenarios of one family of data sets."""
    measured = {}
    for name, places in scenarios.items():
        kept = [place for place in places if place.family != leave_out]
        if len(set(map(attrgetter("family"), kept))) >= FAMILIES:
            measured[name] = _measured(algorithms.resolve(name), kept)
    return measured


def _measured(cls: type[Algorithm], places: Sequence[RecordedScenario]) -> Measurement:
    """Return the setting that loses least in the mean over families, and the one that gains most beside it at its rate."""
    import pandas as pd

    families = [*map(attrgetter("family"), places)]

    def mean(losses: Array) -> Array:
        """Return the mean over families of (places, settings): (settings,)."""
        return pd.DataFrame(losses).groupby(families).mean().mean().to_numpy()

    settings = [others(cls, cls.configured({}).params())]
    for place in places:
        settings += [each for each in place.best if each not in settings]
    curves = np.stack([place.curves(settings) for place in places])
    losses = 100 * (curves.max((1, 2), keepdims=True) - curves)
    alone = losses.min(2)
    first = int(mean(alone).argmin())
    # The second is tried once, at the rate that was found for the first: what it could do at its own does not count.
    there = losses[np.arange(len(places)), :, losses[:, first].argmin(1)]
    second = int(mean(np.minimum(alone[:, [first]], there)).argmin())
    companions = []
    for index in dict.fromkeys((first, second)):
        # Two digits of each number: more are not known.
        rounded = {
            k: float(f"{v:.2g}") if isinstance(v, float) else v for k, v in settings[index].items()
        }
        companions.append(Companion(params=rounded, loses=round(float(mean(there)[index]), 2)))
    trials = sum(place.trials for place in places)
    return Measurement(families=len(set(families)), trials=trials, companions=companions)


def read(path: str) -> Companions:
    """Read a file of companions, "" for the shipped one; raises `UserError` with every fault."""
    if path:
        text = read_text(Path(path), "companions")
    else:
        path, text = "companions", files("search_spaces").joinpath("companions.yaml").read_text()
    faults = Faults(path)
    content = faults.validate(Companions, parse_mapping(text, path))
    faults.check()
    assert content is not None
    return content


def starts(entries: Sequence[Entry], where: str) -> dict[str, list[InitialConfiguration]]:
    """Return by entry the configurations of its companions, the first one first. In a scenario of which an algorithm has
    none, no entry has any, but under `some-companions`.
    """
    kind, _, path = where.partition(":")
    measured = read(path).algorithms
    lacking: dict[Scenario, list[str]] = {}
    for entry in entries:
        if entry.algorithm not in measured and kind != SOME:
            lacking.setdefault(entry.scenario, []).append(entry.label)
    for scenario, names in lacking.items():
        say(f"{scenario}: begins without companions, of which {', '.join(names)} has none")
    warm: dict[str, list[InitialConfiguration]] = {}
    for entry in entries:
        warm[entry.id] = []
        if entry.algorithm in measured and entry.scenario not in lacking:
            warm[entry.id] = companions_of(entry, measured[entry.algorithm])
    return warm


def companions_of(entry: Entry, measured: Measurement) -> list[InitialConfiguration]:
    """Return an entry's companions at its default rates, without what it does not have."""
    source = f"companions of {measured.families} families, {measured.trials} trials"
    configurations = []
    for each in measured.companions:
        params = {k: v for k, v in each.params.items() if k in entry.space.ranges}
        params = entry.space.default(params)
        configurations.append(InitialConfiguration("warm", params, source))
    return configurations
