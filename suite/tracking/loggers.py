"""Runs in TensorBoard or Weights & Biases as well, by these projects' own libraries (`--log`)."""

import math
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trials.common.errors import UserError, unknown

History = Sequence[Mapping[str, float]]


def check(name: str) -> None:
    """Raise `UserError` for a place that is none, or whose library is not installed."""
    if name not in PLACES:
        raise unknown("place to log to", name, PLACES)
    library, _ = PLACES[name]
    if find_spec(library) is None:
        raise UserError(f"--log {name}: its library is not installed: pip install {library}")


def log_run(
    place: str, folder: Path, name: str, params: Mapping[str, Any], history: History
) -> None:
    """Write one run there: its params, and its metrics with step = round; what is not finite is left out.
    `folder` is for the library's files.
    """
    finite = [{k: v for k, v in entry.items() if math.isfinite(v)} for entry in history]
    _, write = PLACES[place]
    write(folder, name, params, finite)


def _tensorboard(folder: Path, name: str, params: Mapping[str, Any], history: History) -> None:
    from tensorboardX import SummaryWriter

    with SummaryWriter(str(folder / name)) as writer:
        writer.add_text("params", "\n".join(f"    {k}: {v}" for k, v in params.items()))
        for entry in history:
            for key, value in entry.items():
                if key != "round":
                    writer.add_scalar(key, value, int(entry["round"]))


def _wandb(folder: Path, name: str, params: Mapping[str, Any], history: History) -> None:
    import wandb

    folder.mkdir(parents=True, exist_ok=True)
    quiet = wandb.Settings(silent=True, console="off")  # what the command prints is its own
    with wandb.init(
        project=folder.parent.name, name=name, dir=str(folder), config={**params}, settings=quiet
    ) as run:
        for entry in history:
            run.log(dict(entry), step=int(entry["round"]))


Write = Callable[[Path, str, Mapping[str, Any], History], None]
PLACES: dict[str, tuple[str, Write]] = {
    "tensorboard": ("tensorboardX", _tensorboard),
    "wandb": ("wandb", _wandb),
}
"""The library of each place, and how a run is written with it."""
