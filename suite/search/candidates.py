"""The configurations that an entry tries, or the entries of a joint search together, and which is best."""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from reports.leaderboard import pareto
from suite.search.joint import jointly
from suite.search.samplers import Proposer, Told, grid
from suite.search.trial import End, Known
from suite.studies.entry import Entry
from suite.studies.modelling import first_modelled
from suite.studies.opening import OWN, RATE, SHARED, blind, shared_draw
from suite.studies.replicates import FIRST, Replicate
from suite.studies.study import Study
from trials import heterogeneity
from trials.metrics import Direction
from trials.outcome import Kind, Status
from trials.trial_id import TrialId

Ends = Callable[[Entry, int], Sequence[End]]
"""The results of a configuration in an entry: its search trial's, and its confirming runs'."""


class Candidates:
    """Configurations by number, from the results of all entries that share them.

    They are those of one replicate, and open by the rule of that number (`suite.studies.opening`). `ends`
    are the results of all their trials by id. Number i waits for the results of 0..i-lag; a population's
    for none.
    """

    def __init__(
        self,
        entries: Sequence[Entry],
        study: Study,
        lag: int,
        warm: Mapping[str, Iterable[Known]],
        replicate: Replicate = FIRST,
        opening: int = SHARED,
    ) -> None:
        self.entries, self.study, self.replicate = list(entries), study, replicate
        self.opening = opening
        self.lag = study.trials if study.scheduler == "pbt" else lag
        self.ends: dict[str, End] = {}
        self.first = first = self.entries[0]
        self._joint = bool(first.apart)
        self.sign = first.task.sign
        group = zlib.crc32("|".join(first.group).encode()) if self._joint else int(first.id, 16)
        self._draws = replicate.drawn(study.design).words
        words = (study.seed, group, *self._draws)
        directions: list[Direction] = ["maximize" if self._joint else first.task.direction]
        if study.traded is not None:
            directions.append("minimize")
        known = self._known() + [one for c in entries for one in warm.get(c.id, ())]
        if self._joint:
            once: dict[str, Known] = {}
            for one in known:
                once.setdefault(repr(sorted(one.params.items())), one)
            known = list(once.values())
        self.budget = study.trials
        if study.sampler == "grid":
            seen = [one.params for one in known]
            points = grid(first.space, study.grid_points, words)
            known += [Known("sampled", point) for point in points if point not in seen]
            self.budget = min(study.trials, len(known))
        self.proposer = Proposer(study.sampler, first.space, known, directions, words, self._opens)
        self._told = self._ended = 0
        self._chosen: tuple[list[int], int | None, int | None] | None = None

    def _known(self) -> list[Known]:
        """The anchor and the published configurations, each once."""
        own = self.opening == OWN
        anchor = self.first.space.anchor({} if own else self.first.implied)
        published = [
            c.space.anchor(p.params)
            for c in self.entries
            if own or self._publishes(c)
            for p in c.known
        ]
        if not own:
            published = [
                one for i, one in enumerate(published) if one not in [anchor, *published[:i]]
            ]
        return [Known("anchor", anchor), *(Known("published", one) for one in published)]

    def _publishes(self, entry: Entry) -> bool:
        """Whether published configurations are tried in an entry: at the study's first level."""
        level = heterogeneity.parse(self.study.heterogeneity[0]).name
        return entry.place.heterogeneity == level

    def _opens(self, index: int) -> dict[str, Any]:
        """The learning rate that all algorithms of the cell share, of a configuration drawn blindly."""
        rate = self.first.space.searched.get(RATE)
        blindly = index < blind(self.study.sampler, self.study.scheduler, self.lag)
        if self.opening == OWN or rate is None or not blindly:
            return {}
        drawn, words = index - len(self.proposer.known), (self.study.seed, *self._draws)
        return {RATE: rate.at(shared_draw(drawn, self.first.cell, words))}

    def at(self, index: int) -> Known | None:
        """Configuration `index`; None while it waits for results."""
        if index < len(self.proposer.made):
            return self.proposer.made[index]
        due = index - self.lag
        if not self._all_ended(due):
            return None
        self._tell(due)
        return self.proposer.propose(index)

    def restore(self, index: int, made: Known) -> None:
        """Take over configuration `index` from a journal, whose results are known already. A journal that was
        repaired may lack one: that trial runs again, and the sampler is told it and what follows then.
        """
        if index == len(self.proposer.made):
            due = index - self.lag
            if not self._joint:
                self._tell(due if self._all_ended(due) else self._ended - 1)
            self.proposer.restore(index, made)

    def cut(self) -> None:
        """Make no configuration beyond those there are, and one at least."""
        self.budget = min(self.budget, max(1, len(self.proposer.made)))

    def change(self, index: int, made: Known) -> None:
        """Configuration `index` became another; the sampler is not told."""
        self.proposer.made[index] = made

    def trial_id(self, entry: Entry, kind: Kind, index: int, number: int | None = None) -> str:
        """The id of a trial of this replicate."""
        return str(TrialId(entry.id, kind, index, number, self.replicate.name))

    def end(self, trial_id: str, end: End) -> None:
        """Take the result of a trial."""
        self.ends[trial_id] = end
        self._chosen = None

    @property
    def searching(self) -> bool:
        """Whether search trials are still to be made or to end, in any of the entries."""
        return len(self.proposer.made) < self.budget or not self._all_ended(
            len(self.proposer.made) - 1
        )

    @property
    def published(self) -> int:
        """How many of the configurations are published ones."""
        return sum(one.origin == "published" for one in self.proposer.known)

    @property
    def modelled(self) -> int:
        """How many of the configurations can be the sampler's from results, at most."""
        first = first_modelled(self.study.sampler, self.study.scheduler, self.lag)
        if first is None:
            return 0
        return max(0, self.budget - max(first - 1, len(self.proposer.known)))

    @property
    def finalists(self) -> list[int]:
        """The best few, which are confirmed where the study says so; best first."""
        return self._choose()[0]

    @property
    def chosen(self) -> int | None:
        """The best configuration: of those that finished in every entry the one that keeps the
        constraints, or exceeds them least, and scores best; a diverged one only when all are. Of
        equal ones the cheapest, then the earliest.
        """
        return self._choose()[1]

    @property
    def knee(self) -> int | None:
        """The configuration at the front's knee, with two objectives; None where it is the chosen one."""
        return self._choose()[2]

    @property
    def confirmed(self) -> bool:
        """Whether the finalists' confirming runs have all ended, in every entry."""
        wanted = 1 + (self.study.confirm.seeds if self.study.confirm else 0)
        return all(
            len(self.results(entry, i)) == wanted for entry in self.entries for i in self.finalists
        )

    def _choose(self) -> tuple[list[int], int | None, int | None]:
        if self._chosen is None:
            ranked = self._ranked(range(len(self.proposer.made)), self._searched)
            finalists = ranked[: self.study.confirm.best] if self.study.confirm else ranked[:1]
            best = [*self._ranked(finalists, self.results), *finalists]
            chosen = best[0] if best else None
            knee = self._knee(ranked)
            self._chosen = finalists, chosen, None if knee == chosen else knee
        return self._chosen

    def _knee(self, ranked: list[int]) -> int | None:
        """The knee of the front of the trials that finished within the constraints."""
        traded, ends = self.study.traded, self._searched
        if traded is None:
            return None
        sound = [
            i
            for i in sorted(ranked)
            if self._status(i, ends) == Status.FINISHED and not self._excess(i, ends)
        ]
        scores = self._scores(sound, ends)
        costs = [self.cost(ends(self.first, i)[0], traded) for i in sound]
        front = pareto.front(scores, costs, maximize=True)
        found = pareto.knee([scores[k] for k in front], [costs[k] for k in front])
        return None if found is None else sound[front[found]]

    def _ranked(self, indices: Iterable[int], ends: Ends) -> list[int]:
        """The configurations that finished or diverged in all entries, best first."""
        usable = [i for i in indices if self._status(i, ends).ran_to_its_end]
        scores, traded = (
            dict(zip(usable, self._scores(usable, ends), strict=True)),
            self.study.traded,
        )

        def key(i: int) -> tuple[bool, float, float, float, int]:
            cost = self.cost(ends(self.first, i)[0], traded) if traded else 0.0
            finished = self._status(i, ends) == Status.FINISHED
            return not finished, self._excess(i, ends), -scores[i], cost, i

        return sorted(usable, key=key)

    def _scores(self, indices: Sequence[int], ends: Ends) -> list[float]:
        """The numbers that configurations are ranked by, more is better: the mean score over seeds; in a joint
        search how they compare over the entries.
        """
        if not self._joint:
            return [self.sign * self._mean(self.first, ends(self.first, i)) for i in indices]
        columns = [
            [
                None
                if any(end.status == Status.DIVERGED for end in ends(entry, i))
                else entry.task.sign * self._mean(entry, ends(entry, i))
                for i in indices
            ]
            for entry in self.entries
        ]
        assert self.study.joint is not None
        return jointly(columns, self.study.joint.by)

    def _mean(self, entry: Entry, ends: Sequence[End]) -> float:
        return fmean(_value(entry, end) for end in ends)

    def _status(self, index: int, ends: Ends) -> Status:
        """The worst status over entries and seeds; failed while results are missing."""
        found = [ends(entry, index) for entry in self.entries]
        order = (Status.FAILED, Status.PRUNED, Status.DIVERGED, Status.FINISHED)
        statuses = [end.status for of_entry in found for end in of_entry]
        return min(statuses, key=order.index) if all(found) else Status.FAILED

    def _excess(self, index: int, ends: Ends) -> float:
        """By how much constraints are exceeded, as shares of what is allowed, over entries and seeds."""
        found = [
            max(0.0, share)
            for entry in self.entries
            for end in ends(entry, index)
            for share in self._exceeded(entry, end).values()
        ]
        return max(found, default=0.0)

    def _exceeded(self, entry: Entry, end: End) -> dict[str, float]:
        """The excess of each constraint, cost / bound - 1: at most 0 where it is kept."""
        return {name: self.cost(end, name) / bound - 1 for name, bound in entry.constraints.items()}

    def feasible(self, entry: Entry, end: End) -> bool:
        """Whether a run keeps the constraints."""
        return all(share <= 0 for share in self._exceeded(entry, end).values())

    def cost(self, end: End, name: str) -> float:
        """The cost of a run over all rounds; of one that ended before, in proportion."""
        rounds = self.first.settings.rounds
        if name == "rounds_to_target":
            target = self.study.target
            assert target is not None
            hits = (r for r, v in sorted(end.curve.items()) if self.sign * (v - target) >= 0)
            return next((r for r in hits if r > 0), rounds + 1)
        return end.spent.get(name, 0.0) * rounds / end.at if end.at else 0.0

    def _searched(self, entry: Entry, index: int) -> list[End]:
        end = self.ends.get(self.trial_id(entry, Kind.SEARCH, index))
        return [] if end is None else [end]

    def results(self, entry: Entry, index: int) -> list[End]:
        """The results of a configuration in an entry: its search trial's, and its confirming runs'."""
        seeds = self.study.confirm.seeds if self.study.confirm else 0
        ids = [self.trial_id(entry, Kind.CONFIRM, index, i) for i in range(seeds)]
        return self._searched(entry, index) + [self.ends[i] for i in ids if i in self.ends]

    def _all_ended(self, last: int) -> bool:
        """Whether trials 0..last have ended in every entry."""
        while self._ended <= last and all(self._searched(c, self._ended) for c in self.entries):
            self._ended += 1
        return self._ended > last

    def _tell(self, last: int) -> None:
        """Tell the results of trials up to `last`: each once, in index order. What a joint trial is
        worth changes with those it is compared to, so all are told anew.
        """
        if self._joint:
            self.proposer.restart()
            self._tell_jointly(last)
            return
        while self._told <= last:
            index, self._told = self._told, self._told + 1
            (end,) = self._searched(self.first, index)
            values = [_value(self.first, end)]
            if self.study.traded is not None:
                values.append(self.cost(end, self.study.traded))
            excess = self._exceeded(self.first, end)
            self.proposer.tell(index, Told(end.status, tuple(values), end.intermediates, excess))

    def _tell_jointly(self, last: int) -> None:
        usable = [i for i in range(last + 1) if self._status(i, self._searched).ran_to_its_end]
        scores = dict(zip(usable, self._scores(usable, self._searched), strict=True))
        for i in range(last + 1):
            if i not in scores:
                self.proposer.tell(i, Told(Status.FAILED, (), {}, {}))
                continue
            excess: dict[str, float] = {}
            for entry in self.entries:
                for name, share in self._exceeded(entry, self._searched(entry, i)[0]).items():
                    excess[name] = max(share, excess.get(name, share))
            status = self._status(i, self._searched)
            self.proposer.tell(i, Told(status, (scores[i],), {}, excess))


def _value(entry: Entry, end: End) -> float:
    """A trial's score; the task's worst of one that diverged."""
    if end.status == Status.DIVERGED or end.value is None:
        return entry.task.worst
    return end.value
