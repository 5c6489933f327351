"""Companions: for each algorithm two settings of its hyperparameters other than rates, which were good on other data sets.

Learning rates do not carry over between families of data sets, but the other hyperparameters do. A random forest, fitted to
the recorded trials of a scenario, predicts the accuracy of a setting at each learning rate. The first companion loses the
least accuracy at its best rate, on average over families. The second adds most to the first at the same rate.
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
"""Values of `warm_start`. `companions` skips scenarios in which an algorithm has none, and `some-companions` skips none."""
LEAST = 20
"""The fewest search trials of a scenario to which a forest is fitted."""
FAMILIES = 2
"""The fewest families of data sets on which an algorithm's companions are measured."""
BEST = 3
"""How many settings of each scenario are candidates: those of its best trials."""
RATES = 29
"""The number of learning rates at which a setting is predicted, geometrically spaced over the recorded rates."""
KEYS = ["algorithm", "dataset", "model", "heterogeneity"]
READ = ["family", "kind", "metric", "status", "params", "val_score"]
Array = npt.NDArray[Any]


class Companion(Written):
    """A setting of hyperparameters other than rates. `loses` is its mean distance from the best in percentage points of accuracy."""

    params: dict[str, Any]
    loses: float


class Measurement(Written):
    """An algorithm's companions, and the numbers of families of data sets and of search trials that they were measured on."""

    families: int
    trials: int
    companions: list[Companion]


class Companions(Written):
    """The content of a file of companions, and the command that wrote it."""

    command: str
    algorithms: dict[str, Measurement]


def others(cls: type[Algorithm], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the searched hyperparameters of a configuration, without learning rates."""
    searched = [name for name, spec in cls.ranges().items() if spec.searched and not spec.rate]
    return only(params, searched)


class RecordedScenario:
    """The recorded trials of an algorithm in a scenario, and a random forest that predicts accuracy from a configuration."""

    def __init__(self, cls: type[Algorithm], rows: "pd.DataFrame") -> None:
        from sklearn.ensemble import RandomForestRegressor  # takes a second to load

        self.cls, self.family, self.trials = cls, str(rows["family"].iloc[0]), len(rows)
        params = [*map(json.loads, rows["params"])]
        points = [*map(self._point, params)]
        # A diverged trial counts with accuracy 0, since it shows that its rate is too high.
        scores = rows["val_score"].where(rows["status"] == Status.FINISHED, 0.0)
        self.forest = RandomForestRegressor(50, random_state=0).fit(points, scores)
        rates = [*map(itemgetter("lr"), params)]
        self.rates = np.geomspace(min(rates), max(rates), RATES)
        # By predictions, since the best of many noisy scores is partly luck.
        top = np.argsort(-self.forest.predict(points), kind="stable")[:BEST]
        self.best = [others(cls, params[i]) for i in top]

    def curves(self, settings: Sequence[Mapping[str, Any]]) -> Array:
        """Return the predicted accuracy (settings, rates) of each setting at each learning rate in `rates`."""
        points = [self._point({**each, "lr": rate}) for each in settings for rate in self.rates]
        return np.asarray(self.forest.predict(points)).reshape(len(settings), RATES)

    def _point(self, params: Mapping[str, Any]) -> list[float]:
        """Return the searched hyperparameters as numbers: position in a range, index of a choice, or -1 if missing."""
        ranges = self.cls.ranges()
        values = existing({**self.cls.configured({}).__dict__, **params}, ranges)
        point: list[float] = []
        for name, spec in ranges.items():
            if not spec.searched:
                continue
            value = values.get(name)
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
    """Return the recorded classification scenarios of each algorithm in `names`. A scenario needs at least 20 search trials in
    these files. Raise `UserError` for a file that is not a table of trials.
    """
    import pandas as pd

    frames = []
    for path in tables:
        try:
            frame = pd.read_parquet(path).rename(columns={"configuration": "params"})
            frame["family"] = frame["dataset"].map(datasets.family)
            frames.append(frame[[*KEYS, *READ]])
        except (OSError, KeyError, ValueError) as error:
            raise UserError(f"{path} is not a table of trials: {error}") from None
    trials = pd.concat(frames)
    ended = trials["status"].isin([Status.FINISHED, Status.DIVERGED])
    trials = trials[ended & (trials["kind"] == "search") & (trials["metric"] == "accuracy")]
    scenarios: dict[str, list[RecordedScenario]] = {}
    for keys, rows in trials.groupby(KEYS):
        name = str(keys[0])
        if len(rows) >= LEAST and name in names:
            scenarios.setdefault(name, []).append(RecordedScenario(algorithms.resolve(name), rows))
    return scenarios


def measure(
    scenarios: Mapping[str, Sequence[RecordedScenario]], leave_out: str | None
) -> dict[str, Measurement]:
    """Return each algorithm's companions: settings that are good over all its `scenarios`. Data sets of the family `leave_out` do not count."""
    measured = {}
    for name, candidates in scenarios.items():
        kept = [scenario for scenario in candidates if scenario.family != leave_out]
        if len(set(map(attrgetter("family"), kept))) >= FAMILIES:
            measured[name] = _measured(algorithms.resolve(name), kept)
    return measured


def _measured(cls: type[Algorithm], scenarios: Sequence[RecordedScenario]) -> Measurement:
    """Return one or two companions of an algorithm: settings that are good on average over families of data sets. On average,
    the first is closest to each scenario's best accuracy. The second, if any, helps most if scenarios take the better of the two.
    """
    import pandas as pd

    families = [*map(attrgetter("family"), scenarios)]

    def mean(losses: Array) -> Array:
        """Return each setting's mean loss, from `losses` (scenarios, settings). All families of data sets have equal weight."""
        return pd.DataFrame(losses).groupby(families).mean().mean().to_numpy()

    settings = [others(cls, cls.configured({}).params())]
    for scenario in scenarios:
        settings += [each for each in scenario.best if each not in settings]
    curves = np.stack([scenario.curves(settings) for scenario in scenarios])
    losses = 100 * (curves.max((1, 2), keepdims=True) - curves)
    alone = losses.min(2)
    first = int(mean(alone).argmin())
    # A search tries the second only once, at the best rate of the first, so its own best rate does not count.
    at_rate = losses[np.arange(len(scenarios)), :, losses[:, first].argmin(1)]
    second = int(mean(np.minimum(alone[:, [first]], at_rate)).argmin())
    companions = []
    for index in dict.fromkeys((first, second)):
        # Rounded to two digits, since the forest is no more precise.
        rounded = {
            k: float(f"{v:.2g}") if isinstance(v, float) else v for k, v in settings[index].items()
        }
        companions.append(Companion(params=rounded, loses=round(float(mean(at_rate)[index]), 2)))
    trials = sum(scenario.trials for scenario in scenarios)
    return Measurement(families=len(set(families)), trials=trials, companions=companions)


def read(path: str) -> Companions:
    """Return the companions in a file, or the shipped ones if the path is "". Raise `UserError` with all faults of the file."""
    if path:
        text = read_text(Path(path), "companions")
    else:
        path, text = "companions", files("search_spaces").joinpath("companions.yaml").read_text()
    faults = Faults(path)
    content = faults.validate(Companions, parse_mapping(text, path))
    faults.check()
    assert content is not None
    return content


def starts(entries: Sequence[Entry], warm_start: str) -> dict[str, list[InitialConfiguration]]:
    """Return each entry's companions, from which its search starts, by entry id. `warm_start` is `companions` or `some-companions`,
    optionally followed by `:FILE`. With `companions`, an entry gets its companions only if all algorithms in its scenario
    have some. With `some-companions`, each entry gets those it has.
    """
    kind, _, path = warm_start.partition(":")
    measured = read(path).algorithms
    lacking: dict[Scenario, list[str]] = {}
    for entry in entries:
        if entry.algorithm not in measured and kind != SOME:
            lacking.setdefault(entry.scenario, []).append(entry.label)
    for scenario, names in lacking.items():
        say(f"{scenario}: no algorithm starts with companions, since {', '.join(names)} has none")
    warm: dict[str, list[InitialConfiguration]] = {}
    for entry in entries:
        warm[entry.id] = []
        if entry.algorithm in measured and entry.scenario not in lacking:
            warm[entry.id] = companions_of(entry, measured[entry.algorithm])
    return warm


def companions_of(entry: Entry, measured: Measurement) -> list[InitialConfiguration]:
    """Return the measured companions as configurations of an entry, with its default learning rates. Drop hyperparameters that it lacks."""
    source = f"companions of {measured.families} families, {measured.trials} trials"
    configurations = []
    for each in measured.companions:
        params = {k: v for k, v in each.params.items() if k in entry.space.ranges}
        params = entry.space.default(params)
        configurations.append(InitialConfiguration("warm", params, source))
    return configurations
