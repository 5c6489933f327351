"""`suite reproduce`: run the experiments of a paper again, and judge its printed numbers and statements."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from math import inf
from pathlib import Path
from statistics import fmean
from typing import Any

from reports.claims.judged import JudgedRow, Reproduction, judge_numbers, judge_statements
from reports.claims.verdicts import ClaimRun, Metric, counted, measured, metric_or_none
from suite.reproduction.experiments import (
    PLACE,
    Configured,
    Experiment,
    Paper,
    experiment,
    otherwise,
    read_paper,
    selected,
)
from suite.runs.batch import Batch, Done, Job
from trials import datasets
from trials.run.outcome import Status, lost

SEEDS = 5
TRAINING = ("train_accuracy", "train_mse", "global_train_loss")  # only with `score_training`
VERSIONS = ("version", "torch_version", "git_commit")  # tags of a run: which code made it


@dataclass(frozen=True)
class Plan:
    """The runs of a row: jobs by (method, hyperparameter variant, seed). A job has `rounds` rounds, and the paper `planned` rounds."""

    experiment: Experiment
    metrics: Sequence[Metric]
    jobs: Mapping[tuple[str, int, int], Job]
    rounds: int
    planned: int


def reproduce(
    path: str,
    *,
    seeds: int = SEEDS,
    rounds: int | None = None,
    other: Mapping[str, Any],
    storage: Path,
    data_root: str | None,
    resources: Any,
    command: str,
) -> Reproduction:
    """Do the missing runs of `PAPER[/TABLE[/ROW]]`, and judge all numbers and statements that are printed there. Each
    combination of searched values runs with `seeds` seeds for at most `rounds` rounds. `other` sets values that the paper
    does not state. Raise `UserError` for an unknown path or an impossible value before any run starts.
    """
    planned = list(plans(path, seeds, rounds, data_root, other))
    paper = read_paper(planned[0][0][0])
    batch = Batch(storage / "reproduce")
    jobs: list[Job] = []
    for _, plan, _ in planned:
        jobs += plan.jobs.values() if plan else ()
    failed, interrupted = batch.run(jobs, data_root, resources)
    done = batch.done
    made_with: list[dict[str, str]] = []
    for job in jobs:
        if job.id in done:
            versions = {key: done[job.id].tags.get(key, "") for key in VERSIONS}
            made_with += [] if versions in made_with else [versions]
    return Reproduction(
        paper=paper.paper,
        cites=paper.cites,
        command=command,
        made_with=made_with,
        rows=[_row(paper, *place[1:], plan, reason, done) for place, plan, reason in planned],
        runs_failed=failed,
        interrupted=interrupted,
    )


def plans(
    path: str | None,
    seeds: int,
    rounds: int | None,
    data_root: str | None,
    other: Mapping[str, Any],
) -> Iterator[tuple[tuple[str, str, str], Plan | None, str]]:
    """Yield ((paper, table, row), plan, reason) for each row of `PAPER[/TABLE[/ROW]]` (None: of all shipped papers). The plan
    is None if the row is never run or its data are not on disk. The reason then says why, else it is "".
    """
    places = selected(path)
    experiments = [experiment(read_paper(place[0]), *place) for place in places]
    changed = iter(otherwise([*filter(None, experiments)], other))
    for place, each in zip(places, experiments, strict=True):
        name, table, row = place
        if each is None:
            yield place, None, read_paper(name).reason_not_run(table, row)
            continue
        here = next(changed)
        dataset = next(iter(here.methods.values())).scenario.dataset
        if all(file["sound"] for file in datasets.parse(dataset).files(data_root)):
            yield place, plan_of(read_paper(name), here, seeds, rounds), ""
        else:
            yield place, None, f"no data: {dataset}"


def plan_of(paper: Paper, row: Experiment, seeds: int, most_rounds: int | None = None) -> Plan:
    """Return the planned runs of a row of a paper's table. They are evaluated after each round if a metric needs that, else at the end."""
    table = paper.tables[row.table]
    names = [*table.rows[row.row].numbers, *(c.metric for c in table.claims if c.metric)]
    metrics = [*filter(None, map(metric_or_none, names))]
    every_round, more = False, {}
    for wanted in metrics:
        every_round |= wanted.at is not None or bool(wanted.kind.over) or not wanted.kind.last
        if wanted.kind.key in TRAINING:
            more = {"score_training": True}
    planned = max(int(configured.value("rounds")) for configured in row.methods.values())
    rounds = planned if most_rounds is None else min(planned, most_rounds)
    jobs = {}
    for method, configured in row.methods.items():
        for number, variant in enumerate(configured.variants):
            shown = " ".join(f"{k}={v:g}" for k, v in variant.items())
            for seed in range(seeds):
                every = 1 if every_round else rounds
                spec = configured.spec({**variant, **more}, seed, rounds, every)
                name = " · ".join(filter(None, [row.path, method, shown, f"seed {seed}"]))
                jobs[method, number, seed] = Job(spec, name)
    return Plan(row, metrics, jobs, rounds, planned)


def listing(
    path: str | None, seeds: int = SEEDS, data_root: str | None = None
) -> Iterator[dict[str, Any]]:
    """Yield a dict for each table of `PAPER[/TABLE[/ROW]]`: source, counts of rows and runs, and why some rows cannot run."""
    planned = plans(path, seeds, None, data_root, {})
    for (name, table), group in groupby(planned, key=lambda row: row[0][:2]):
        content, rows = read_paper(name).tables[table], list(group)
        runs, reasons = list[int](), set[str]()
        for _, plan, why in rows:
            runs += [len(plan.jobs)] if plan else []
            reasons |= {why} - {""}
        yield {
            "table": f"{name}/{table}",
            "source": content.source,
            "about": content.about,
            "rows": len(rows),
            "rows_that_run_here": len(runs),
            "runs": sum(runs),
            "not_run": sorted(reasons),
        }


def _row(
    paper: Paper, table: str, row: str, plan: Plan | None, why_not: str, done: Mapping[str, Done]
) -> JudgedRow:
    content, table_row = paper.tables[table], paper.tables[table].rows[row]
    runs: dict[str, dict[int, ClaimRun]] = {}
    facts: dict[str, Any] = {"note": why_not, **table_row.model_dump(include={*PLACE})}
    planned = 0
    if plan is not None:
        planned, methods = plan.planned, plan.experiment.methods
        best: dict[str, dict[str, Any]] = {}
        readings: dict[str, None] = {}
        for method, configured in methods.items():
            readings |= dict.fromkeys(configured.readings)
            if (chosen := _best_of(plan, method, done)) is not None:
                number, runs[method] = chosen
                best[method] = configured.variants[number]
        wanted = dict.fromkeys(job.id for job in plan.jobs.values())
        ended = [done[job] for job in wanted if job in done]
        missing = len(wanted) - len(ended)
        cut = f"{plan.rounds} rounds instead of {planned}"
        facts = {
            **next(iter(methods.values())).scenario.names(),
            "seeds": len({seed for *_, seed in plan.jobs}),
            "reduced": [cut] * (plan.rounds < planned),
            "settings": _settings(methods, best),
            "readings": list(readings),
            "runs": len(ended),
            "seconds": round(sum(run.seconds for run in ended), 1),
            "note": f"{missing} runs are missing" if missing else "",
        }
    return JudgedRow(
        table=table,
        row=row,
        source=content.source,
        about=content.about,
        numbers=judge_numbers(table_row.numbers, runs, planned, why_not),
        claims=judge_statements(content.claims, table_row.numbers, runs, planned, why_not),
        **facts,
    )


def _best_of(
    plan: Plan, method: str, done: Mapping[str, Done]
) -> tuple[int, dict[int, ClaimRun]] | None:
    """Return the number of a method's best hyperparameter variant, and its ended runs by seed. Return None if no run has
    ended. The best variant has the best mean of the plan's first metric, or of the mean accuracy if the plan has no metric.
    """
    variants: dict[int, dict[int, ClaimRun]] = {}
    for (owner, number, seed), job in plan.jobs.items():
        if owner == method and job.id in done:
            ended = done[job.id]
            not_finite = ended.tags.get("not_finite", "").split()
            diverged = lost("test_loss", Status(ended.tags["status"]), not_finite)
            run = ClaimRun(ended.history, job.spec.settings.rounds, diverged)
            variants.setdefault(number, {})[seed] = run
    wanted = plan.metrics[0] if plan.metrics else Metric("mean_accuracy")
    means: dict[int, float] = {}
    for number, runs in variants.items():
        values = measured(wanted, method, {method: runs}).values()
        last = max(run.rounds for run in runs.values())
        sign = 1 if wanted.kind.better == "more" else -1
        means[number] = sign * fmean(counted(v, last) for v in values) if values else -inf
    best = max(means, key=means.__getitem__, default=None)
    return None if best is None else (best, variants[best])


def _settings(
    methods: Mapping[str, Configured], best: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return a dict for each setting, with its value and the reason for it. If methods differ in it, each has its own dict."""
    settings = []
    for key in dict.fromkeys(chain.from_iterable(c.decisions for c in methods.values())):
        decisions = {m: c.decisions[key] for m, c in methods.items() if key in c.decisions}
        shared = len(decisions) == len(methods) and len(set(map(str, decisions.values()))) == 1
        for method, decision in list(decisions.items())[: 1 if shared else None]:
            facts = {"value": decision.value, "chosen_because": decision.why}
            settings.append({"method": None if shared else method, "name": key, **facts})
    for method, variant in best.items():
        for key, value in variant.items():
            tried = ", ".join(f"{v:g}" for v in sorted(methods[method].search[key]))
            facts = {"value": value, "chosen_because": f"the best of {tried}"}
            settings.append({"method": method, "name": key, **facts})
    return settings
