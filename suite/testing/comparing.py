"""What two runs are compared by, and what a check raises."""

from trials.algorithm import Devices
from trials.common.tensors import Tensor, torch
from trials.engine.federation import ClientRows
from trials.run.simulation import Simulation


class WrongError(AssertionError):
    """What is wrong with code of one's own, in words."""


def demand(holds: bool, rule: str) -> None:
    """Raise `WrongError` with a rule that does not hold."""
    if not holds:
        raise WrongError(rule)


def finish(run: Simulation) -> Simulation:
    """Take a run to its end, and return it."""
    while not run.finished:
        run.advance()
    return run


def numbers(run: Simulation) -> dict[str, Tensor]:
    """Return all tensors of the state, on the CPU; of per-client tables every client's row."""
    everyone = torch.arange(run.fed.n)
    return {
        name: (value[everyone] if isinstance(value, ClientRows) else value).cpu()
        for name, value in run.state.items()
    }


def ranked(run: Simulation) -> Tensor:
    """Return the ranked model's weights; of several devices' models all of them."""
    model = next(iter(run.algorithm.scored(run.state, run.fed).values()))
    return model.models if isinstance(model, Devices) else model


def timeless(history: list[dict[str, float]]) -> list[dict[str, float]]:
    """Return a history without wall-clock times."""
    entries = []
    for entry in history:
        clocks = [name for name in entry if name.endswith("_seconds")]
        entries.append({name: entry[name] for name in entry if name not in clocks})
    return entries


def same(a: Simulation, b: Simulation) -> bool:
    """Return whether two runs have the same bits: history, times apart, and state."""
    left, right = numbers(a), numbers(b)
    alike = timeless(a.history) == timeless(b.history) and left.keys() == right.keys()
    return alike and all(torch.equal(value, right[name]) for name, value in left.items())


def apart(found: Tensor, right: Tensor, least: float = 1.0) -> float:
    """Return the largest difference of two tensors, beside their size and beside `least`; infinite where shapes differ."""
    if found.shape != right.shape:
        return float("inf")
    if not right.numel():
        return 0.0
    found, right = found.double(), right.double()
    return float(((found - right).abs() / right.abs().clamp(min=least)).max())
