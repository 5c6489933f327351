"""What a data set looks like once a heterogeneity level has partitioned it, and which data files are there."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from suite.yaml_files import refuse_foreign, writing
from trials import datasets, heterogeneity
from trials.common.errors import UserError
from trials.datasets import DATASETS
from trials.datasets.base import Dataset
from trials.federated_data import Array, FederatedData, partition
from trials.run.spec import TrialSpec

BINS = 10
"""A regression's targets are shown as labels: so many intervals of equal width."""


@dataclass(frozen=True, eq=False)
class Description:
    """A partitioned data set: n clients, C labels (or intervals of a regression's targets)."""

    dataset: str
    heterogeneity: str
    seed: int
    data: FederatedData

    @classmethod
    def of(cls, spec: TrialSpec, root: str | None) -> "Description":
        """Load and partition as a run does. Raise `UserError` when files are absent, or the level cannot be had."""
        settings, level = spec.settings, heterogeneity.parse(spec.heterogeneity)
        loaded = datasets.parse(spec.dataset).load(settings.data_seed, settings.clients, root)
        data = partition(loaded, level, settings)
        return cls(spec.dataset, spec.heterogeneity, settings.partition_seed, data)

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

    @property
    def facts(self) -> dict[str, Any]:
        """Sizes, the partition's seed and its fingerprint, by name; what is none of is left out but for the splits."""
        shown = {
            name: n for name, n in self.totals.items() if n or name in ("train", "val", "test")
        }
        if unseen := len(self.data.unseen_offsets) - 1:
            shown["clients not trained on"] = unseen
        return {**shown, "partition seed": self.seed, "fingerprint": self.data.fingerprint}

    def write(self, path: Path) -> None:
        """Write a heat map (.png), or which samples each client holds (.npz). Raise `UserError` for another end of the
        name, and where a file is there that the suite did not write.
        """
        from reports import partition
        from reports.charts.drawing import SIGN

        out = io.BytesIO()
        if path.suffix == ".png":
            out.write(partition.png(partition.figure(self.counts, self.labels, self.title)))
        elif path.suffix == ".npz":
            np.savez_compressed(out, **self.exported())
        else:
            raise UserError(f"--output {path}: must end with .png or .npz")
        refuse_foreign([path], SIGN)
        with writing(path):
            path.write_bytes(out.getvalue())

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


def states(files: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return by data set whether its files are here, and which one is not as it should be."""
    words: dict[str, str] = {}
    for file in files:
        name, path = file["dataset"], file.get("path")
        if file["found"] is not None and not file["sound"]:
            words[name] = f"wrong: {path} has {file['found']}, expected {file['expected']}"
        elif file["name"] is not None and file["found"] is None:
            words.setdefault(name, f"absent: {path}")
    return {file["dataset"]: words.get(file["dataset"], "ready") for file in files}


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
