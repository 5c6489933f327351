"""A trial as a row of the bank: what was run, on which federation, and what came out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from suite.studies.replicates import Replicate
from suite.tracking.schema.forms import dumps
from trials import datasets
from trials.federated_data import FederatedData
from trials.models.base import Model
from trials.run.outcome import Status, lost
from trials.run.spec import TrialSpec
from trials.run.trial_id import TrialId
from trials.scoring.metrics import COSTS, score

History = Sequence[Mapping[str, float]]


@dataclass(frozen=True)
class Traits:
    """Measured traits of a federation: training samples, clients, features of a sample, classes (outputs of a
    regression), weights d of the model.

    `label_skew` is the mean over clients k of half of sum_c |p_k(c) - p(c)|, between the shares of labels c in the
    client's and in all training samples: 0 under `iid` with many samples, near 1 - 1 / classes where each client
    has one label; None for a regression. `size_spread` is the standard deviation over clients of their numbers of
    training samples, divided by the mean.
    """

    samples: int
    clients: int
    features: int
    classes: int
    weights: int
    label_skew: float | None
    size_spread: float

    @classmethod
    def of(cls, data: FederatedData, model: Model) -> Self:
        """Measure them."""
        sizes = data.sizes
        return cls(
            samples=len(data.train),
            clients=data.clients,
            features=math.prod(data.dataset.shape),
            classes=data.dataset.classes,
            weights=model.d,
            label_skew=_label_skew(data),
            size_spread=float(sizes.std() / sizes.mean()),
        )


def label_skew(counts: npt.NDArray[Any]) -> float:
    """Of samples by client and label (clients, labels): the mean over clients that have any of the total variation
    between their labels' shares and those of all together.
    """
    held = counts[counts.sum(1) > 0]
    shares = held / held.sum(1, keepdims=True)
    return float(np.abs(shares - counts.sum(0) / counts.sum()).sum(1).mean() / 2)


def _label_skew(data: FederatedData) -> float | None:
    y, classes = data.dataset.y, data.dataset.classes
    if y.dtype.kind not in "iu":
        return None
    owner = np.repeat(np.arange(data.clients), data.sizes)
    counts = np.bincount(owner * classes + y[data.train], minlength=data.clients * classes)
    return label_skew(counts.reshape(-1, classes))


def row(
    spec: TrialSpec,
    params: Mapping[str, Any],
    traits: Traits | None,
    study: str,
    trial_id: str,
    origin: str,
    source: str | None,
    history: History,
    status: Status,
    not_finite: Sequence[str],
    val_score: float | None,
    seconds: float,
    versions: Mapping[str, str],
) -> dict[str, Any]:
    """A trial's row. `params` is the configuration as the search chose it, `history` has its evaluations, the last
    with the counters of the whole trial; `traits` is None where the data are not at hand.
    """
    settings, metric = spec.settings, spec.task.metric
    parsed = TrialId.parse(trial_id)
    replicate = Replicate.parse(parsed.replicate)
    val, test = f"val_{metric}", f"test_{metric}"
    curve = [(e["round"], e.get(val, math.nan), e.get(test, math.nan)) for e in history]
    seen = [point for point in curve if math.isfinite(point[1]) or math.isfinite(point[2])]
    last = history[-1] if history else {}
    scored = score(history, test, lost(test, status, not_finite)) if history else math.nan
    return {
        "study": study,
        "trial_id": trial_id,
        "kind": str(parsed.kind),
        "origin": origin,
        "source": source,
        "algorithm": spec.algorithm,
        **spec.scenario.names(),
        "family": datasets.family(spec.dataset),
        "metric": metric,
        "rounds": settings.rounds,
        "participation": settings.participation,
        "batch_size": None if settings.batch_size == "full" else settings.batch_size,
        "local_epochs": settings.local_epochs,
        "settings": dumps(settings.model_dump(mode="json", exclude_defaults=True)),
        "clients": settings.clients,
        **({} if traits is None else asdict(traits)),
        "configuration": dumps(params),
        "seed": spec.seed,
        "tuning": replicate.tuning,
        "partition": replicate.partition,
        "split": replicate.split,
        "status": str(status),
        "val_score": val_score,
        "test_score": scored if math.isfinite(scored) else None,
        "evaluations": [int(point[0]) for point in seen],
        "val_curve": [point[1] for point in seen],
        "test_curve": [point[2] for point in seen],
        "client_steps": int(last.get("client_steps", 0)),
        "sample_gradients": int(last.get("sample_gradients", 0)),
        "bytes": int(sum(last.get(name, 0) for name in COSTS["bytes"])),
        "seconds": seconds,
        "version": versions["version"],
        "commit": versions.get("git_commit"),
    }
