"""The final models of a run, saved in a folder as plain state dicts, with a card that describes them.

`model.pt` is the server's model, `clients.pt` the clients' own models, stacked, if the method has them. Each file is a
state dict as `torch.save` writes it, which `torch.load(..., weights_only=True)` reads without this package.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from pydantic import BaseModel, ConfigDict, PositiveInt, ValidationError

from trials import models
from trials.algorithm import Devices
from trials.common import plugins
from trials.common.errors import UserError
from trials.common.files import plain
from trials.common.tensors import Tensor, torch
from trials.models.base import Model
from trials.models.network import Values
from trials.run.simulation import Simulation
from trials.run.spec import TrialSpec
from trials.scoring import losses

if TYPE_CHECKING:
    from trials.models.torch_modules import TrainedModel

CARD, SERVER, CLIENTS = "model.json", "model.pt", "clients.pt"


class ModelCard(BaseModel):
    """The description of a saved model. `scores` are the final ones; `code` is the SHA-256 of its third-party code, if any."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    spec: TrialSpec
    shape: tuple[PositiveInt, ...]
    classes: PositiveInt
    metric: Literal["accuracy", "mse"]
    scores: dict[str, float]
    code: str | None = None

    def model(self) -> Model:
        """Return the model that the card describes, without the saved weights."""
        s = self.spec.settings
        loss, architecture = losses.resolve(s.loss, self.metric), models.parse(self.spec.model)
        return Model(architecture, self.shape, self.classes, loss, s.dtype == "bf16", s.buffers)


@dataclass
class SavedModel:
    """The final models of a run as state dicts. The clients' own models are stacked, (n, ...). A missing model is None."""

    card: ModelCard
    server: Values | None
    clients: Values | None

    @classmethod
    def of(cls, spec: TrialSpec, simulation: Simulation) -> Self:
        """Return a finished simulation's models, with a card that describes them."""
        fed, data, last = simulation.fed, simulation.fed.data.dataset, simulation.history[-1]
        scored, personal = list(simulation.scored().values()), simulation.personal()
        if isinstance(scored[0], Devices):
            personal = scored[0].models
        scores = {}
        for name, value in last.items():
            if name.startswith(("test_", "val_")) and math.isfinite(value):  # JSON has no NaN
                scores[name] = value
        facts = {"shape": data.shape, "classes": data.classes, "metric": data.task.metric}
        code = next(iter(plugins.hashes(*spec.scenario.model_code).values()), None)
        card = ModelCard(spec=spec, **facts, scores=scores, code=code)
        # Without a server the devices are ranked; a mean model scored beside them is saved as the server's.
        server = next((model for model in scored if isinstance(model, torch.Tensor)), None)
        return cls(card, _state_dict(fed.model, server), _state_dict(fed.model, personal))

    def files(self, folder: Path) -> None:
        """Write the models and their card into an existing folder. The card is written last, so a folder with a card is complete."""
        for name in (CARD, SERVER, CLIENTS):
            (folder / name).unlink(missing_ok=True)
        for name, tensors in ((SERVER, self.server), (CLIENTS, self.clients)):
            if tensors is not None:
                torch.save(tensors, folder / name)
        (folder / CARD).write_text(self.card.model_dump_json(indent=1) + "\n", encoding="utf-8")

    def module(self, client: int | None = None) -> TrainedModel:
        """Return the server's model, or the personal model of `client`, as a torch module. Raise `UserError` if that model was not saved."""
        from trials.models.torch_modules import TrainedModel  # imports torch

        clients, tensors, what = self.clients or {}, self.server, "server model"
        n = min(map(len, clients.values()), default=0)
        if client is not None:
            what, saved = f"model of client {client}", 0 <= client < n
            tensors = {name: rows[client] for name, rows in clients.items()} if saved else None
        if tensors is None:
            raise UserError(f"{self.card.spec.algorithm} has no {what}; it keeps {n} clients' own")
        return TrainedModel(self.card.model(), tensors)


def _state_dict(model: Model, w: Tensor | None) -> Values | None:
    """Return CPU copies of weights and BatchNorm statistics by name, or None without weights. `w` is (d,) or (n, d)."""
    if w is None:
        return None
    w = w.detach().cpu()
    tensors = {name: view.clone() for name, view in model.views(w).items()}
    if model.statistics is not None:  # the server's, with which clients are evaluated, too
        for name, value in model.statistics.evaluating(w).items():
            tensors[name] = value.expand((*w.shape[:-1], *value.shape)).clone()
    return tensors


def read(folder: Path, model: str | None = None) -> SavedModel:
    """Return the models in a folder. Raise `UserError` if they cannot be read. For a model made by third-party code, the caller must
    name the code by `model`, as in `my.py:make`, and the code must be unchanged.
    """
    what, path = f"saved model {folder}", folder / CARD
    try:
        card = ModelCard.model_validate_json(plain(path, "saved model").read_bytes())
    except (OSError, ValidationError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"saved model {path} cannot be read: {reason}") from None
    for name in card.spec.scenario.model_code:
        if model is None:
            way = "check it, and name it, as in load_model(folder, model='my.py:make')"
            raise UserError(f"{what} needs third-party code, {name}: {way}")
        spec = card.spec.model_copy(update={"model": models.canonical(model)})
        card = card.model_copy(update={"spec": spec})
        plugins.refuse_changed({spec.model: card.code}, what)
    server, clients = _loaded(card, folder / SERVER), _loaded(card, folder / CLIENTS)
    if server is None and clients is None:
        raise UserError(f"{what}: both {SERVER} and {CLIENTS} are missing")
    return SavedModel(card, server, clients)


def _loaded(card: ModelCard, path: Path) -> Values | None:
    """Return the state dict in a file, or None if the file is missing. Raise `UserError` if the tensors do not fit the card's model."""
    if not path.exists():
        return None
    model, rows = card.model(), int(path.name == CLIENTS)
    shapes = {slot.name: slot.shape for slot in model.layout}
    shapes |= {name: tuple(value.shape) for name, value in model.network.tracked.items()}
    fits = False
    with suppress(Exception):  # any error of torch on a damaged file, of which no code runs
        tensors: Values = torch.load(path, weights_only=True, map_location="cpu")
        fits = shapes == {name: tuple(value.shape[rows:]) for name, value in tensors.items()}
    if not fits:
        raise UserError(f"saved model {path} is damaged, or of another model than {CARD} says")
    return tensors
