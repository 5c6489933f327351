"""Which runs are asked for, and by what they are compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, Self

from suite.results.searched import Key, Searched, by_entry, written_down
from suite.tracking.reader import Reader
from suite.tracking.record import Record
from suite.tracking.schema.tags import RunKind
from trials.algorithms import is_named
from trials.common.errors import UserError, unknown

METRIC = {
    "score": "{}",
    "best": "best_{}",
    "worst_clients": "{}_worst10",
    "client_spread": "{}_spread",
    "personal": "{}_personal",
    "fine_tuned": "{}_fine_tuned",
    "unseen": "{}_unseen",
    "loss": "loss",
    "top5": "top5_accuracy",
}
"""What `--metric` may ask for, as it is recorded for a task's metric, without `test_`: the mean of the
last three evaluations; the best over rounds; the worst 10 % of clients; the standard deviation over
clients; the mean over clients of each one's own score; the same once they fine-tuned the final model; the mean over clients that took no part in training; loss and
top-5 accuracy, again means of the last three. Only the first two are of what the study is ranked by; the others
are of the metric of pooled samples that this is made of.
"""


AT_THE_END = ("worst_clients", "client_spread", "personal", "fine_tuned", "unseen")
"""Asked of the final model only."""
NONE_YET = "there are no final runs yet: finish the sweep with --resume"


@dataclass(frozen=True)
class Query:
    """Which final runs, compared by what. `where` are tags; `sweep` and `studies` may be given too. Unless
    `interim`, scenarios whose final runs are not all there are compared by those that are.
    """

    sweep: str | None = None
    studies: tuple[str, ...] = ()
    where: Mapping[str, str] = field(default_factory=dict)
    metric: str = "score"
    target: float | None = None
    at: str = "rounds"
    interim: bool = True

    @property
    def scope(self) -> dict[str, str]:
        """Tags that runs of any kind must have."""
        return {"sweep": self.sweep} if self.sweep else {}

    @property
    def tags(self) -> dict[str, str]:
        """Tags that final runs must have."""
        return {**self.where, **self.scope}

    def find(self, store: Reader, kind: RunKind, **where: str) -> list[Record]:
        """The runs of a kind that are asked for, oldest first."""
        found = store.sound(kind=kind, **where)
        return [run for run in found if not self.studies or run.tags.get("study") in self.studies]

    def finals(self, store: Reader) -> list[Record]:
        """The final runs that are asked for, oldest first; of a third party's algorithm also by its short
        name.
        """
        tags = {key: value for key, value in self.tags.items() if key != "algorithm"}
        return [run for run in self.find(store, RunKind.FINAL, **tags) if self.asks_for(run)]

    def asks_for(self, run: Record) -> bool:
        """Whether a run has the tags `where`; a third party's algorithm goes by its short name too."""
        return all(
            is_named(run.tags.get(key, ""), value)
            if key == "algorithm"
            else run.tags.get(key) == value
            for key, value in self.where.items()
        )


EVERYTHING = Query()


def whose(store: Reader, name: str) -> tuple[str | None, tuple[str, ...], str]:
    """A sweep's name, or else a study's, as `Query.sweep` and `Query.studies`; and in words which it is
    where it is not a sweep's. Raises `UserError` where it is neither.
    """
    found = [(run.tags.sweep, run.tags.study) for run in store.sound(kind=RunKind.SWEEP)]
    if name not in {sweep for sweep, _ in found}:
        store.check_sweep(name)
    if not found:
        raise UserError(f"{store.uri} holds no sweep")
    own = [sweep for sweep, study in found if study == name]
    if name in {sweep for sweep, _ in found}:
        return name, (), ""
    if not own:
        raise unknown("sweep", name, {word for pair in found for word in pair})
    return None, (name,), f"{name} is a study; its sweeps: {', '.join(dict.fromkeys(own))}"


@dataclass(frozen=True)
class Held:
    """The runs that a store holds of what is asked for, each kind oldest first: of all algorithms, but for
    `finals`, which have the query's tags. `rows` are `published`. `searches` are the search trials of each
    entry; `trials` are the runs of those that had to be read: not of sweeps that have ended and say them.
    """

    sweeps: list[Record]
    entries: list[Record]
    searches: Mapping[Key, Sequence[Searched]]
    trials: list[Record]
    finals: list[Record]
    rows: dict[tuple[str, str], Record]

    @property
    def tasks(self) -> dict[Key, str]:
        """What each entry that has final runs is ranked by."""
        return {(run.tags.sweep, run.tags.entry_id): run.tags.metric for run in self.finals}

    @classmethod
    def of(
        cls,
        store: Reader,
        query: Query,
        searches: Mapping[Key, Sequence[Searched]] | None = None,
    ) -> Self:
        """Read them; with `searches`, where they are known, no search trial's run."""
        entries = query.find(store, RunKind.ENTRY, **query.scope)
        sweeps = query.find(store, RunKind.SWEEP, **query.scope)
        trials: list[Record] = []
        if searches is None:
            said = _written_down(sweeps, entries)
            if said:
                there = dict.fromkeys(run.tags.sweep for run in (*sweeps, *entries))
                unsaid = [name for name in there if name not in said]
                trials = [r for n in unsaid for r in query.find(store, RunKind.SEARCH, sweep=n)]
            else:
                trials = query.find(store, RunKind.SEARCH, **query.scope)
            searches = by_entry(trials)
            for known in said.values():
                searches |= known
        return cls(
            finals=of_the_best(query.finals(store)),
            searches=searches,
            trials=trials,
            entries=entries,
            sweeps=sweeps,
            rows=published(store, query),
        )


def _written_down(
    sweeps: Sequence[Record], entries: Sequence[Record]
) -> dict[str, dict[Key, list[Searched]]]:
    """The search trials of the sweeps that say them, by the sweep's name."""
    found = {}
    for sweep in sweeps:
        name = sweep.tags.sweep
        said = written_down(sweep, [run for run in entries if run.tags.sweep == name])
        if said is not None:
            found[name] = said
    return found


def of_the_best(finals: Sequence[Record]) -> list[Record]:
    """Final runs, oldest first, without those of a former best, which are `superseded` only once a sweep that
    grew has ended: of each search those that repeat what the newest repeats.
    """

    def search(run: Record) -> tuple[str | int | None, ...]:
        return (
            run.tags.sweep,
            run.tags.entry_id,
            run.tags.split,
            run.tags.partition,
            run.tags.tuning,
        )

    newest = {search(run): run.tags.get("source") for run in finals}
    return [run for run in finals if run.tags.get("source") == newest[search(run)]]


def published(store: Reader, query: Query) -> dict[tuple[str, str], Record]:
    """The leaderboard's rows in the store by sweep and scenario, of each the newest: a harvest removes the
    former ones once it has written all of its own.
    """
    found = query.find(store, RunKind.LEADERBOARD, **query.scope)
    return {(run.tags.get("sweep", ""), run.tags.get("entry_id", run.run_id)): run for run in found}


def say_why_none(store: Reader, query: Query) -> NoReturn:
    """Say why there are no final runs."""
    recorded = store.sound(kind=RunKind.SWEEP)
    if not recorded:
        raise UserError(f"{store.uri} holds no sweep")
    for key, wanted in (("sweep", [query.sweep] if query.sweep else []), ("study", query.studies)):
        known = {run.tags[key] for run in recorded}
        for name in wanted:
            if name not in known:
                raise unknown(key, name, known)
    everything = [run for run in query.find(store, RunKind.FINAL, **query.scope) if run.finished]
    if not everything:
        raise UserError(NONE_YET)
    for key, value in query.where.items():
        found = {run.tags[key] for run in everything if key in run.tags}
        if not found:
            raise unknown("tag", key, {tag for run in everything for tag in run.tags})
        if value not in found:
            raise unknown(f"{key} among the final runs", value, found)
    raise UserError("no final run has all of these tags")
