"""A sweep that has to be over by a time: its search is cut so that final runs fit, and what runs then is ended."""

import re
import shlex
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from suite.advice import advice, screening
from suite.advice import race as racing
from suite.sweeps import deadline
from suite.sweeps.deadline import Deadline
from suite.sweeps.sweep import Sweep
from tests.support.commands import document, suite_here
from tests.support.searches import Player, finished, sweep_of
from trials.run.outcome import Status
from trials.run.result import TrialResult


def took(rounds: int, seconds: float) -> TrialResult:
    """A trial that came so far in so long."""
    return TrialResult(Status.FINISHED, history=[{"round": rounds}], seconds=seconds)


def search_of(entry: str, repeats: int) -> Any:
    """A search of 10 trials of 50 rounds, and so many runs that repeat its best."""
    settings = SimpleNamespace(rounds=50)
    return SimpleNamespace(
        entry=SimpleNamespace(id=entry, settings=settings),
        candidates=SimpleNamespace(budget=10),
        planned=10 + repeats,
    )


def test_no_trial_is_begun_after_which_the_final_runs_would_not_fit(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(deadline.time, "monotonic", lambda: now[0])
    watch, searches = Deadline(at=400.0, slots=2), [search_of("a", 3), search_of("b", 3)]
    now[0] = 399.0
    assert not watch.presses(searches), "nothing is known of how long a trial takes"
    watch.took("b", took(50, 100.0))
    watch.took("a", took(50, 100.0))
    assert watch.presses(searches), "two that started the workers are all that is known"
    watch.took("a", took(5, 1.0))  # 0.2 s a round, pruned
    watch.took("a", took(50, 8.0))  # 0.16
    watch.took("b", took(50, 20.0))  # 0.4
    # A trial of b takes 1.25 * 50 * 0.4 = 25 s, one of a 12.5; then 3 * (25 + 12.5) / 2 of final runs.
    now[0] = 400 - 25 - 56.25 - 0.01
    assert not watch.presses(searches)
    now[0] += 0.02
    assert watch.presses(searches)


def test_an_entry_of_which_no_trial_has_ended_is_as_slow_as_the_slowest(monkeypatch):
    monkeypatch.setattr(deadline.time, "monotonic", lambda: 0.0)
    for at, presses in ((99.0, True), (101.0, False)):
        watch = Deadline(at, slots=1)
        watch.took("a", took(50, 20.0))  # 25 s with the margin
        assert watch.presses([search_of("a", 1), search_of("b", 2)]) is presses


def test_a_search_that_is_cut_ends_with_the_final_runs_of_what_it_has():
    sweep = sweep_of(algorithms=["fedavg", "fedprox"], trials=30, seeds=2, lag=4)
    player = Player(sweep, lambda ask: finished(0.1 + ask.index / 100))
    player.play(limit=9, concurrent=2)
    asked = len(player.requests("search"))
    assert 3 < asked < 8
    sweep.cut()
    player.play(concurrent=2)
    assert len(player.requests("search")) == asked
    best = {search.entry.id: len(search.requests) - 1 for search in sweep.entries.values()}
    finals = player.requests("final")
    assert sorted((ask.entry_id, ask.source[-4:]) for ask in finals) == sorted(
        (entry, f"{index:04d}") for entry, index in best.items() for _ in range(2)
    )


def test_a_search_that_is_cut_at_once_tries_one_configuration():
    sweep = sweep_of(trials=30, seeds=2)
    sweep.cut()
    player = Player(sweep, lambda ask: finished(0.1)).play()
    assert [len(player.requests(kind)) for kind in ("search", "final")] == [1, 2]


@pytest.fixture
def race(tmp_path, monkeypatch, in_this_process) -> Any:
    """`suite advise` on a small data set, with something done after each search trial's end."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 120)
    x = (rng.normal(size=(120, 3)) + 2 * y[:, None]).astype(np.float32)
    np.savez(tmp_path / "my.npz", x_train=x[:80], y_train=y[:80], x_test=x[80:], y_test=y[80:])
    monkeypatch.setattr(racing, "METHODS", ("fedavg", "fedprox"))
    monkeypatch.setattr(racing, "SCREENED", 2)
    monkeypatch.setattr(racing, "TRIED", 1)
    monkeypatch.setattr(racing, "MOST", 8)
    monkeypatch.setattr(screening, "EACH", 1)
    monkeypatch.setattr("suite.execution.stop_signal.POLL_SECONDS", 0.0)

    def run(after: Any, *more: Any, code: int = 0) -> Any:
        keep, ends = Sweep._keep_time, []

        def and_then(self: Sweep, *end: Any) -> None:
            keep(self, *end)
            ends.append(end)
            after(self, len(ends))

        monkeypatch.setattr(Sweep, "_keep_time", and_then)
        words = ("advise", "--dataset", "npz:my.npz", "--clients", 4, "--minutes", 30)
        return suite_here(*words, "--set", "max_concurrent=1", *more, cwd=tmp_path, code=code)

    return run


def test_a_race_whose_search_is_cut_says_so_and_can_be_resumed(race, monkeypatch, tmp_path):
    monkeypatch.setattr(
        Deadline, "presses", lambda self, searches: len(self._first | self._later) == 2
    )
    found = document(race(lambda sweep, ended: None, "--json"))
    rows = found["leaderboard"]["rows"]
    assert (found["interim"], len(rows), {row["seeds"] for row in rows}) == (False, 2, {5})
    least, most = (pick(row["trials"] for row in rows) for pick in (min, max))
    assert most < 8
    count = f"{least}" if least == most else f"{least} to {most}"
    trials = "trial" if count == "1" else "trials"
    said = f"by {count} search {trials} of each of 2 methods, of 14 planned: the search ended so "
    said += "that the final runs fit."
    assert said in found["text"]
    suite_here(*found["longer"][1:], "--dry-run", cwd=tmp_path)


def test_a_race_that_is_out_of_time_answers_from_what_is_there(race, tmp_path):
    def late(sweep: Sweep, ended: int) -> None:
        if ended == 3:
            sweep.control.deadline = 0.0

    found = document(race(late, "--json"))
    best, other = found["leaderboard"]["interim"]
    assert found["leaderboard"]["rows"] == []
    assert found["interim"] is True
    assert found["recommended"] == best
    name = best["algorithm"]
    said = re.fullmatch(
        rf"Use {name} on logreg with lr=\S+( mu=\S+)?\. On npz:\S+ partitioned dirichlet\(0\.3\) to 4 clients "
        r"\(18 samples each, label skew 0\.\d\d\) its best validation accuracy is "
        rf"{best['best']:.4f}, of one seed: the time was up before the final runs were over, so this "
        rf"is interim, and flatters\. The others so far: {other['algorithm']} "
        rf"\({other['best']:.4f}\)\. Found in 0\.\d minutes by 1 to 2 search trials of each of 2 "
        r"methods, of 14 planned: the time was up\. Screened before: .* Not tried: other models .*",
        found["text"],
    )
    assert said, found["text"]
    ran = document(suite_here(*found["command"][1:], "--json", cwd=tmp_path))
    assert (ran["algorithm"], ran["params"]) == (name, best["params"]), shlex.join(found["command"])


def test_a_race_that_is_out_of_time_before_any_trial_ended_answers_from_what_was_screened(
    race, monkeypatch
):
    monkeypatch.setattr(advice, "Deadline", lambda at, slots: Deadline(0.0, slots))
    found = document(race(lambda sweep, ended: None, "--json"))
    assert found["interim"] is True
    screened = found["screened"]
    assert found["recommended"]["best"] == max(one["value"] for one in screened)
    assert {one["algorithm"] for one in found["leaderboard"]["interim"]} == {"fedavg", "fedprox"}
    assert "this is interim, and flatters" in found["text"]
