"""The first part of an advice's time: configurations of every model and method, of which the better third goes on.

Successive halving (Jamieson and Talwalkar 2016), here with a third that is kept: all configurations train for a
few rounds, the better third of them anew for three times as many, and the better third of these to the end. Each
rung has an equal part of the time, and ends with it: a configuration that did not come to the rung's end then is
not ranked there. In a rung, models have equal parts of the time, so a model that trains faster has more
configurations tried. All train in this process, one after the other, on the search's seed; scores are of validation data.
"""

import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from suite.execution.resources import Resources
from suite.search.sweep_search import SweepSearch
from suite.search.trial import InitialConfiguration, TrialRequest
from suite.studies.entry import Entry
from suite.studies.study import Study
from trials.datasets.base import Dataset
from trials.federated_data import FederatedData
from trials.run.running import RunningTrial
from trials.run.spec import TrialSpec
from trials.run.trial import partition_data
from trials.run.trial_config import TrialConfig

EACH = 16
"""Configurations of a method on a model: its default one, what it starts from, and blind draws."""
KEPT = 3
"""One of so many goes on to the next rung, which is so many times as long."""


@dataclass(frozen=True)
class Screened:
    """A configuration, and its validation score at the end of the last rung that it reached."""

    entry: Entry
    params: Mapping[str, Any]
    rounds: int
    value: float

    @property
    def order(self) -> tuple[float, float]:
        """Further first, then better."""
        return -self.rounds, -self.entry.task.sign * self.value


@dataclass(frozen=True)
class Screening:
    """What was screened, best first, and the seconds that a round of each entry takes, by its id."""

    found: Sequence[Screened]
    seconds: Mapping[str, float]

    def best(self, model: str) -> list[Screened]:
        """The best configuration of each method on a model, best first."""
        first: dict[str, Screened] = {}
        for one in self.found:
            if one.entry.scenario.model == model:
                first.setdefault(one.entry.algorithm, one)
        return list(first.values())

    @property
    def models(self) -> dict[str, Screened]:
        """The best of each model, best first."""
        first: dict[str, Screened] = {}
        for one in self.found:
            first.setdefault(one.entry.scenario.model, one)
        return first


def screen(
    entries: Sequence[Entry],
    study: Study,
    warm: Mapping[str, Sequence[InitialConfiguration]],
    data: Mapping[str, Dataset],
    resources: Resources,
    until: float,
) -> Screening:
    """Screen the entries of a study until the clock's (`time.monotonic`) `until`; the first configuration is
    trained for a rung in any case.
    """
    search = SweepSearch(list(entries), study, EACH, warm)
    by_id = {entry.id: entry for entry in entries}
    methods = list(dict.fromkeys(entry.algorithm for entry in entries))
    going = [request for request, _ in iter(search.next, None)]
    # The first method's further learning rates take turns with the default configurations of the others.
    going.sort(key=lambda one: one.index + methods.index(by_id[one.entry_id].algorithm))
    rungs, begun = _rungs(study), time.monotonic()
    found: dict[str, Screened] = {}
    took: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])  # seconds and rounds
    for number, rounds in enumerate(rungs, 1):
        end = begun + (until - begun) * number / len(rungs)
        reached = []
        waiting: dict[str, list[TrialRequest]] = defaultdict(list)
        for request in going:
            waiting[by_id[request.entry_id].scenario.model].append(request)
        spent = dict.fromkeys(waiting, 0.0)
        while any(waiting.values()) and not (took and time.monotonic() >= end):
            model = min(filter(waiting.get, spent), key=spent.__getitem__)
            request = waiting[model].pop(0)
            entry, started = by_id[request.entry_id], time.monotonic()
            stop = end if took else math.inf
            done, value = _trained(search.spec(request), rounds, data, resources, stop)
            seconds = time.monotonic() - started
            spent[model] += seconds
            took[entry.id][0] += seconds
            took[entry.id][1] += done
            if value is not None:
                found[request.trial_id] = Screened(entry, request.params, rounds, value)
                reached.append(request)
        reached.sort(key=lambda request: found[request.trial_id].order)
        going = reached[: math.ceil(len(reached) / KEPT)]
    rates = {name: seconds / max(1.0, done) for name, (seconds, done) in took.items()}
    return Screening(sorted(found.values(), key=lambda one: one.order), rates)


def _rungs(study: Study) -> list[int]:
    """The rounds at which the rungs end: the first evaluation, three times as many, all."""
    gap, rounds = study.settings.evaluation_gap, study.settings.rounds
    return sorted({min(gap, rounds), min(KEPT * gap, rounds), rounds})


def _trained(
    spec: TrialSpec, rounds: int, data: Mapping[str, Dataset], resources: Resources, end: float
) -> tuple[int, float | None]:
    """How far a configuration came until the clock's `end`, and its score if that is the rung's end."""
    device = "cuda" if resources.gpus_per_trial else "cpu"
    threads, memory = max(1, int(resources.cpus_per_trial)), resources.budget_bytes
    config = TrialConfig(spec, (rounds,), device, threads, memory)
    running = RunningTrial(config, partial(_partitioned, data))
    outcome = running.step(lambda: time.monotonic() >= end)
    metric = f"val_{spec.task.metric}"
    value = outcome.score(metric) if outcome.history else math.nan
    whole = outcome.last_round >= rounds and not outcome.lost(metric) and math.isfinite(value)
    return outcome.last_round, value if whole else None


def _partitioned(data: Mapping[str, Dataset], spec: TrialSpec) -> FederatedData:
    return partition_data(spec, data[spec.dataset_key], keep=True)
