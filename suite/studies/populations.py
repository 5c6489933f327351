"""Which studies can be searched by a population, and when it stops (`suite.search.population`)."""

from collections.abc import Iterator
from typing import Any

from trials.settings import Settings

STEPS = 5
"""Steps of a run, at most: stops are a fifth of the rounds apart, rounded up to an evaluation."""


SHARE = 4
"""One in so many members is replaced at a stop, and as many may be copied."""


FEWEST = SHARE
"""Members of the smallest population in which anything is replaced."""


def stops(settings: Settings) -> tuple[int, ...]:
    """The rounds at which a population stops; none where only the last round is evaluated."""
    gap = settings.evaluation_gap
    step = -(-settings.rounds // (STEPS * gap)) * gap
    return tuple(range(step, settings.rounds, step))


def contradictions(trials: int, settings: Settings) -> Iterator[tuple[str, Any, str]]:
    """Why there can be no such population: key, value, rule."""
    if trials < FEWEST:
        rule = (
            f"a population of pbt has at least {FEWEST} members, or none of them is ever replaced"
        )
        yield "trials", trials, rule
    if not stops(settings):
        rule = "pbt stops where models are evaluated, and only the last round is: lower eval_every"
        yield "settings.rounds", settings.rounds, rule
