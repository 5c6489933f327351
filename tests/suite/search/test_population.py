"""Population-based training: who is replaced by whom, and with what, by hand; and whatever the timing."""

import json
import random
import zlib
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import pytest

from suite.search import population
from suite.search.entry_search import EntrySearch
from suite.search.population import Population, perturbed
from suite.search.sweep_search import SweepSearch
from suite.search.trial import Ask, End, Known
from suite.studies.populations import stops
from tests.support.searches import a_study, entries_of
from trials.algorithm import Range
from trials.outcome import Status
from trials.schedule import pieces
from trials.settings import Settings

PBT: dict[str, Any] = {"scheduler": "pbt", "trials": 8, "settings": {"rounds": 20}}


@pytest.mark.parametrize(
    ("rounds", "gap", "expected"),
    [
        (50, None, (10, 20, 30, 40)),
        (20, None, (4, 8, 12, 16)),
        (6, None, (2, 4)),
        (7, 3, (3, 6)),
        (2, None, (1,)),
        (1, None, ()),
        (5, 5, ()),
        (5, 4, (4,)),
        (100, 8, (24, 48, 72, 96)),
    ],
)
def test_stops_are_a_fifth_apart_and_evaluated(
    rounds: int, gap: int | None, expected: tuple[int, ...]
) -> None:
    assert stops(Settings(rounds=rounds, eval_every=gap)) == expected


# One decision


def members(count: int = 8, **given: Any) -> tuple[Population, list[Ask]]:
    """A population of FOLB on its way to round 8, each member with a rate of its own."""
    (entry,) = entries_of(algorithms=["folb"], **{**PBT, **given})
    asks = [
        Ask(
            trial_id=f"{entry.id}-s{i:04d}",
            cell=entry.id,
            kind="search",
            index=i,
            origin="sampled",
            params={"lr": f"0.5@1,{(i + 1) / 100}@5", "mu": 0.1, "variant": "plain"},
            seed=0,
            partition_seed=0,
            until=8,
        )
        for i in range(count)
    ]
    return Population(entry, 0, count), asks


def scored(found: Population, asks: list[Ask], scores: Mapping[int, float | str | None]) -> None:
    """Let members stand, in this order; a word is a status."""
    for index, score in scores.items():
        value = score if isinstance(score, float) else None
        at = asks[index].until or 0
        status = score if isinstance(score, Status) else Status.PAUSED
        end = End(status, value, {4: 0.99} | ({at: value} if value is not None else {}))
        found.standing[asks[index].trial_id] = end


def drawn(monkeypatch: pytest.MonkeyPatch, numbers: Mapping[str, float]) -> list[tuple[Any, ...]]:
    """Let the draws be these numbers, by stream; what they were asked with."""
    words = []

    def uniform(stream: str, *given: Any) -> list[float]:
        words.append((stream, *given))
        return [numbers[stream]]

    monkeypatch.setattr(population.randomness, "uniform", uniform)
    return words


def test_the_worst_quarter_goes_on_as_the_best_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Best are 5 and 2, worst 0 and 7. The draw 0.7 of two takes the second best, 2, whose rate 0.03
    becomes 0.8 of it after round 8; mu is drawn from its range at the middle of its scale.
    """
    found, asks = members()
    numbers = {"population": 0.7, "population resamples lr": 0.25, "population factor lr": 0.49}
    numbers |= {"population place lr": 0.0, "population factor mu": 0.0}
    numbers |= {"population resamples mu": 0.2, "population place mu": 0.5}
    words = drawn(monkeypatch, numbers)
    scored(found, asks, dict(enumerate([0.1, 0.5, 0.8, 0.4, 0.3, 0.9, 0.2])))
    assert found.next(asks, {}) == [], "the last one is on its way"
    scored(found, asks, {7: 0.15})
    low, high = found.entry.space.ranges["mu"].low, found.entry.space.ranges["mu"].high
    assert low is not None
    assert high is not None
    evolved = {
        "lr": "0.5@1,0.03@5,0.024@9",
        "mu": f"0.1@1,{low * (high / low) ** 0.5!r}@9",
        "variant": "plain",
    }
    third = asks[2].trial_id
    went_on = {ask.index: ask for ask in found.next(asks, {})}
    for index, ask in enumerate(asks):
        copied = {"origin": "evolved", "params": evolved, "source": f"{third} at round 8"}
        changed = {"parent": third, **copied} if index in (0, 7) else {"parent": ask.trial_id}
        assert went_on[index] == replace(ask, since=8, until=12, **changed)
    assert {word[1:] for word in words} == {(0, int(found.entry.id, 16), 8, i) for i in (0, 7)}


def test_values_stay_within_the_range_and_choices_and_whole_numbers_as_they_are() -> None:
    ranges = {"a": Range("float", 0.5, 1.0), "b": Range("float", 1e-3, 1.0, True)}
    params = {"a": 0.9, "b": 0.5, "c": "word", "n": 3}
    seen = set()
    for i in range(400):
        changed = perturbed(params, ranges, 8, (1, 2, 3, i))
        assert (changed["c"], changed["n"]) == ("word", 3)
        a, b = (pieces(changed[name]) for name in ("a", "b"))
        assert a[1] == 0.9
        assert 0.5 <= a[9] <= 1.0
        assert 1e-3 <= b[9] <= 1.0
        seen.add(b[9])
    resampled = [value for value in seen if value not in (0.4, 0.6)]
    assert {0.4, 0.6} < seen
    assert 60 < len(resampled) < 140, "one in four"
    assert sum(value < 0.0316 for value in resampled) > len(resampled) / 3, "on its scale"


def test_fixed_and_shared_settings_are_not_changed() -> None:
    search = {"mu": {"low": 0.1, "high": 0.1}, "momentum": {"low": 0.0, "high": 0.9}}
    (entry,) = entries_of(algorithms=["folb"], search=search, **PBT)
    assert set(Population(entry, 0, 8)._real) == {"lr", "psi"}


def parents(found: Population, asks: list[Ask], ends: Mapping[str, End]) -> dict[int, int]:
    """Who goes on from whom."""
    index = {ask.trial_id: ask.index for ask in asks}
    return {ask.index: index[ask.parent or ""] for ask in found.next(asks, ends)}


def test_the_diverged_are_replaced_first_and_never_copied() -> None:
    """Of eight, three diverged (the latest are worst), one has no finite score; the best are 1, 4."""
    found, asks = members()
    scored(
        found,
        asks,
        {1: 0.5, 4: 0.4, 7: 0.3, 2: 0.2, 3: None, 0: Status.DIVERGED, 5: Status.DIVERGED},
    )
    scored(found, asks, {6: Status.DIVERGED})
    went_on = parents(found, asks, {})
    assert {i: p for i, p in went_on.items() if i != p}.keys() == {5, 6}
    assert {went_on[5], went_on[6]} <= {1, 4}
    assert 0 not in went_on, "it stays where it is"
    assert found.lost(asks, {}) == []
    after = {ask.index: ask for ask in found.next(asks, {})}
    for index in after:
        found.standing.pop(asks[index].trial_id)
    now = [after.get(ask.index, ask) for ask in asks]
    assert found.lost(now, {}) == [], "the next stop may replace it"
    last = [replace(ask, until=None) if ask.index in after else ask for ask in now]
    assert found.lost(last, {}) == [asks[0]]


def test_the_failed_are_out_and_a_few_members_are_left_alone() -> None:
    found, asks = members()
    failed = {asks[i].trial_id: End(Status.FAILED, None) for i in (0, 1, 2, 3, 4)}
    scored(found, asks, {5: 0.5, 6: 0.4, 7: 0.3})
    assert parents(found, asks, failed) == {5: 5, 6: 6, 7: 7}
    (four, asks) = members(4)
    scored(four, asks, {0: 0.1, 1: 0.1, 2: 0.1, 3: 0.1})
    assert parents(four, asks, {}) == {0: 0, 1: 1, 2: 2, 3: 0}, "of equal ones the earlier"


def test_less_is_better_of_an_error() -> None:
    found, asks = members(4, datasets=["sine"], models=["linear"])
    scored(found, asks, {0: 0.1, 1: 0.4, 2: 0.2, 3: 0.3})
    assert parents(found, asks, {}) == {0: 0, 1: 0, 2: 2, 3: 3}


def test_when_all_diverged_it_is_over() -> None:
    found, asks = members(4)
    scored(found, asks, dict.fromkeys(range(3), Status.DIVERGED))
    assert found.lost(asks, {}) == []
    scored(found, asks, {3: Status.DIVERGED})
    assert found.next(asks, {}) == []
    assert found.lost(asks, {}) == asks


def test_checkpoints_of_a_stop_go_when_the_next_is_passed() -> None:
    found, asks = members(4)
    name = found.entry.id
    assert found.leftover(asks, {}) == []
    gone_on = [replace(ask, since=8) for ask in asks]
    assert found.leftover(gone_on, {}) == [f"{name}-r0004"]
    over = {ask.trial_id: End(Status.FINISHED, 0.5) for ask in asks}
    assert found.leftover(gone_on, over) == [f"{name}-r{r:04d}" for r in (4, 8, 12, 16)]


# Whole searches


def ending(ask: Ask) -> End:
    """A result that depends on what is run and how far; some diverge, some fail."""
    draw = random.Random(zlib.crc32(f"{ask.index} {ask.params} {ask.until}".encode()))
    status = draw.choices(["sound", Status.DIVERGED, Status.FAILED], [8, 2, 1])[0]
    if status == "sound":
        status = Status.FINISHED if ask.until is None else Status.PAUSED
    value = draw.random()
    return End(status, value, {ask.until or 20: value})


class Driver:
    """Plays a sweep's search as it would be driven, in any order; `log` is the journal."""

    def __init__(self, log: list[str], **given: Any) -> None:
        study = a_study(**{**PBT, "algorithms": ["fedprox", "folb"], **given})
        self.sweep = SweepSearch(entries_of(**study.model_dump(exclude_unset=True)), study)
        self.log, self.running = log, list[Ask]()
        asks: list[Ask] = []
        ends: dict[str, End] = {}
        standing: dict[str, End] = {}
        for event, *found in map(json.loads, log):
            if event == "ask":
                went_on = [Ask.read(fields) for fields in found]
                asks += went_on
                for ask in went_on:
                    standing.pop(ask.trial_id, None)
            else:
                trial_id, fields = found
                fields["intermediates"] = {int(k): v for k, v in fields["intermediates"].items()}
                (standing if event == "stand" else ends)[trial_id] = End(
                    **{**fields, "status": Status(fields["status"])}
                )
        standing = {trial_id: end for trial_id, end in standing.items() if trial_id not in ends}
        self.sweep.replay(asks, ends, standing)
        for search in self.sweep.entries.values():
            self.move_on(search)

    def write(self, *event: Any) -> None:
        self.log.append(json.dumps(event))

    def move_on(self, search: EntrySearch) -> None:
        found = search.population
        assert found is not None
        if going := found.next(search.asks, search.ends):
            self.write("ask", *map(asdict, going))
            self.sweep.go_on(going)
        for ask in found.lost(search.asks, search.ends):
            self.end(ask, found.standing[ask.trial_id])

    def end(self, ask: Ask, end: End) -> None:
        self.write("end", ask.trial_id, asdict(end))
        self.sweep.end(ask.trial_id, end)

    def play(self, draw: random.Random, concurrent: int, limit: int = 10**6) -> "Driver":
        """Until all is done, or the log has `limit` lines: a kill."""
        while len(self.log) < limit:
            found = self.sweep.next() if len(self.running) < concurrent else None
            if found is not None:
                self.running.append(found[0])
                if found[1]:
                    self.write("ask", asdict(found[0]))
            elif not self.running:
                assert self.sweep.exhausted, "nothing runs, nothing is handed out, nothing is over"
                break
            if found is None or draw.random() < 0.5:
                ask = self.running.pop(draw.randrange(len(self.running)))
                end = ending(ask)
                if ask.stands(end.status):
                    self.write("stand", ask.trial_id, asdict(end))
                    self.sweep.stand(ask.trial_id, end)
                else:
                    self.end(ask, end)
                if ask.kind == "search":
                    self.move_on(self.sweep.entries[ask.cell])
        return self

    @property
    def asks(self) -> dict[str, Ask]:
        return dict(sorted(self.sweep.asks.items()))


@pytest.mark.parametrize("more", [{}, {"sampler": "cmaes"}, {"confirm": {"best": 2, "seeds": 1}}])
def test_a_population_is_the_same_whatever_the_timing_and_however_often_it_is_killed(
    more: dict[str, Any],
) -> None:
    whole = Driver([], **more).play(random.Random(0), 1)
    assert sum(ask.origin == "evolved" for ask in whole.asks.values()) > 4
    statuses = {
        end.status for search in whole.sweep.entries.values() for end in search.ends.values()
    }
    assert statuses == {"finished", "diverged", "failed"}
    for seed in range(6):
        draw = random.Random(seed)
        assert Driver([], **more).play(draw, 1 + seed).asks == whole.asks
        log: list[str] = []
        while not (driver := Driver(log, **more)).sweep.exhausted:
            driver.play(draw, 1 + seed, len(log) + draw.randrange(1, 30))
        assert driver.asks == whole.asks
        asked = [a["trial_id"] for e, *asks in map(json.loads, log) if e == "ask" for a in asks]
        ended = [found[0] for e, *found in map(json.loads, log) if e == "end"]
        assert sorted(ended) == sorted(set(asked)), "each ends once"


def test_the_sampler_is_told_nothing() -> None:
    driver = Driver([]).play(random.Random(0), 4)
    first: dict[str, Any] = {}
    for event, *asks in map(json.loads, driver.log):
        for ask in asks if event == "ask" else []:
            first.setdefault(ask["trial_id"], ask["params"])
    study = a_study(**{**PBT, "algorithms": ["fedprox", "folb"]})
    alone = SweepSearch(
        driver.sweep.entries and entries_of(algorithms=["fedprox", "folb"], **PBT), study
    )
    for _ in range(2 * study.trials):
        found = alone.next()
        assert found is not None, "all are begun without waiting"
        assert found[0].params == first[found[0].trial_id]
    assert alone.next() is None


@pytest.mark.parametrize("sampler", ["tpe", "gp", "cmaes", "random", "grid"])
@pytest.mark.parametrize("scheduler", ["none", "pbt"])
def test_a_schedule_can_be_started_from(sampler: str, scheduler: str) -> None:
    """As a warm start: it is tried, and the sampler is not told of it."""
    study = a_study(**{**PBT, "scheduler": scheduler, "sampler": sampler})
    (entry,) = entries_of(**study.model_dump(exclude_unset=True))
    warm = Known("warm", {"lr": "0.3@1,0.1@5"}, "a file")
    sweep = SweepSearch([entry], study, warm={entry.id: [warm]})
    tried = []
    while (found := sweep.next()) is not None and found[0].kind == "search" and not found[0].since:
        ask, _ = found
        tried.append(ask.params["lr"])
        if scheduler == "none":
            sweep.end(ask.trial_id, End(Status.FINISHED, 0.5, {20: 0.5}))
    assert tried[:2] == [0.1, "0.3@1,0.1@5"]
    assert len(tried) == (7 if sampler == "grid" else 8)
    assert 1 not in sweep.entries[entry.id].candidates.proposer._numbers


def test_what_runs_again_runs_the_schedule() -> None:
    driver = Driver([]).play(random.Random(0), 4)
    for search in driver.sweep.entries.values():
        assert search.best is not None
        assert [f.params for f in search.current_finals] == [search.best.params] * 5
        assert {f.until for f in search.current_finals} == {None}
