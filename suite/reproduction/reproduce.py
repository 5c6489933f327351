"""`suite reproduce`: a paper's experiments run again, and what came out beside what was printed."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from math import ceil
from pathlib import Path
from typing import Any

from reports.claims.judged import JudgedEntry, Said, Statement, entries, statements
from reports.claims.metrics import ClaimRun, Metric, as_scored, measured, metric
from reports.claims.verdicts import RULES, VERDICTS
from suite.reproduction import costs as calibration
from suite.reproduction.choices import otherwise
from suite.reproduction.experiments import (
    SCORING,
    Configured,
    experiment,
    read_paper,
    reason_not_run,
    selected,
)
from suite.reproduction.paper import Paper
from suite.reproduction.plan import (
    SEEDS,
    Effort,
    Planned,
    plan_of,
    reductions,
    runs_left,
    what_is_missing,
)
from suite.runs.batch import EXPERIMENT, Batch, Done, Job
from suite.tracking.store import Store
from trials.common.errors import UserError
from trials.run.outcome import Status, lost

VERSIONS = ("version", "torch_version", "git_commit")
"""The tags of a run that say what made it."""


@dataclass(frozen=True)
class RowResult:
    """A row with its verdicts, `settings` as (method, name, value, why) where `why` is None for what
    the paper states.
    """

    table: str
    row: str
    source: str
    about: str
    dataset: str | None
    model: str | None
    heterogeneity: str | None
    seeds: int
    reduced: list[str]
    settings: list[dict[str, Any]]
    readings: list[str]
    numbers: list[JudgedEntry]
    claims: list[Said]
    runs: int
    seconds: float
    note: str


@dataclass(frozen=True)
class ReproductionReport:
    """What `suite reproduce` found; `document` is its JSON."""

    paper: str
    cites: str
    command: str
    rows: list[RowResult]
    made_with: list[dict[str, str]]
    failed: int
    interrupted: bool

    @property
    def verdicts(self) -> dict[str, int]:
        """How many numbers and statements got each verdict."""
        given = Counter(e.verdict for row in self.rows for e in row.numbers)
        given.update(c.verdict for row in self.rows for c in row.claims)
        return {verdict: given[verdict] for verdict in VERDICTS}

    def document(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "paper": self.paper,
            "cites": self.cites,
            "command": self.command,
            "protocol": "the paper's: its test set, its fixed hyperparameters; one run a seed",
            "verdicts": self.verdicts,
            "rules": list(RULES),
            "made_with": self.made_with,
            "rows": [asdict(row) for row in self.rows],
            "runs_failed": self.failed,
        }


def reproduce(
    path: str,
    effort: Effort,
    tracking_uri: str | None,
    storage: Path,
    data_root: str | None,
    resources: Any,
    command: str,
) -> ReproductionReport:
    """Run what is not done of `PAPER[/TABLE[/ROW]]` and judge all of it.

    Raises `UserError` on an unknown path or another value that cannot be, before anything starts.
    """
    scenarios = selected(path)
    name = scenarios[0][0]
    paper = read_paper(name)
    found = [experiment(paper, name, table, row) for _, table, row in scenarios]
    can_run = otherwise([made for made in found if made is not None], effort.other)
    experiments = {(made.table, made.row): made for made in can_run}
    store, tune = Store(tracking_uri, storage), storage / EXPERIMENT / "tune"
    batch = Batch(store, tune)
    limit = _Limit(effort, storage, batch)
    plans: dict[tuple[str, str], Planned] = {}
    why_not: dict[tuple[str, str], str] = {}
    for _, table, row in scenarios:
        made = experiments.get((table, row))
        reason = reason_not_run(paper, table, row) or what_is_missing(made, data_root)
        if made is not None and not reason:
            plan = plan_of(paper, made, effort)
            reason = limit.exceeded(paper, plan)
            if not reason:
                plans[table, row] = plan
                continue
        why_not[table, row] = reason or "nothing to run"

    def judged() -> tuple[list[RowResult], int, bool]:
        jobs = [job for plan in plans.values() for job in plan.jobs.values()]
        failed, interrupted = batch.run(jobs, data_root, resources)
        done = batch.done()
        places = [(table, row) for _, table, row in scenarios]
        rows = [_row(paper, *at, plans.get(at), why_not.get(at), done) for at in places]
        return rows, failed, interrupted

    rows, failed, interrupted = judged()
    if more := _more_seeds(rows, effort):
        for at, seeds in more.items():
            plans[at] = plan_of(paper, plans[at].experiment, replace(effort, seeds=seeds))
        rows, failed, interrupted = judged()
    done = batch.done()
    jobs = [job for plan in plans.values() for job in plan.jobs.values()]
    records = [done[job.id] for job in jobs if job.id in done]
    made_with = sorted({tuple((key, r.tags.get(key, "")) for key in VERSIONS) for r in records})
    versions = [dict(found) for found in made_with]
    return ReproductionReport(
        paper.paper, paper.cites, command, rows, versions, failed, interrupted
    )


def _more_seeds(rows: Sequence[RowResult], effort: Effort) -> dict[tuple[str, str], int]:
    """How many seeds each row gets in all, where verdicts that are too noisy need them: half as many again as the
    most that one of them seems to need within the budget, for a spread that was estimated from few seeds.
    """
    if effort.until_said is None:
        return {}
    found = {}
    for row in rows:
        needed = [one.seeds_needed for one in row.numbers]
        needed += [one.seeds_needed for one in row.claims]
        most = max((n for n in needed if n is not None and n <= effort.until_said), default=0)
        if most:
            found[row.table, row.row] = min(effort.until_said, ceil(1.5 * most))
    return found


class _Limit:
    """Which rows would take longer here than a person has."""

    def __init__(self, effort: Effort, storage: Path, batch: Batch) -> None:
        self.minutes = effort.max_minutes
        if self.minutes is not None:
            self._costs, self._done = calibration.Costs(storage), batch.done()

    def exceeded(self, paper: Paper, plan: Planned) -> str | None:
        """Why a row is left out, or None."""
        if self.minutes is None:
            return None
        made = plan.experiment
        minutes = self._costs.minutes(paper, made, runs_left(plan, self._done), plan.rounds)
        if minutes <= self.minutes:
            return None
        return f"about {minutes:.0f} min on this machine, more than --max-minutes {self.minutes:g}"


def listing(
    storage: Path, data_root: str | None, seeds: int = SEEDS, path: str | None = None
) -> Iterable[dict[str, Any]]:
    """The tables of `PAPER[/TABLE[/ROW]]`, default all: what each is, whether its rows can run here, and what they
    would cost on this machine.
    """
    costs = calibration.Costs(storage)
    tables = groupby(selected(path), key=lambda scenario: scenario[:2])
    for (name, table), scenarios in tables:
        paper, rows = read_paper(name), [row for _, _, row in scenarios]
        content = paper.tables[table]
        here, elsewhere, runs, reasons = 0.0, 0.0, 0, []
        for row in rows:
            made = experiment(paper, name, table, row)
            reason = reason_not_run(paper, table, row) or what_is_missing(made, data_root)
            reasons += [reason] if reason else []
            if made is None:
                continue
            plan = plan_of(paper, made, Effort(seeds))
            minutes = costs.minutes(paper, made, runs_left(plan, {}), plan.rounds)
            if reason:
                elsewhere += minutes
            else:
                here += minutes
                runs += len(plan.jobs)
        numbers = [content.rows[row].numbers for row in rows]
        yield {
            "table": f"{name}/{table}",
            "source": content.source,
            "about": content.about,
            "rows": len(rows),
            "rows_that_run_here": len(rows) - len(reasons),
            "numbers": sum(len(of) for columns in numbers for of in columns.values()),
            "claims": len(content.claims),
            "runs": runs,
            "minutes": round(here, 1),
            "minutes_of_rows_without_data": round(elsewhere, 1),
            "not_run": sorted(set(reasons)),
        }


def _row(
    paper: Paper,
    table: str,
    row: str,
    plan: Planned | None,
    why_not: str | None,
    done: Mapping[str, Done],
) -> RowResult:
    content, at = paper.tables[table], paper.tables[table].rows[row]
    said = [
        Statement(c.says, c.metric, c.of, c.relation, c.to, c.times, c.by) for c in content.claims
    ]
    if plan is None:
        numbers = entries(at.numbers, {}, 0, why_not)
        claims = statements(said, at.numbers, {}, 0, why_not)
        facts = (content.source, content.about, at.dataset, at.model, at.heterogeneity)
        return RowResult(table, row, *facts, 0, [], [], [], numbers, claims, 0, 0.0, why_not or "")
    wanted = [*at.numbers, *(c.metric for c in content.claims if c.metric)]
    runs, best, seconds = _runs_of(plan, wanted, done)
    missing = len({job.id for job in plan.jobs.values()} - seconds.keys())
    numbers = entries(at.numbers, runs, plan.planned, None)
    claims = statements(said, at.numbers, runs, plan.planned, None)
    seeds = len({seed for _, _, seed in plan.jobs})
    methods = plan.experiment.methods
    first = next(iter(methods.values()))
    readings = [text for configured in methods.values() for text in configured.readings]
    return RowResult(
        table,
        row,
        content.source,
        content.about,
        *first.scenario,
        seeds,
        reductions(plan),
        _settings(methods, best),
        list(dict.fromkeys(readings)),
        numbers,
        claims,
        len(seconds),
        round(sum(seconds.values()), 1),
        f"{missing} runs are missing" if missing else "",
    )


def _runs_of(
    plan: Planned, wanted: Sequence[str], done: Mapping[str, Done]
) -> tuple[dict[str, dict[int, ClaimRun]], dict[str, list[dict[str, Any]]], dict[str, float]]:
    """The runs of each method's best variant; the searched values that ran, the best first; and
    seconds by job.
    """
    metrics = _measured(wanted)
    keys = {metric.key for metric in metrics}
    by_variant: dict[str, dict[int, dict[int, ClaimRun]]] = {}
    seconds = {}
    for (method, number, seed), job in plan.jobs.items():
        ended = done.get(job.id)
        if ended is None:
            continue
        run = _run(ended, job, keys, plan.experiment.methods[method])
        by_variant.setdefault(method, {}).setdefault(number, {})[seed] = run
        pace = [e["round_seconds"] for e in ended.history if "round_seconds" in e] or [0.0]
        seconds[job.id] = pace[-1] * job.spec.settings.rounds
    runs, best = {}, {}
    for method, variants in by_variant.items():
        number = _best(variants, metrics[0], method)
        runs[method] = variants[number]
        values = plan.experiment.methods[method].variants
        best[method] = [values[number], *(values[n] for n in variants if n != number)]
    return runs, best, seconds


def _measured(names: Iterable[str]) -> list[Metric]:
    """Those of a row's metrics that the suite measures; the mean accuracy where there is none."""
    found = []
    for name in names:
        with suppress(UserError):
            found.append(metric(name))
    return found or [metric("mean_accuracy")]


def _best(variants: Mapping[int, Mapping[int, ClaimRun]], wanted: Metric, method: str) -> int:
    """The searched variant with the best mean of the row's first metric; the first of equals."""
    sign = 1 if wanted.kind.better == "more" else -1

    def quality(number: int) -> float:
        values = measured(wanted, method, {method: variants[number]})
        rounds = max(run.rounds for run in variants[number].values())
        counted = [v if v != float("inf") else rounds + 1 for v in values.values()]
        return sign * sum(counted) / len(counted) if counted else float("-inf")

    return max(variants, key=quality)


def _run(ended: Done, job: Job, keys: set[str], configured: Configured) -> ClaimRun:
    """Return a run as claims see it: there are no validation data, so a loss on test data that is not
    finite is a run that diverged.
    """
    evaluation, model = map(configured.value, SCORING)
    wanted = keys | {f"{model}_{key}" for key in keys}
    history = [
        {name: entry[name] for name in ("round", *wanted) if name in entry}
        for entry in ended.history
        if wanted & entry.keys()
    ]
    rounds = job.spec.settings.rounds
    not_finite = ended.tags.get("not_finite", "").split()
    diverged = lost("test_loss", Status(ended.tags["status"]), not_finite)
    return ClaimRun(as_scored(history, evaluation, model), rounds, diverged)


def _settings(
    methods: Mapping[str, Configured], best: Mapping[str, list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    """All decisions; those that every method shares are said once, with `method` None."""
    found = []
    keys = dict.fromkeys(key for c in methods.values() for key in c.decisions)
    for key in keys:
        given = {m: c.decisions[key] for m, c in methods.items() if key in c.decisions}
        same = len(given) == len(methods) and len({str(d) for d in given.values()}) == 1
        for method, decision in list(given.items())[: 1 if same else None]:
            entry = {"method": None if same else method, "name": key}
            found.append({**entry, "value": decision.value, "chosen_because": decision.why})
    for method, ran in best.items():
        for key, value in ran[0].items():
            those = sorted({variant[key] for variant in ran})
            why = f"the best of {', '.join(f'{v:g}' for v in those)}"
            if len(those) < len(methods[method].search[key]):
                why += (
                    f"; of {', '.join(f'{v:g}' for v in methods[method].search[key])} no others ran"
                )
            found.append({"method": method, "name": key, "value": value, "chosen_because": why})
    return found
