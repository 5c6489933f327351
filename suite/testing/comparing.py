"""What two runs are compared by."""

from trials.algorithm import Devices
from trials.common.tensors import Tensor, torch
from trials.engine.client_rows import ClientRows
from trials.run.simulation import Simulation


def finish(run: Simulation) -> Simulation:
    """The same run, at its end."""
    while not run.finished:
        run.advance()
    return run


def numbers(run: Simulation) -> dict[str, Tensor]:
    """All tensors of the state, on the CPU; of per-client tables every client's row."""
    everyone = torch.arange(run.fed.n)
    return {
        name: (value[everyone] if isinstance(value, ClientRows) else value).cpu()
        for name, value in run.state.items()
    }


def ranked(run: Simulation) -> Tensor:
    """The ranked model's weights; of several devices' models all of them."""
    model = next(iter(run.algorithm.scored(run.state, run.fed).values()))
    return model.models if isinstance(model, Devices) else model


def timeless(history: list[dict[str, float]]) -> list[dict[str, float]]:
    """A history without wall-clock times."""
    return [{k: v for k, v in entry.items() if not k.endswith("_seconds")} for entry in history]


def same(a: Simulation, b: Simulation) -> bool:
    """Whether two runs have the same bits: history, times apart, and state."""
    left, right = numbers(a), numbers(b)
    return (
        timeless(a.history) == timeless(b.history)
        and left.keys() == right.keys()
        and all(torch.equal(value, right[name]) for name, value in left.items())
    )


def apart(found: Tensor, right: Tensor, least: float = 1.0) -> float:
    """The largest difference of two tensors, beside their size and beside `least`; infinite where shapes differ."""
    if found.shape != right.shape:
        return float("inf")
    if not right.numel():
        return 0.0
    found, right = found.double(), right.double()
    return float(((found - right).abs() / right.abs().clamp(min=least)).max())
