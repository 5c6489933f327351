"""What a data set looks like once a heterogeneity level has partitioned it, and which data files are there."""

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from trials import datasets, heterogeneity
from trials.common.errors import UserError
from trials.datasets import DATASETS
from trials.datasets.base import Dataset
from trials.federated_data import Array, FederatedData, partition
from trials.settings import Settings

BINS = 10
"""A regression's targets are shown as labels: so many intervals of equal width."""


@dataclass(frozen=True, eq=False)
class Description:
    """A partitioned data set: n clients, C labels (or intervals of a regression's targets)."""

    dataset: str
    heterogeneity: str
    seed: int
    data: FederatedData

    @cached_property
    def labels(self) -> list[str]:
        """Names of the labels, (C,)."""
        return _labels(self.data.dataset)[1]

    @cached_property
    def counts(self) -> Array:
        """Training samples of each client and label, (n, C)."""
        index, names = _labels(self.data.dataset)
        parts = _parts(index[self.data.train], self.data.offsets)
        return np.array([np.bincount(part, minlength=len(names)) for part in parts])

    @cached_property
    def per_client(self) -> pd.DataFrame:
        """Numbers of each client, (n,), by name: `wasserstein` is the distance of its label distribution to that of all
        clients together (FedAgg, Fig. 2c). Reading: labels are points on the line, one apart; targets where they are.
        """
        from scipy.stats import wasserstein_distance  # takes every start half a second

        y = self.data.dataset.y[self.data.train]
        values, counts = np.unique(y, return_counts=True)
        parts, held = _parts(y, self.data.offsets), (self.counts > 0).sum(1)
        apart = [wasserstein_distance(part, values, None, counts) for part in parts]
        return pd.DataFrame({"samples": self.data.sizes, "labels": held, "wasserstein": apart})

    @property
    def summaries(self) -> dict[str, dict[str, float]]:
        """Minimum, median, mean and maximum over clients."""
        return self.per_client.agg(["min", "median", "mean", "max"]).to_dict()  # type: ignore[return-value]

    @property
    def totals(self) -> dict[str, int]:
        """Samples of each split; of the training samples, those that no client and that several clients hold."""
        data, times = self.data, np.unique(self.data.train, return_counts=True)[1]
        splits = {"train": len(data.train), "val": len(data.val), "test": len(data.test)}
        unused = len(data.dataset.y) - len(data.val) - len(data.test) - len(times)
        return {**splits, "unused": unused, "shared": int((times > 1).sum())}

    @property
    def title(self) -> str:
        """The head of the table and the picture: data set, level, clients."""
        return f"{self.dataset} · {self.heterogeneity} · {self.data.clients} clients"

    def document(self) -> dict[str, Any]:
        """Return the JSON of `suite data describe`."""
        return {
            "dataset": self.dataset,
            "heterogeneity": self.heterogeneity,
            "clients": self.data.clients,
            "seed": self.seed,
            "fingerprint": self.data.fingerprint,
            "totals": self.totals,
            **self.summaries,
            "per_client": self.per_client.to_dict("list"),
            "label_names": self.labels,
            "label_counts": self.counts.tolist(),
        }

    def exported(self) -> dict[str, Any]:
        """Return who holds what, as arrays of an .npz file: the ids `client_K` of each client's training samples
        (`unseen_K` of those that take no part in training), `val` and `test`, and the labels `y` (N,) of all samples.
        """
        data = self.data
        arrays = {"val": data.val, "test": data.test, "y": data.dataset.y}
        arrays |= {f"client_{k}": ids for k, ids in enumerate(_parts(data.train, data.offsets))}
        unseen = _parts(data.unseen_train, data.unseen_offsets)
        arrays |= {f"unseen_{k}": ids for k, ids in enumerate(unseen)}
        return {**arrays, "fingerprint": np.array(data.fingerprint)}


def describe(
    dataset: str, level: str, clients: int | None, seed: int, root: str | None, **more: Any
) -> Description:
    """Load and partition as a run with these settings would; `seed` is the partition's, `more` are others.

    Raises `UserError` when the names are wrong, files are absent, or the level cannot be had.
    """
    parsed = heterogeneity.parse(level)
    if clients is not None and not 1 <= clients < 2**63:
        raise UserError(f"--clients {clients}: must be at least 1, and below 2^63")
    settings = Settings(clients=clients, partition_seed=seed, **more)
    loaded = datasets.parse(dataset).load(settings.data_seed, clients, root)
    partitioned = partition(loaded, parsed, settings)
    return Description(datasets.canonical(dataset), parsed.name, seed, partitioned)


def check(wanted: Sequence[str], root: str | None) -> list[dict[str, Any]]:
    """Return the files of data sets and how they are: one object a file, or one a data set without files."""
    items: list[dict[str, Any]] = []
    for text in wanted:
        reports = datasets.prepare(text, root)
        for report in reports:
            more = {"path": str(report.path), "sound": report.sound}
            items.append({"dataset": text, **vars(report), **more})
        if not reports:
            items.append({"dataset": text, "name": None, "found": None, "sound": True})
    return items


def fetch(wanted: Sequence[str], root: str | None) -> None:
    """Get what is absent. Raises one `UserError` with every data set that cannot be had."""
    faults = []
    for text in wanted:
        try:
            datasets.parse(text).fetch(root)
        except UserError as error:
            faults.append(str(error))
    if faults:
        raise UserError("\n".join(faults))


def known() -> list[str]:
    """Return the names of all data sets that need no argument; the others are generated and have no files."""
    return [
        name
        for name, cls in DATASETS.items()
        if not any(field.default is MISSING for field in fields(cls))  # type: ignore[arg-type]
    ]


def _parts(values: Array, offsets: Array) -> list[Array]:
    return [values[first:end] for first, end in pairwise(offsets)]


def _labels(dataset: Dataset) -> tuple[Array, list[str]]:
    """Return the label of each sample (N,), and the names of labels (C,)."""
    y = dataset.y
    if y.dtype.kind in "iu":
        return y, [str(label) for label in range(dataset.classes)]
    edges = np.linspace(y.min(), y.max(), BINS + 1)
    inside = np.clip(np.searchsorted(edges, y, side="right") - 1, 0, BINS - 1)
    return inside, [f"{a:.2g}..{b:.2g}" for a, b in pairwise(edges)]
