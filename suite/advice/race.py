"""What `suite advise` races: models and methods that are screened, and of these the few that are tuned in a sweep."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from suite.advice.screening import EACH, Screened, Screening
from suite.bank.rows import label_skew
from suite.configurations.configuration import Tuned
from suite.configurations.distance import Distance
from suite.configurations.library import known
from suite.configurations.recommend import adapt, ranking, rivals
from suite.console import say
from suite.partition_statistics import Description, describe
from suite.studies.initial_design import RATE
from suite.studies.search_settings import Confirm
from suite.studies.study import Study, check_study
from trials import algorithms, datasets, models
from trials.common.errors import UserError
from trials.run.scenario import SPELLING, Scenario
from trials.run.spec import refuse
from trials.settings import Settings

METHODS = ("fedavg", "fedadam", "feddyn", "scaffold", "fedavgm", "fedprox")
"""What is screened after what was best nearby; the first one always is. FedAdam, FedDyn and SCAFFOLD are those that,
one after the other beside FedAvg, lower most what the best of them loses against the best method of each scenario of the shipped
bank (families alike); the other two are our choice.
"""
MODELS = {
    "accuracy": ("logreg", "lenet5", "mlp(64,64)", "mlp(200,200)"),
    "mse": ("linear", "mlp(64,64)", "mlp(200,200)"),
    "tokens": ("char_lstm", "sent_lstm"),
}
"""What is screened where nobody names a model: the first `TRIED` that fit, by the task's metric, or of token ids."""
TRIED = 3
SCREENED = 6
"""Methods that are screened."""
RACED = ((4, 5, True), (3, 3, False), (2, 3, False))
"""Methods that are tuned, final runs of each, and whether its best are confirmed before; less where the time is short."""
CONFIRM = Confirm(best=3, seeds=2)
LEAST, MOST = 4, 200
"""Search trials of a method."""
LEAST_ROUNDS = 5
START = 30.0
"""Seconds that a sweep takes besides its trials: the store, the workers, the leaderboard."""
TRIAL = 0.25
"""Seconds that a search trial takes besides its rounds."""
STOPPED = 8.0
"""How many times as many trials early stopping makes room for; a deadline cuts those that it does not."""
BUSY = 0.6
"""The speed of a trial beside others, as a share of its speed alone, that is counted on."""
RATES = (1e-3, 100.0)
"""Learning rates that are screened."""
AROUND = 30.0
"""The sweep searches learning rates up to so many times below the least and above the largest of the screened winners."""


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
    """The race: a study, what it starts from and how far away that was tuned, what the data are like, what had to be
    cut to fit the time, and, once the study is one of few methods on one model, what was screened for it.
    """

    study: Study
    near: tuple[Distance, Tuned] | None
    data: Description
    cut: str = ""
    screened: Screening | None = None


def make_race(question: Question, found: Sequence[Tuned], data_root: str | None) -> Race:
    """What to screen on these data."""
    dataset = SPELLING["dataset"](question.dataset)
    asked = SPELLING["model"](question.model) if question.model else None
    level = question.level or _level(dataset, question.clients, data_root)
    data = describe(dataset, level, question.clients, 0, data_root)
    near = _near(found, data, asked)
    clients = None if data.heterogeneity.startswith("natural") else data.data.clients
    settings = Settings(clients=clients)
    tried = [asked] if asked else _models(near, data)
    if near:
        scenario = Scenario.canonical(dataset, tried[0], data.heterogeneity)
        settings = adapt(near[0][1], scenario, clients).configuration.settings
    if not settings.val_fraction:  # of a file that no search wrote: what is raced is chosen by it
        settings = settings.model_copy(update={"val_fraction": Settings().val_fraction})
    names = [name for name in _methods([item for _, item in near]) if _able(name, settings, level)]
    content = {
        "algorithms": names[:SCREENED],
        "datasets": [dataset],
        "models": tried,
        "heterogeneity": [data.heterogeneity],
        "trials": EACH,
        "settings": settings.model_dump(mode="json"),
        "search": {RATE: {"low": RATES[0], "high": RATES[1], "log": True}},
    }
    return Race(check_study(content, {}, "advice"), near[0] if near else None, data)


def raced(plan: Race, screened: Screening, seconds: float, slots: int, minutes: float) -> Race:
    """The few methods that were best on the best model, with FedAvg: a study of them that starts from the best
    configuration of each, with as many trials as fit the time, and with fewer rounds where the fewest do not.
    """
    model, rounds = next(iter(screened.models)), plan.study.settings.rounds
    found = screened.best(model)
    always = [one for one in found if one.entry.algorithm == plan.study.algorithms[0]]
    found = [*always, *(one for one in found if one not in always)]
    speed, cut = slots * BUSY if slots > 1 else 1.0, ""
    left = (seconds - START) * speed
    for count, seeds, confirmed in RACED:
        best = found[:count]
        trial = sum(screened.seconds[one.entry.id] for one in best) * rounds
        repeats = seeds + confirmed * CONFIRM.best * CONFIRM.seeds
        fits = int((left - repeats * trial) / (trial / STOPPED + len(best) * TRIAL))
        if fits >= LEAST:
            break
    settings = plan.study.settings
    if fits < LEAST:
        fewer = int(rounds * left / (trial * (LEAST / STOPPED + seeds)))
        if fewer < LEAST_ROUNDS:
            raise UserError(
                "the time is too short for these data: give at least --minutes "
                f"{_minutes(trial * LEAST_ROUNDS / rounds * (LEAST / STOPPED + seeds) / speed, seconds, minutes):.2g}"
            )
        settings = settings.model_copy(update={"rounds": fewer, "eval_every": None})
        cut = f" Rounds are {fewer}, not {rounds}, to fit the time."
    content = plan.study.model_dump(mode="json") | {
        "description": f"The best few methods on {best[0].entry.scenario}, within {minutes:g} minutes. Defaults are "
        "what was best of those screened.",
        "algorithms": [one.entry.algorithm for one in best],
        "models": [model],
        "trials": min(MOST, max(LEAST, fits)),
        "seeds": seeds,
        "confirm": CONFIRM.model_dump(mode="json") if confirmed else None,
        "scheduler": "asha",
        "settings": settings.model_dump(mode="json"),
        "search": _searched(best),
    }
    return replace(plan, study=check_study(content, {}, "advice"), cut=cut, screened=screened)


def _minutes(race: float, seconds: float, minutes: float) -> float:
    """The time that is enough where a race needs so many seconds, and had so many of so many minutes."""
    return (60 * minutes - seconds + race + START) / 60


def _searched(best: Sequence[Screened]) -> dict[str, Any]:
    """The ranges of a race: learning rates around those that were best, and what was best as defaults."""
    rates = [one.params[RATE] for one in best]
    low, high = max(RATES[0], min(rates) / AROUND), min(RATES[1], max(rates) * AROUND)
    defaults = {
        f"{one.entry.algorithm}.{key}": {"default": value}
        for one in best
        for key, value in one.params.items()
    }
    return {RATE: {"low": low, "high": high, "log": True}, **defaults}


def measured(data: Description) -> str:
    """What the data are like, in words."""
    least, most = (data.summaries["samples"][name] for name in ("min", "max"))
    each = f"{least:.0f}" if least == most else f"{least:.0f} to {most:.0f}"
    return (
        f"{data.dataset} partitioned {data.heterogeneity} to {data.data.clients} clients "
        f"({each} samples each, label skew {label_skew(data.counts):.2f})"
    )


def _near(
    found: Sequence[Tuned], data: Description, model: str | None
) -> list[tuple[Distance, Tuned]]:
    """What was tuned, nearest first, of methods that can be rivals here."""
    able = [item for item in found if item.provenance.get("adapted_from") is None]
    near = ranking(able, data.dataset, data.heterogeneity, model, label_skew(data.counts))
    return [pair for pair in near if rivals(pair[1].algorithm)]


def _methods(near: Sequence[Tuned]) -> list[str]:
    """FedAvg, then the methods of the nearest scenarios, in each the best validated first, then the usual ones."""
    return list(dict.fromkeys([METHODS[0], *(item.algorithm for item in near), *METHODS]))


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


def _models(near: Sequence[tuple[Distance, Tuned]], data: Description) -> list[str]:
    """The first few models that fit: that of the nearest scenario, then the usual ones."""
    dataset = data.data.dataset
    tokens = isinstance(dataset.x, np.ndarray) and dataset.x.dtype.kind in "iu"
    usual = MODELS["tokens" if tokens else dataset.task.metric]
    names = dict.fromkeys([*(item.model for _, item in near[:1]), *map(models.canonical, usual)])
    return [name for name in names if _fits(name, data)][:TRIED]


def _fits(model: str, data: Description) -> bool:
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
