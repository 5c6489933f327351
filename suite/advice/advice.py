"""`suite advise`: which method to use on somebody's data, found within a time.

The data are partitioned and measured; the methods that did best on the nearest tuned scenarios, with FedAvg, are
tuned on them as in any sweep, with early stopping and as many trials as the time allows; and the winner
is described in a paragraph.
"""

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

from reports.leaderboard.interim import Standing
from reports.leaderboard.leaderboard import Leaderboard, Row
from reports.wording.words import params_text, title_of, total_bytes
from suite.advice.race import (
    Question,
    Race,
    label_skew,
    make_race,
    measured,
    started_from,
    tuned_here,
    within,
)
from suite.console import say
from suite.execution.resources import Resources, local_slots
from suite.execution.stop_signal import OUT_OF_TIME
from suite.results.leaderboards import read_leaderboard
from suite.results.query import Query
from suite.sweeps.deadline import Deadline
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.request import SweepRequest
from suite.tracking import RUNS
from suite.tracking.store import Store
from suite.yaml_files import dump, write_whole, writing
from trials import algorithms
from trials.common.errors import UserError

END = 5.0
"""Seconds that are kept for the records and the leaderboard when the time is up."""


@dataclass(frozen=True)
class Advice:
    """The answer: the paragraph, the command that uses it, and the leaderboard that it is from, which is
    interim where the time was up before the final runs were over.
    """

    plan: Race
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
                f"{len(plan.study.algorithms)} methods{cut}{started_from(plan.near)}.{plan.cut}",
            ]
        )


def _ranked(rows: Sequence[Row], plan: Race) -> list[str]:
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


def _standing(standings: Sequence[Standing], plan: Race) -> list[str]:
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
    plan = make_race(question, tuned_here(storage, tracking_uri), data_root)
    paths = SweepPaths(storage, _free(storage), tracking_uri, data_root)
    plan = within(plan, question.minutes * 60 - (time.monotonic() - started), resources, data_root)
    study = plan.study
    say(f"{measured(plan.data)}{started_from(plan.near)}")
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


def _free(storage: Path) -> str:
    """A name that no sweep and no study's file has: advice, advice-2, ..."""
    names = (f"advice-{number}" if number > 1 else "advice" for number in count(1))
    return next(n for n in names if not any((storage / f).exists() for f in (n, f"{n}.yaml")))
