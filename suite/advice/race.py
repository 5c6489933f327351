"""What `suite advise` races: the methods that did best on the nearest tuned scenarios, and as many trials of each
as the time allows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from suite.configurations.configuration import Tuned
from suite.configurations.distance import Distance
from suite.configurations.library import known
from suite.configurations.recommend import adapt, ranking, rivals
from suite.console import say
from suite.execution.estimate import Estimates
from suite.execution.resources import Resources, local_slots
from suite.partition_statistics import Description, describe
from suite.studies.entries import load_data, make_entries
from suite.studies.study import Study, check_study
from trials import algorithms, datasets
from trials.common.errors import UserError
from trials.run.scenario import SPELLING, Scenario
from trials.run.spec import refuse
from trials.settings import Settings

METHODS = ("fedavg", "fedprox", "fedavgm", "folb")
"""What is raced where nothing near was tuned; the first one always is."""
RACED = 4
SEEDS = 3
LEAST, MOST = 4, 40
"""Search trials of a method."""
LEAST_ROUNDS = 5
START = 25.0
"""Seconds that a sweep takes besides its trials: the store, the workers, the leaderboard."""
TRIAL = 1.0
"""Seconds that a trial takes besides its rounds, before any of them is stopped early."""
SLACK = 0.75
"""The share of the time that is planned: measured rounds are few, and trials wait for each other."""


@dataclass(frozen=True)
class Question:
    """What a person asks: data, perhaps how they are partitioned, for which model, and how long it may take."""

    dataset: str
    level: str | None
    model: str | None
    clients: int | None
    minutes: float


@dataclass(frozen=True)
class Race:
    """The race: a study, the scenario, what it starts from and how far away that was tuned, what the data are
    like, what had to be cut to fit the time.
    """

    study: Study
    scenario: Scenario
    near: tuple[Distance, Tuned] | None
    data: Description
    cut: str


def make_race(question: Question, found: Sequence[Tuned], data_root: str | None) -> Race:
    """What to race on these data, before it is known how long a trial takes."""
    dataset = SPELLING["dataset"](question.dataset)
    asked = SPELLING["model"](question.model) if question.model else None
    level = question.level or _level(dataset, question.clients, data_root)
    data = describe(dataset, level, question.clients, 0, data_root)
    near = _near(found, data, asked)
    simple = "logreg" if data.data.dataset.task.metric == "accuracy" else "linear"
    model = asked or (near[0][1].model if near else simple)
    if asked is None and not _fits(model, data):
        model = simple
        near = _near(found, data, model)
    scenario = Scenario.canonical(dataset, model, data.heterogeneity)
    clients = None if data.heterogeneity.startswith("natural") else data.data.clients
    settings = Settings(clients=clients)
    if near:
        settings = adapt(near[0][1], scenario, clients).configuration.settings
    if not settings.val_fraction:  # of a file that no search wrote: what is raced is chosen by it
        settings = settings.model_copy(update={"val_fraction": Settings().val_fraction})
    names = [name for name in _methods([item for _, item in near]) if _able(name, settings, level)]
    warm = any(item.algorithm in names for _, item in near)
    content = {
        "description": f"The best few methods on {scenario}, within {question.minutes:g} minutes.",
        "algorithms": names[:RACED],
        "datasets": [scenario.dataset],
        "models": [scenario.model],
        "heterogeneity": [scenario.heterogeneity],
        "trials": MOST,
        "seeds": SEEDS,
        "scheduler": "asha",
        "warm_start": "nearest" if warm else None,
        "settings": settings.model_dump(mode="json"),
    }
    return Race(check_study(content, {}, "advice"), scenario, near[0] if near else None, data, "")


def label_skew(data: Description) -> float:
    """Mean over clients of the total variation between their labels' shares and those of all together."""
    shares = data.counts / data.counts.sum(1, keepdims=True)
    overall = data.counts.sum(0) / data.counts.sum()
    return float(np.abs(shares - overall).sum(1).mean() / 2)


def measured(data: Description) -> str:
    """What the data are like, in words."""
    least, most = (data.summaries["samples"][name] for name in ("min", "max"))
    each = f"{least:.0f}" if least == most else f"{least:.0f} to {most:.0f}"
    return (
        f"{data.dataset} partitioned {data.heterogeneity} to {data.data.clients} clients "
        f"({each} samples each, label skew {label_skew(data):.2f})"
    )


def within(plan: Race, seconds: float, resources: Resources, data_root: str | None) -> Race:
    """The plan with as many trials as fit the time, and with fewer rounds where the fewest do not."""
    study, source = plan.study, "advice"
    entries = make_entries(study, source)
    data = load_data(entries, data_root, source)
    estimates = Estimates(study, data, resources)
    say("measuring a few rounds of each method")
    trial = 0.0  # seconds of one trial of each method
    for entry in entries:
        found = estimates.entry(entry, calibrate=True)
        trial += found["seconds"] / found["trials"] + TRIAL
    left = (seconds - START) * SLACK * local_slots(resources)
    fits = int(left / trial) - study.seeds
    if fits >= LEAST:
        return replace(plan, study=_changed(study, trials=min(MOST, fits)))
    rounds = int(study.settings.rounds * left / (trial * (LEAST + study.seeds)))
    if rounds < LEAST_ROUNDS:
        needed = trial * (LEAST + study.seeds) * LEAST_ROUNDS / study.settings.rounds
        minutes = (needed / SLACK / local_slots(resources) + START) / 60
        raise UserError(
            f"the time is too short for these data: give at least --minutes {minutes:.2g}"
        )
    shorter = study.settings.model_copy(update={"rounds": rounds, "eval_every": None})
    cut = f" Rounds are {rounds}, not {study.settings.rounds}, to fit the time."
    return replace(plan, study=_changed(study, trials=LEAST, settings=shorter), cut=cut)


def _changed(study: Study, **changes: Any) -> Study:
    return study.model_copy(update=changes)


def _near(
    found: Sequence[Tuned], data: Description, model: str | None
) -> list[tuple[Distance, Tuned]]:
    """What was tuned, nearest first, of methods that can be rivals here."""
    able = [item for item in found if item.provenance.get("adapted_from") is None]
    near = ranking(able, data.dataset, data.heterogeneity, model, label_skew(data))
    return [pair for pair in near if rivals(pair[1].algorithm)]


def _methods(near: Sequence[Tuned]) -> list[str]:
    """FedAvg, then the methods of the nearest scenarios, in each the best validated first."""
    return list(dict.fromkeys([METHODS[0], *([item.algorithm for item in near] or METHODS)]))


def _able(name: str, settings: Settings, level: str) -> bool:
    """Whether a method can run under the settings, and as its paper means it."""
    cls = algorithms.resolve(name)
    given = settings.model_dump()
    if any(given[key] != value for key, (value, _) in cls.requires.items()):
        return False
    try:
        refuse(name, cls, settings, level)
    except UserError:
        return False
    return True


def _level(dataset: str, clients: int | None, data_root: str | None) -> str:
    """How data are partitioned where nobody says: as they were born; else with skewed labels, if they have any."""
    loaded = datasets.parse(dataset).load(0, clients, data_root)
    if loaded.client is not None:
        return "natural"
    return "dirichlet(0.3)" if loaded.task.metric == "accuracy" else "iid"


def _fits(model: str, data: Description) -> bool:
    from trials import models

    dataset = data.data.dataset
    try:
        models.parse(model).parameters(dataset.shape, dataset.classes)
    except UserError:
        return False
    return True


def tuned_here(storage: Path, tracking_uri: str | None) -> list[Tuned]:
    """What was tuned, if anything was."""
    try:
        return known(storage, tracking_uri)
    except UserError:
        say("nothing is tuned here yet: `suite tuned import` takes configurations to start from")
        return []


def started_from(near: tuple[Distance, Tuned] | None) -> str:
    """The end of a sentence: what a race starts from, "" where nothing near was tuned."""
    if near is None:
        return ""
    distance, item = near
    there = f"the nearest tuned scenario, {item.scenario}, {distance}"
    return f", started from {there if distance.total else 'tuned here'}"
