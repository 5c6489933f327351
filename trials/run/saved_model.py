"""The models that a run ends with, in a folder: plain state dicts, and a card that says what they are.

`model.pt` is the server's, `clients.pt` the clients' own, stacked, where the method has them. Each is a
state dict as `torch.save` writes it: names to tensors, which `torch.load(..., weights_only=True)` gives
back without this package.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

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
from trials.models.running_statistics import Values
from trials.run import evaluation
from trials.run.spec import TrialSpec
from trials.run.trial import fit_model, load_dataset, partition_data
from trials.scoring import losses

if TYPE_CHECKING:
    from trials.models.trained_model import TrainedModel
    from trials.run.simulation import Simulation

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
        """What a simulation has now, which is at its end."""
        fed = simulation.fed
        scored = simulation.algorithm.scored(simulation.state, fed)
        ranked = next(iter(scored.values()))
        server = next((m for m in scored.values() if isinstance(m, torch.Tensor)), None)
        weights, own = None, simulation.algorithm.personal(simulation.state, fed)
        scores = _finite(evaluation.ranked(fed, ranked, own))
        if isinstance(ranked, Devices):
            weights, own = tuple(ranked.weights.tolist()), ranked.models
        dataset = fed.data.dataset
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

    @property
    def content(self) -> dict[str, Any]:
        """Tensors and plain values, as a checkpoint takes them."""
        return {
            "card": self.card.model_dump_json(),
            "server": self.server,
            "clients": self.clients,
            "statistics": self.statistics,
        }

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> SavedModel:
        """Read `content`."""
        card = ModelCard.model_validate_json(content["card"])
        return cls(card, content["server"], content["clients"], content["statistics"])

    def files(self, folder: Path) -> None:
        """Write the files into a folder that is there, the card last: without it there is no model."""
        (folder / CARD).unlink(missing_ok=True)
        for name, w in ((SERVER, self.server), (CLIENTS, self.clients)):
            if w is None:
                (folder / name).unlink(missing_ok=True)
            else:
                views = self.model.views(w)
                rows = w.shape[:-1]
                views |= {key: v.expand((*rows, *v.shape)) for key, v in self.statistics.items()}
                torch.save({key: value.clone() for key, value in views.items()}, folder / name)
        (folder / CARD).write_text(self.card.model_dump_json(indent=1) + "\n", encoding="utf-8")

    @property
    def model(self) -> Model:
        """The model that the weights are of."""
        card, spec = self.card, self.card.spec
        loss = losses.resolve(spec.settings.loss, card.metric)
        mixed = spec.settings.dtype == "bf16"
        architecture, buffers = models.parse(spec.model), spec.settings.buffers
        model = Model(architecture, card.shape, card.classes, loss, mixed, buffers)
        return self._with_statistics(model)

    def _with_statistics(self, model: Model) -> Model:
        if model.statistics is not None and self.statistics:
            model.statistics.server = dict(self.statistics)
        return model

    def module(self, client: int | None = None) -> TrainedModel:
        """The server's model, or a client's own; raises `UserError` where there is none."""
        from trials.models.trained_model import TrainedModel  # a class of torch's

        if client is None:
            if self.server is None:
                raise UserError(
                    f"{self.card.spec.algorithm} has no server model: name one of its clients, "
                    f"0 to {0 if self.clients is None else len(self.clients) - 1}"
                )
            return TrainedModel(self.model, self.server)
        if self.clients is None:
            raise UserError(f"{self.card.spec.algorithm} keeps no models of its clients")
        if not 0 <= client < len(self.clients):
            rule = f"must be a client of 0 to {len(self.clients) - 1}"
            raise UserError(f"client is {client}, but {rule}")
        return TrainedModel(self.model, self.clients[client])

    def score(self, root: str | None = None, device: str = "cpu") -> dict[str, float]:
        """What the ranked model scores on the data of its run, partitioned anew; data files below `root`."""
        spec, where = self.card.spec, usable(device)
        data = partition_data(spec, load_dataset(spec, root))
        if data.fingerprint != self.card.fingerprint:
            raise UserError(
                f"the data or their partition are not the model's: fingerprint {data.fingerprint}, "
                f"not {self.card.fingerprint}"
            )
        if (data.dataset.shape, data.dataset.classes) != (self.card.shape, self.card.classes):
            raise UserError(
                f"the data are not the model's: samples of {data.dataset.shape} in "
                f"{data.dataset.classes} classes, not {self.card.shape} in {self.card.classes}"
            )
        torch.set_num_threads(1)
        level = heterogeneity.parse(spec.heterogeneity)
        model = self._with_statistics(fit_model(spec, data.dataset))
        fed = Federation(data, model, level, spec.settings, spec.seed, where)
        kept = None if self.clients is None else self.clients.to(where)
        own = kept if kept is not None and len(kept) == fed.n else None
        if self.card.weights is None:
            assert self.server is not None
            return _finite(evaluation.ranked(fed, self.server.to(where), own))
        assert kept is not None
        ranked = Devices(kept, kept.new_tensor(self.card.weights))
        return _finite(evaluation.ranked(fed, ranked, own))


def read_card(folder: Path) -> ModelCard:
    """The card of the models in a folder; raises `UserError` where it holds none that can be read."""
    try:
        text = plain(folder / CARD, "saved model").read_text(encoding="utf-8")
        return ModelCard.model_validate_json(text)
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"saved model {folder / CARD} cannot be read: {reason}") from None


def read_named(folder: Path, model: str | None) -> SavedModel:
    """`read` for programs: code of a model of others runs only where the caller names it, `model`, and it is what the
    folder's model was made by.
    """
    card = read_card(folder)
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
    """The models in a folder, by its card or another one; raises `UserError` where it holds none that can be read,
    or the code of its model has changed.
    """
    card = card or read_card(folder)
    plugins.refuse_changed(
        dict.fromkeys(card.spec.scenario.model_code, card.code),
        f"saved model {folder}",
        "train it anew",
    )
    saved = SavedModel(card, None, None)
    for name, many in ((SERVER, False), (CLIENTS, True)):
        if (folder / name).exists():
            w, saved.statistics = _flat(saved.model, folder / name, many)
            saved.server, saved.clients = (saved.server, w) if many else (w, saved.clients)
    needed = SERVER if card.weights is None else CLIENTS
    if (saved.server if card.weights is None else saved.clients) is None:
        raise UserError(f"saved model {folder}: {needed} is missing")
    if card.weights is not None and saved.clients is not None:
        weights, clients = len(card.weights), len(saved.clients)
        if weights != clients:
            raise UserError(
                f"saved model {folder}: {clients} clients, but {weights} weights of them"
            )
    return saved


def _flat(model: Model, path: Path, many: bool) -> tuple[Tensor, Values]:
    """The weights in a state dict's file, (d,) or (n, d), and the running statistics that all have."""
    try:
        plain(path, "saved model")
        # Tensors and plain values only: nothing that a file says is run.
        found = torch.load(path, weights_only=True, map_location="cpu")
    except UserError:
        raise
    except Exception:  # whatever torch's reader runs into
        raise UserError(
            f"saved model {path} cannot be read: it is damaged, or holds more than tensors"
        ) from None
    kept = model.statistics
    shapes: dict[str, tuple[int, ...]] = {slot.name: slot.shape for slot in model.layout}
    shapes |= {} if kept is None else {key: (*v.shape,) for key, v in kept.server.items()}
    fits = isinstance(found, dict) and found.keys() == shapes.keys()
    fits = fits and all(
        isinstance(w := found[key], torch.Tensor)
        and w.is_floating_point()
        and w.shape[int(many) :] == shape
        for key, shape in shapes.items()
    )
    if not fits or (many and len({len(w) for w in found.values()}) > 1):
        raise UserError(f"saved model {path} does not hold the weights of the model in {CARD}")
    w = torch.cat([found[slot.name].flatten(int(many)) for slot in model.layout], -1)
    names = [] if kept is None else [*kept.server]
    return w, {key: found[key][0] if many else found[key] for key in names}


def _finite(values: dict[str, float]) -> dict[str, float]:
    """Those that JSON can hold."""
    return {key: value for key, value in values.items() if math.isfinite(value)}
