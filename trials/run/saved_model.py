"""The models that a run ends with, in a folder: plain state dicts, and a card that says what they are.

`model.pt` is the server's, `clients.pt` the clients' own, stacked, where the method has them. Each is a
state dict as `torch.save` writes it: names to tensors, which `torch.load(..., weights_only=True)` gives
back without this package.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, PositiveInt, ValidationError

from trials import heterogeneity, models
from trials.algorithm import Devices
from trials.common import plugins
from trials.common.device import usable
from trials.common.errors import UserError
from trials.common.files import plain
from trials.common.tensors import Tensor, torch
from trials.engine.federation import Federation
from trials.models.base import Model
from trials.models.network import Values
from trials.run.simulation import Simulation, ranked_scores
from trials.run.spec import TrialSpec
from trials.run.trial import load_dataset, partition_data
from trials.scoring import losses

if TYPE_CHECKING:
    from trials.models.torch_modules import TrainedModel

CARD, SERVER, CLIENTS = "model.json", "model.pt", "clients.pt"


class ModelCard(BaseModel):
    """What a saved model is: the run, what its task is ranked by, its samples' shape, and what the
    ranked model scored at its end. `weights` are those of the clients' scores where clients' models are ranked, else None.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    spec: TrialSpec
    shape: tuple[PositiveInt, ...]
    classes: PositiveInt
    metric: Literal["accuracy", "mse"]
    fingerprint: str
    weights: tuple[float, ...] | None
    scores: dict[str, float]
    code: str | None = None
    """The SHA-256 of the code that makes the model, where that is code of others."""


class SavedModel:
    """The final models of one run: the server's weights (d,) and the clients' own (n, d), either of
    which a method may not have, and the running statistics of BatchNorm that both are evaluated with.
    """

    def __init__(
        self,
        card: ModelCard,
        server: Tensor | None,
        clients: Tensor | None,
        statistics: Values | None = None,
    ) -> None:
        self.card, self.server, self.clients = card, server, clients
        self.statistics = statistics or {}

    @classmethod
    def of(cls, spec: TrialSpec, simulation: Simulation) -> SavedModel:
        """Return what a simulation has now, which is at its end."""
        fed, dataset = simulation.fed, simulation.fed.data.dataset
        scored, own = simulation.scored(), simulation.personal()
        ranked, weights = next(iter(scored.values())), None
        server = next((m for m in scored.values() if isinstance(m, torch.Tensor)), None)
        scores = _finite(ranked_scores(fed, ranked, own))
        if isinstance(ranked, Devices):
            weights, own = tuple(ranked.weights.tolist()), ranked.models
        card = ModelCard(
            spec=spec,
            shape=dataset.shape,
            classes=dataset.classes,
            metric=dataset.task.metric,
            fingerprint=fed.data.fingerprint,
            weights=weights,
            scores=scores,
            code=next(iter(plugins.hashes(*spec.scenario.model_code).values()), None),
        )
        server, own = (None if w is None else w.detach().cpu().clone() for w in (server, own))
        kept, like = fed.model.statistics, torch.empty(0, dtype=fed.dtype)
        return cls(card, server, own, None if kept is None else kept.evaluating(like))

    def files(self, folder: Path) -> None:
        """Write the files into a folder that is there, the card last: without it there is no model."""
        (folder / CARD).unlink(missing_ok=True)
        for name, w in ((SERVER, self.server), (CLIENTS, self.clients)):
            (folder / name).unlink(missing_ok=True)
            if w is not None:
                tensors, rows = self.model.views(w), w.shape[:-1]
                tensors |= {key: v.expand((*rows, *v.shape)) for key, v in self.statistics.items()}
                torch.save({key: value.clone() for key, value in tensors.items()}, folder / name)
        (folder / CARD).write_text(self.card.model_dump_json(indent=1) + "\n", encoding="utf-8")

    @property
    def model(self) -> Model:
        """Return the model that the weights are of."""
        card, s = self.card, self.card.spec.settings
        loss = losses.resolve(s.loss, card.metric)
        architecture, size = models.parse(card.spec.model), (card.shape, card.classes)
        model = Model(architecture, *size, loss, s.dtype == "bf16", s.buffers)
        if model.statistics is not None and self.statistics:
            model.statistics.server = dict(self.statistics)
        return model

    def module(self, client: int | None = None) -> TrainedModel:
        """Return the server's model, or a client's own; raise `UserError` where there is none."""
        from trials.models.torch_modules import TrainedModel  # a class of torch's

        name, n = self.card.spec.algorithm, 0 if self.clients is None else len(self.clients)
        clients = f"its clients' are 0 to {n - 1}" if n else "it keeps none of its clients"
        if client is None and self.server is None:
            raise UserError(f"{name} has no server model: {clients}")
        if client is not None and not 0 <= client < n:
            raise UserError(f"{name} has no model of client {client}: {clients}")
        w = self.server if client is None or self.clients is None else self.clients[client]
        assert w is not None
        return TrainedModel(self.model, w)

    def score(self, root: str | None = None, device: str = "cpu") -> dict[str, float]:
        """Return what the ranked model scores on the data of its run, partitioned anew; data files below `root`."""
        card, spec, where = self.card, self.card.spec, usable(device)
        data = partition_data(spec, load_dataset(spec, root))
        size = data.fingerprint, data.dataset.shape, data.dataset.classes
        if size != (card.fingerprint, card.shape, card.classes):
            raise UserError(
                f"the data or their partition are not the model's: fingerprint {data.fingerprint}, not "
                f"{card.fingerprint}, samples {size[1]} in {size[2]} classes"
            )
        torch.set_num_threads(1)
        level = heterogeneity.parse(spec.heterogeneity)
        fed = Federation(data, self.model, level, spec.settings, spec.seed, where)
        kept = None if self.clients is None else self.clients.to(where)
        if card.weights is not None and kept is not None:
            ranked: Tensor | Devices = Devices(kept, kept.new_tensor(card.weights))
        else:
            assert self.server is not None
            ranked = self.server.to(where)
        own = kept if kept is not None and len(kept) == fed.n else None
        return _finite(ranked_scores(fed, ranked, own))


def _finite(values: dict[str, float]) -> dict[str, float]:
    """Return those that JSON can hold."""
    return {key: value for key, value in values.items() if math.isfinite(value)}


def read_named(folder: Path, model: str | None) -> SavedModel:
    """Read for programs: code of a model of others runs only where the caller names it, `model`, and it is what the
    folder's model was made by.
    """
    card = _card(folder)
    for name in card.spec.scenario.model_code:
        if model is None:
            raise UserError(
                f"saved model {folder} needs code of others, {name}, which would run with all that "
                "you may do: read it, and name it, as in load_model(folder, model='my.py:make')"
            )
        spec = card.spec.model_copy(update={"model": models.canonical(model)})
        card = card.model_copy(update={"spec": spec})
    return read(folder, card)


def read(folder: Path, card: ModelCard | None = None) -> SavedModel:
    """Return the models in a folder, by its card or another one; raise `UserError` where it holds none that can be read,
    or the code of its model has changed.
    """
    card, what = card or _card(folder), f"saved model {folder}"
    codes = dict.fromkeys(card.spec.scenario.model_code, card.code)
    plugins.refuse_changed(codes, what, "train it anew")
    saved = SavedModel(card, None, None)
    if (folder / SERVER).exists():
        saved.server = _flat(saved, folder / SERVER, 0)
    if (folder / CLIENTS).exists():
        saved.clients = _flat(saved, folder / CLIENTS, 1)
    clients = 0 if saved.clients is None else len(saved.clients)
    if clients != len(card.weights) if card.weights is not None else saved.server is None:
        raise UserError(f"{what}: the models that its run ranked are missing")
    return saved


def _card(folder: Path) -> ModelCard:
    """Return the card of the models in a folder; raise `UserError` where it holds none that can be read."""
    try:
        text = plain(folder / CARD, "saved model").read_text(encoding="utf-8")
        return ModelCard.model_validate_json(text)
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"saved model {folder / CARD} cannot be read: {reason}") from None


def _flat(saved: SavedModel, path: Path, rows: int) -> Tensor:
    """Return the weights in a state dict's file, (d,), or (n, d) where tensors have `rows` 1, and take the running
    statistics out of it.
    """
    model, what = saved.model, f"saved model {path}"
    try:
        # Tensors and plain values only: nothing that a file says is run.
        tensors = torch.load(plain(path, "saved model"), weights_only=True, map_location="cpu")
    except UserError:
        raise
    except Exception:  # whatever torch's reader runs into
        raise UserError(
            f"{what} cannot be read: it is damaged, or holds more than tensors"
        ) from None
    kept = model.statistics.server if model.statistics else {}
    shapes = {slot.name: slot.shape for slot in model.layout} | {
        k: v.shape for k, v in kept.items()
    }
    try:
        fits = {name: tuple(tensor.shape[rows:]) for name, tensor in tensors.items()} == shapes
        w = torch.cat([tensors[slot.name].flatten(rows) for slot in model.layout], -1)
        fits = fits and all(map(torch.is_floating_point, tensors.values()))
    except (AttributeError, KeyError, IndexError, RuntimeError):
        fits = False
    if not fits:
        raise UserError(f"{what} does not hold the weights of the model in {CARD}")
    saved.statistics = {key: tensors[key][0] if rows else tensors[key] for key in kept}
    return w
