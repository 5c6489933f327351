"""How long rounds take here: measured, not assumed."""

from typing import NamedTuple

from trials.federated_data import FederatedData
from trials.run.spec import TrialSpec
from trials.run.trial import simulate

WARM_UP, MEASURED = 1, 2
"""Rounds before it is measured, in which libraries choose their kernels and loops are compiled, and those that are."""


class Pace(NamedTuple):
    """Client steps of a round, seconds of a round, seconds of an evaluation."""

    steps: float
    round: float
    evaluation: float


def pace(spec: TrialSpec, data: FederatedData, device: str = "cpu", threads: int = 1) -> Pace:
    """Run a few rounds of a trial here; return its pace in those that were not disturbed."""
    few = {"rounds": WARM_UP + MEASURED, "eval_every": 1}
    short = spec.model_copy(update={"settings": spec.settings.model_copy(update=few)})
    simulation = simulate(short, data, device, threads)
    *_, last = simulation.evaluations()
    # A configuration may diverge at once.
    timed = simulation.history[1 + WARM_UP :] or [last]
    return Pace(
        last["client_steps"] / last["round"],
        min(entry["round_seconds"] for entry in timed),
        min(entry["evaluation_seconds"] for entry in timed),
    )
