"""`suite advise`: which model and method to use on somebody's data, found within a time.

The data are partitioned and measured. Configurations of a few models and methods, with those that did best on the
nearest tuned scenarios, are screened (`suite.advice.screening`). The methods that were best on the best model, with FedAvg, are
tuned there as in any sweep, with early stopping and as many trials as the time allows; and what the leaderboard says of
the winner is told in a paragraph.
"""

import json
import shlex
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

from reports.leaderboard.board import Leaderboard, Row
from reports.leaderboard.interim import Standing
from reports.wording.words import params_text, title_of, total_bytes
from suite.advice.race import (
    METHODS,
    Question,
    Race,
    make_race,
    measured,
    raced,
    started_from,
    tuned_here,
)
from suite.advice.screening import Screening, screen
from suite.bank.rows import label_skew
from suite.configurations.configuration import Tuned
from suite.configurations.warm_start import warm_start
from suite.console import say
from suite.execution.estimate import Estimates
from suite.execution.resources import Resources, local_slots
from suite.execution.stop_signal import OUT_OF_TIME
from suite.results.leaderboards import read_leaderboard
from suite.results.query import Query
from suite.studies.entries import load_data, make_entries
from suite.studies.replicates import confirms_of
from suite.sweeps.deadline import Deadline
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.request import SweepRequest
from suite.tracking import RUNS
from suite.tracking.store import Store
from suite.yaml_files import dump, write_whole, writing
from trials import algorithms
from trials.common.errors import UserError
from trials.scoring.metrics import direction

END, SHARE = 5.0, 0.05
"""Seconds, and a share of the time, that are kept for the records and the leaderboard when the time is up."""
SCREENING = 0.5
"""The share of the time for screening."""
CLOSE = 0.01
"""FedAvg is taken before a method that it is not shown to be behind, if it scores at most so much less, as a share."""


@dataclass(frozen=True)
class Advice:
    """The answer: the paragraph, the command that uses it, and the leaderboard that it is from, which is
    interim where the time was up before the final runs were over. `late` is whether the time ended the search.
    """

    plan: Race
    sweep: str
    storage: Path
    leaderboard: Leaderboard
    seconds: float
    late: bool

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        from reports.document import CodeBlock, Text
        from reports.page.notebook import html

        commands = "\n".join(map(shlex.join, (self.command, self.longer)))
        return html([Text(self.text), CodeBlock(commands)]) + self.leaderboard._repr_html_()

    @property
    def best(self) -> Row | Standing:
        """What is recommended: the first row, or FedAvg where it is not shown to be behind and scores about the same;
        where there are no rows what stands first.
        """
        board = self.leaderboard
        if not board.rows:
            return board.interim[0]
        first, plain = board.rows[0], METHODS[0]
        return next((row for row in board.rows if row.algorithm == plain and _close(row)), first)

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
            "skew": round(label_skew(self.plan.data.counts), 4),
            "samples": self.plan.data.summaries["samples"],
            "started_from": None if near is None else near[1].model_dump(mode="json"),
            "distance": None if near is None else near[0].total,
            "leaderboard": self.leaderboard.as_dict(),
            "seconds": round(self.seconds, 1),
            "screened": [
                {
                    **one.entry.about(),
                    "params": one.params,
                    "rounds": one.rounds,
                    "value": one.value,
                }
                for one in (self.plan.screened.found if self.plan.screened else ())
            ],
            "command": self.command,
            "longer": self.longer,
            "text": self.text,
        }

    @property
    def longer(self) -> list[str]:
        """The words that search longer."""
        words = ["suite", "sweep", str(self.storage / f"{self.sweep}.yaml"), "--name", self.sweep]
        words += ["--resume", "--trials", str(2 * self.plan.study.trials)]
        return words + (["--storage", str(self.storage)] if self.storage != RUNS else [])

    @property
    def text(self) -> str:
        """One paragraph for a person."""
        best, plan, board = self.best, self.plan, self.leaderboard
        found = (
            _ranked(best, board.rows, plan)
            if isinstance(best, Row)
            else _standing(board.interim, plan)
        )
        tried = {one.trials for one in board.rows or board.interim}
        count = f"{min(tried)}" if len(tried) == 1 else f"{min(tried)} to {max(tried)}"
        trials = "search trial" if count == "1" else "search trials"
        planned = plan.study.trials + confirms_of(plan.study.model_dump())
        why = "the search ended so that the final runs fit" if board.rows else "the time was up"
        cut = f", of {planned} planned: {why}" * (self.late and min(tried) < planned)
        return " ".join(
            [
                f"Use {algorithms.label(best.algorithm)} on {best.model} with {params_text(best.params)}.",
                *found,
                f"Found in {self.seconds / 60:.1f} minutes by {count} {trials} of each of "
                f"{len(plan.study.algorithms)} methods{cut}{started_from(plan.near)}.{plan.cut}",
                *_screened(plan),
            ]
        )


def _close(row: Row) -> bool:
    """Whether a row may be the best, and scores about as the first does."""
    return row.behind == 0 or bool(row.within_noise and row.behind <= CLOSE * abs(row.mean))


def _ranked(best: Row, rows: Sequence[Row], plan: Race) -> list[str]:
    """What the final runs say of the row that is recommended, and of the others."""
    others = [row for row in rows if row.rank is not None and row is not best]
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
    if tied := [row for row in others if row.behind == 0 or row.within_noise]:
        names = ", ".join(
            f"{algorithms.label(row.algorithm)} ({row.mean:.4f}, {total_bytes(row) / 1e6:.3g} MB)"
            for row in tied
        )
        simplest = ", and fedavg is the simplest" * (best is not rows[0])
        parts.append(f"No difference is shown to {names}{simplest}.")
    if behind := [row for row in others if row.within_noise is False]:
        names = ", ".join(f"{algorithms.label(r.algorithm)} ({r.mean:.4f})" for r in behind)
        parts.append(f"Shown to be behind: {names}.")
    if best.audit is not None:
        edges = [found for found in best.audit.findings if found.kind == "edge"]
        parts += [
            f"Its search ended at an edge, {one.text}; wider: `{one.command}`." for one in edges
        ]
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


def _screened(plan: Race) -> list[str]:
    """What was screened before, and what was not tried."""
    found = plan.screened
    if found is None:
        return []
    models = ", ".join(
        f"{name} {one.value:.4f} in round {one.rounds}" for name, one in found.models.items()
    )
    methods = dict.fromkeys(one.entry.algorithm for one in found.found)
    settings = plan.study.settings
    local = settings.local_steps and f"{settings.local_steps} local steps"
    return [
        f"Screened before: {len(found.found)} configurations of {', '.join(map(algorithms.label, methods))}; "
        f"best validation score by model: {models}.",
        f"Not tried: other models (--model), the other methods of `suite list algorithms`, other settings than "
        f"{settings.rounds} rounds, {local or f'{settings.local_epochs} local epochs'} and batches of {settings.batch_size}.",
    ]


def advise(
    question: Question,
    storage: Path,
    data_root: str | None = None,
    tracking_uri: str | None = None,
    resources: Resources | None = None,
    started: float | None = None,
) -> Advice | None:
    """Measure, screen, race, answer, within the time, which began at the clock's (`time.monotonic`) `started` (default:
    now); None where the race was interrupted.

    Raises `UserError` for data and names that are none, and where the time is too short.
    """
    started = time.monotonic() if started is None else started
    resources = resources or Resources()
    say(f"reading {question.dataset}")
    found = tuned_here(storage, tracking_uri)
    plan = make_race(question, found, data_root)
    say(f"{measured(plan.data)}{started_from(plan.near)}")
    paths = SweepPaths(storage, _free(storage), tracking_uri, data_root)
    end = started + question.minutes * 60 * (1 - SHARE) - END
    until = time.monotonic() + SCREENING * (end - time.monotonic())
    screened = _screen(plan, found, resources, data_root, until)
    slots = local_slots(resources)
    plan = raced(plan, screened, end - time.monotonic(), slots, question.minutes)
    study = plan.study
    say(
        f"racing {', '.join(map(algorithms.label, study.algorithms))} on {study.models[0]}: {study.trials} trials each, "
        f"{study.settings.rounds} rounds, {study.seeds} seeds{plan.cut and ';' + plan.cut}"
    )
    file = storage / f"{paths.name}.yaml"  # which an audit's commands name
    with writing(file):
        storage.mkdir(parents=True, exist_ok=True)
        write_whole(file, dump(study.model_dump(mode="json", exclude_defaults=True)))
    request = SweepRequest(str(file), paths)
    deadline = Deadline(end, slots)
    result = request.run(resources, deadline=deadline)
    board = result.leaderboard
    late = deadline.cut or result.ending == OUT_OF_TIME
    if result.ending == OUT_OF_TIME:
        board = _interim(result.store, paths.name, plan)
    if board is None:
        return None
    return Advice(plan, paths.name, storage, board, time.monotonic() - started, late)


def _screen(
    plan: Race, found: Sequence[Tuned], resources: Resources, data_root: str | None, until: float
) -> Screening:
    """Screen the models and methods of a plan; raises `UserError` where none of them can be trained at all."""
    study, source = plan.study, "advice"
    entries = make_entries(study, source)
    data = load_data(entries, data_root, source)
    Estimates(study, data, resources).refuse(entries)
    say(
        f"screening {', '.join(map(algorithms.label, study.algorithms))} on {', '.join(study.models)}, "
        f"{max(0.0, until - time.monotonic()):.0f} s at most"
    )
    screened = screen(entries, study, warm_start(entries, found), data, resources, until)
    if not screened.found:
        raise UserError(
            "no configuration could be trained: each diverged or failed, or the time is too short for these data"
        )
    return screened


def _interim(store: Store, name: str, plan: Race) -> Leaderboard:
    """How a race stands that ran out of time; where no trial of it has ended, how its methods were screened."""
    with suppress(UserError):
        board = read_leaderboard(store, Query(name))
        if board.rows or any(one.best is not None for one in board.interim):
            return board
    study, screened = plan.study, plan.screened
    tried = Counter(one.entry.id for one in screened.found) if screened else {}
    standings = [
        Standing(
            algorithm=one.entry.algorithm,
            **one.entry.scenario.names(),
            metric=f"val_{one.entry.task.metric}",
            rank=place,
            best=one.value,
            trials=tried[one.entry.id],
            planned=study.trials,
            finals=0,
            seeds=study.seeds,
            params=one.params,
            reference=False,
            sweep=name,
            study=name,
            entry_id=one.entry.id,
        )
        for place, one in enumerate(screened.best(study.models[0]) if screened else (), 1)
    ]
    first = standings[0].metric
    return Leaderboard(
        name, first, direction(first), "", "rounds", None, (), interim=tuple(standings)
    )


def _free(storage: Path) -> str:
    """A name that no sweep and no study's file has: advice, advice-2, ..."""
    names = (f"advice-{number}" if number > 1 else "advice" for number in count(1))
    return next(n for n in names if not any((storage / f).exists() for f in (n, f"{n}.yaml")))
