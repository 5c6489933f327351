"""Which scenarios of recorded sweeps are not over, and how they stand."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

from reports.leaderboard.interim import Ongoing, Standing, ranked
from suite.results.query import Held, Query, of_the_best
from suite.studies.replicates import confirms_of, finals_of, replicates_of
from suite.tracking.reader import Reader
from suite.tracking.record import Record
from suite.tracking.schema.tags import RunKind
from trials.run.outcome import Status
from trials.scoring.metrics import TASKS


def ongoing(store: Reader, query: Query, held: Held) -> set[Ongoing]:
    """The scenarios in which an entry lacks final runs, of sweeps that have not ended."""
    seeds = {
        run.tags.sweep: finals_of(run.tags.study_json)
        for run in held.sweeps
        if run.tags.run_status != "FINISHED"
    }
    if not seeds:
        return set()
    there = _ended(of_the_best(query.find(store, RunKind.FINAL, **query.scope)))
    return {
        Ongoing(run.tags.sweep, run.tags.scenario)
        for run in held.entries
        if there[run.tags.sweep, run.tags.entry_id] < seeds.get(run.tags.sweep, 0)
    }


def standings(scenarios: Collection[Ongoing], query: Query, held: Held) -> tuple[Standing, ...]:
    """How the entries of these scenarios stand that are asked for, in the order of the study."""
    studies = {run.tags.sweep: run.tags.study_json for run in held.sweeps}
    tried: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for run in held.trials:
        tried[run.tags.sweep, run.tags.entry_id].append(run)
    there = _ended(held.finals)
    found = []
    for entry in held.entries:
        tags = entry.tags
        if query.asks_for(entry) and Ongoing(tags.sweep, tags.scenario) in scenarios:
            runs, study = tried[tags.sweep, tags.entry_id], studies[tags.sweep]
            best = _best(runs)
            found.append(
                Standing(
                    algorithm=tags.algorithm,
                    **tags.scenario.names(),
                    metric=f"val_{runs[0].tags.metric}" if runs else "",
                    rank=None,
                    best=None if best is None else best.metrics["val_score"],
                    trials=len(runs),
                    planned=study["trials"] * replicates_of(study) + confirms_of(study),
                    finals=there[tags.sweep, tags.entry_id],
                    seeds=finals_of(study),
                    params=best.tags.params if best else {},
                    reference=tags.reference,
                    sweep=tags.sweep,
                    study=tags.study,
                    entry_id=tags.entry_id,
                )
            )
    order = list(dict.fromkeys(one.group for one in found))
    return ranked(sorted(found, key=lambda one: order.index(one.group)))


def _ended(finals: Sequence[Record]) -> Counter[tuple[str, str]]:
    """The final runs that are over, by sweep and entry."""
    return Counter((run.tags.sweep, run.tags.entry_id) for run in finals if run.over)


def _best(runs: Sequence[Record]) -> Record | None:
    """The best of the search trials that ran to their end; of equal ones the first."""
    done = [run for run in runs if run.tags.status == Status.FINISHED and not run.tags.confirm]
    done = [run for run in done if "val_score" in run.metrics]
    done.sort(key=lambda run: run.tags.trial_id)
    return max(
        done,
        key=lambda run: TASKS[run.tags.metric].sign * run.metrics["val_score"],
        default=None,
    )
