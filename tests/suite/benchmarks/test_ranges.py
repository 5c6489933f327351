"""Whether ranges hold the best of many random trials: by hand, and by a sweep."""

from pathlib import Path

import pytest

from ranges import Crowd, crowded, ranges
from tests.support.searches import entries_of
from trials.run.outcome import Status
from trials.run.result import TrialResult


def tried(rates: list[float], **more: float) -> list[tuple[dict, TrialResult]]:
    """Forty trials, of which the first few are the best, best first."""
    values = [*rates, *[0.02] * (40 - len(rates))]
    return [
        ({"lr": lr, **more}, TrialResult(Status.FINISHED, [], {5: 1 - i / 100}))
        for i, lr in enumerate(values)
    ]


def rate(rates: list[float]) -> Crowd:
    """The learning rate's, of FedAvg: 0.001 to 1, on a log scale."""
    (entry,) = entries_of()
    (found,) = crowded(entry, tried(rates))
    assert found.name == "lr"
    return found


def test_a_crowd_at_an_open_end_is_cut_off():
    """The upper 5 % of three decades begin at 10^-0.15 = 0.71: three of the best four are there, by chance
    with probability 4 x 0.05^3 x 0.95 + 0.05^4 = 0.0005.
    """
    assert rate([1.0, 0.9, 0.72, 0.1]) == Crowd("lr", 1.0, 0.0, 0.75, "high", True)


def test_a_winner_alone_at_an_end_may_be_there_by_chance():
    """With probability 1 - 0.95^4 = 0.185."""
    assert rate([0.0011, 0.1, 0.2, 0.1]) == Crowd("lr", 0.0011, 0.25, 0.0, "low", False)


def test_a_crowd_without_the_winner_is_shown_and_not_cut():
    assert rate([0.1, 1.0, 1.0, 1.0]) == Crowd("lr", 0.1, 0.0, 0.75, "", False)


def test_an_end_beyond_which_values_mean_nothing_cuts_nothing():
    (entry,) = entries_of(algorithms=["safl"])
    found = {c.name: c for c in crowded(entry, tried([0.1] * 4, epsilon=1.0, L=10.0))}
    assert found["epsilon"] == Crowd("epsilon", 1.0, 0.0, 1.0, "high", False)
    assert found["L"].end == ""


def test_only_what_finished_counts_and_less_is_better_of_an_error():
    (entry,) = entries_of(datasets=["sine"], models=["linear"])
    trials = [
        ({"lr": lr}, TrialResult(status, [], {5: value}))
        for lr, status, value in [
            (1.0, Status.DIVERGED, 0.0),
            (0.5, Status.FINISHED, 2.0),
            (0.1, Status.FINISHED, 1.0),
        ]
    ]
    assert crowded(entry, trials) == [Crowd("lr", 0.1, 0.0, 0.0, "", False)]
    assert crowded(entry, trials[:1]) == []


STUDY = """
algorithms: [fedavg]
datasets: [digits]
models: [logreg]
heterogeneity: [iid]
trials: 3
tunings: 2
confirm: {best: 2, seeds: 1}
settings: {rounds: 4, clients: 4, participation: 1.0, execution: batched}
search: {lr: {low: 0.001, high: HIGH, log: true, default: 0.1}}
"""


@pytest.mark.parametrize(("high", "cut"), [("10.0", []), ("0.1", ["lr"])])
@pytest.mark.usefixtures("in_this_process")
def test_random_trials_are_run_and_what_is_cut_off_is_said(
    tmp_path: Path, high: str, cut: list[str]
) -> None:
    study = tmp_path / "mine.yaml"
    study.write_text(STUDY.replace("HIGH", high))
    found = ranges(tmp_path, str(study), 40, {}, None)
    entry = "fedavg · digits · logreg · iid"
    assert found["cut"] == [f"{entry}: {name}" for name in cut]
    assert [(one["entry"], one["name"]) for one in found["crowds"]] == [(entry, "lr")]
    assert ranges(tmp_path, str(study), 40, {}, None) == found, "it goes on"
