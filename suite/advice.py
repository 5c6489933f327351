"""`suite advise`: which method to use on somebody's data, found within a time.

The data are dealt and measured; the methods that did best on the nearest tuned cells, with FedAvg, are
tuned on them as in any sweep, with early stopping and as many trials as the time allows; and the winner
is described in a paragraph.
"""

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from reports.leaderboard.interim import Standing
from reports.leaderboard.leaderboard import Leaderboard, Row
from reports.leaderboard.wording import params_text, title_of, total_bytes
from suite.configurations.configuration import Tuned
from suite.configurations.distance import Distance
from suite.configurations.library import known
from suite.configurations.recommend import adapt, ranking, rivals
from suite.console import say
from suite.dealt_data import Description, describe
from suite.execution.estimate import Estimates
from suite.execution.resources import Resources, local_slots
from suite.execution.stop_signal import OUT_OF_TIME
from suite.results.leaderboards import read_leaderboard
from suite.results.query import Query
from suite.studies.entries import load_data, make_entries
from suite.studies.study import Study, check_study
from suite.sweeps.deadline import Deadline
from suite.sweeps.paths import SweepPaths
from suite.sweeps.request import SweepRequest
from suite.tracking import RUNS
from suite.tracking.store import Store
from suite.yaml_files import dump, write_whole, writing
from trials import algorithms, datasets
from trials.errors import UserError
from trials.place import SPELLING, Place
from trials.settings import Settings
from trials.spec import refuse

METHODS = ("fedavg", "fedprox", "fedavgm", "folb")
"""What is raced where nothing near was tuned; the first one always is."""
RACED = 4
SEEDS = 3
LEAST, MOST = 4, 40
"""Search trials of a method."""
LEAST_ROUNDS = 5
START = 25.0
"""Seconds that a sweep takes besides its trials: the store, the workers, the leaderboard."""
END = 5.0
"""Seconds that are kept for the records and the leaderboard when the time is up."""
TRIAL = 1.0
"""Seconds that a trial takes besides its rounds, before any of them is stopped early."""
SLACK = 0.75
"""The share of the time that is planned: measured rounds are few, and trials wait for each other."""


@dataclass(frozen=True)
class Question:
    """What a person asks: data, perhaps how they are dealt, for which model, and how long it may take."""

    dataset: str
    level: str | None
    model: str | None
    clients: int | None
    minutes: float


@dataclass(frozen=True)
class Plan:
    """The race: a study, the cell, what it starts from and how far away that was tuned, what the data are
    like, what had to be cut to fit the time.
    """

    study: Study
    place: Place
    near: tuple[Distance, Tuned] | None
    data: Description
    cut: str


@dataclass(frozen=True)
class Advice:
    """The answer: the paragraph, the command that uses it, and the leaderboard that it is from, which is
    interim where the time was up before the final runs were over.
    """

    plan: Plan
    sweep: str
    storage: Path
    leaderboard: Leaderboard
    seconds: float

    @property
    def best(self) -> Row | Standing:
        """What is recommended: the first row, or where there is none what stands first."""
        board = self.leaderboard
        return board.rows[0] if board.rows else board.interim[0]

    @property
    def command(self) -> list[str]:
        """The words that run what is recommended and keep its model."""
        best, words = self.best, ["suite", "run"]
        words += ["--tuned"] * isinstance(best, Row)
        words += ["--algorithm", algorithms.label(best.algorithm), "--dataset", best.dataset]
        words += ["--model", best.model, "--heterogeneity", best.heterogeneity]
        if isinstance(best, Standing):  # nothing is tuned yet that --tuned could find
            shared = self.plan.study.settings.model_dump(mode="json", exclude_defaults=True)
            for key, value in {**shared, **best.params}.items():
                words += [
                    "--set",
                    f"{key}={value if isinstance(value, str) else json.dumps(value)}",
                ]
        words += ["--save", "model"]
        return words + (["--storage", str(self.storage)] if self.storage != RUNS else [])

    def document(self) -> dict[str, Any]:
        """The JSON of `suite advise`."""
        near = self.plan.near
        return {
            "sweep": self.sweep,
            "recommended": asdict(self.best),
            "interim": not self.leaderboard.rows,
            "skew": round(label_skew(self.plan.data), 4),
            "samples": self.plan.data.summaries["samples"],
            "started_from": None if near is None else near[1].model_dump(mode="json"),
            "distance": None if near is None else near[0].total,
            "leaderboard": self.leaderboard.as_dict(),
            "seconds": round(self.seconds, 1),
            "command": self.command,
            "text": self.text,
        }

    @property
    def text(self) -> str:
        """One paragraph for a person."""
        best, plan, board = self.best, self.plan, self.leaderboard
        found = _ranked(board.rows, plan) if board.rows else _standing(board.interim, plan)
        tried = {one.trials for one in board.rows or board.interim}
        count = f"{min(tried)}" if len(tried) == 1 else f"{min(tried)} to {max(tried)}"
        trials = "search trial" if count == "1" else "search trials"
        cut = f", of {plan.study.trials} planned: the time was up" * (
            min(tried) < plan.study.trials
        )
        return " ".join(
            [
                f"Use {algorithms.label(best.algorithm)} with {params_text(best.params)}.",
                *found,
                f"Found in {self.seconds / 60:.1f} minutes by {count} {trials} of each of "
                f"{len(plan.study.algorithms)} methods{cut}{_from(plan.near)}.{plan.cut}",
            ]
        )


def _ranked(rows: Sequence[Row], plan: Plan) -> list[str]:
    """What the final runs say of the best row, and of the others."""
    best, ranked = rows[0], [row for row in rows if row.rank is not None]
    interval = (
        f", 95 % interval {best.ci_low:.4f} to {best.ci_high:.4f}"
        if best.ci_low is not None and best.ci_high is not None
        else ""
    )
    parts = [
        f"On {measured(plan.data)} it reaches a {title_of(best.metric)} of {best.mean:.4f}{interval} over "
        f"{best.seeds} fresh seeds, and sends {total_bytes(best) / 1e6:.3g} MB in "
        f"{plan.study.settings.rounds} rounds."
    ]
    if best.worst_clients is not None:
        parts.append(f"The worst 10 % of clients get {best.worst_clients:.4f}.")
    tied = [row for row in ranked[1:] if row.within_noise]
    if tied:
        names = ", ".join(
            f"{algorithms.label(row.algorithm)} ({row.mean:.4f}, {total_bytes(row) / 1e6:.3g} MB)"
            for row in tied
        )
        parts.append(f"Within the seeds' noise of it: {names}.")
    behind = [row for row in ranked[1:] if row.within_noise is False]
    if behind:
        names = ", ".join(f"{algorithms.label(r.algorithm)} ({r.mean:.4f})" for r in behind)
        parts.append(f"Behind by more than that: {names}.")
    return parts


def _standing(standings: Sequence[Standing], plan: Plan) -> list[str]:
    """What the search says of the best so far, and of the others, where no final run could be awaited."""
    best, *others = [one for one in standings if one.best is not None]
    metric = best.metric.replace("val_", "validation ").replace("_", " ")
    parts = [
        f"On {measured(plan.data)} its best {metric} is {best.best:.4f}, of one seed: the time was up "
        "before the final runs were over, so this is interim, and flatters."
    ]
    if others:
        names = ", ".join(f"{algorithms.label(o.algorithm)} ({o.best:.4f})" for o in others)
        parts.append(f"The others so far: {names}.")
    return parts


def advise(
    question: Question,
    storage: Path,
    data_root: str | None = None,
    tracking_uri: str | None = None,
    resources: Resources | None = None,
) -> Advice | None:
    """Measure, race, answer, within the time; None where the race was ended before its work was done, or
    the time was up before there was anything to answer.

    Raises `UserError` for data and names that are none, and where the time is too short.
    """
    started = time.monotonic()
    resources = resources or Resources()
    say(f"reading {question.dataset}")
    plan = make_plan(question, _known(storage, tracking_uri), data_root)
    paths = SweepPaths(storage, _free(storage), tracking_uri, data_root)
    plan = _within(plan, question.minutes * 60 - (time.monotonic() - started), resources, data_root)
    study = plan.study
    say(f"{measured(plan.data)}{_from(plan.near)}")
    say(
        f"racing {', '.join(map(algorithms.label, study.algorithms))}: {study.trials} trials each, "
        f"{study.settings.rounds} rounds, {study.seeds} seeds{plan.cut and ';' + plan.cut}"
    )
    deadline = Deadline(started + question.minutes * 60 - END, local_slots(resources))
    file = storage / f"{paths.name}.yaml"  # which an audit's commands name
    with writing(file):
        storage.mkdir(parents=True, exist_ok=True)
        write_whole(file, dump(study.model_dump(mode="json")))
    request = SweepRequest(str(file), paths)
    result = request.run(resources, deadline=deadline)
    board = result.leaderboard
    if result.ending == OUT_OF_TIME:
        board = _interim(result.store, paths.name)
    if board is None:
        return None
    return Advice(plan, paths.name, storage, board, time.monotonic() - started)


def _interim(store: Store, name: str) -> Leaderboard | None:
    """How a race stands that ran out of time; None where no trial has ended."""
    with suppress(UserError):
        board = read_leaderboard(store, Query(name))
        if board.rows or any(one.best is not None for one in board.interim):
            return board
    say("the time was up before any search trial had ended: give more --minutes")
    return None


def make_plan(question: Question, found: Sequence[Tuned], data_root: str | None) -> Plan:
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
    place = Place.canonical(dataset, model, data.heterogeneity)
    clients = None if data.heterogeneity.startswith("natural") else data.data.clients
    settings = Settings(clients=clients)
    if near:
        settings = adapt(near[0][1], place, clients).configuration.settings
    if not settings.val_fraction:  # of a file that no search wrote: what is raced is chosen by it
        settings = settings.model_copy(update={"val_fraction": Settings().val_fraction})
    names = [name for name in _methods([item for _, item in near]) if _able(name, settings, level)]
    warm = any(item.algorithm in names for _, item in near)
    content = {
        "description": f"The best few methods on {place}, within {question.minutes:g} minutes.",
        "algorithms": names[:RACED],
        "datasets": [place.dataset],
        "models": [place.model],
        "heterogeneity": [place.heterogeneity],
        "trials": MOST,
        "seeds": SEEDS,
        "scheduler": "asha",
        "warm_start": "nearest" if warm else None,
        "settings": settings.model_dump(mode="json"),
    }
    return Plan(check_study(content, {}, "advice"), place, near[0] if near else None, data, "")


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
        f"{data.dataset} dealt {data.heterogeneity} to {data.data.clients} clients "
        f"({each} samples each, label skew {label_skew(data):.2f})"
    )


def _within(plan: Plan, seconds: float, resources: Resources, data_root: str | None) -> Plan:
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
    """FedAvg, then the methods of the nearest cells, in each the best validated first."""
    return list(dict.fromkeys([METHODS[0], *([item.algorithm for item in near] or METHODS)]))


def _able(name: str, settings: Settings, level: str) -> bool:
    """Whether a method can run under the settings, and as its paper means it."""
    cls = algorithms.resolve(name)
    given = settings.model_dump()
    if any(given[key] != value for key, (value, _) in cls.assumes.items()):
        return False
    try:
        refuse(name, cls, settings, level)
    except UserError:
        return False
    return True


def _level(dataset: str, clients: int | None, data_root: str | None) -> str:
    """How data are dealt where nobody says: as they were born; else with skewed labels, if they have any."""
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


def _known(storage: Path, tracking_uri: str | None) -> list[Tuned]:
    """What was tuned, if anything was."""
    try:
        return known(storage, tracking_uri)
    except UserError:
        say("nothing is tuned here yet: `suite tuned import` takes configurations to start from")
        return []


def _free(storage: Path) -> str:
    """A sweep's name that is not taken: advice, advice-2, ..."""
    number = 1
    while (storage / (name := "advice" if number == 1 else f"advice-{number}")).exists():
        number += 1
    return name


def _from(near: tuple[Distance, Tuned] | None) -> str:
    if near is None:
        return ""
    distance, item = near
    there = f"the nearest tuned cell, {item.place}, {distance}"
    return f", started from {there if distance.total else 'tuned here'}"
