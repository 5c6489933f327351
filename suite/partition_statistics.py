"""What a data set looks like once a heterogeneity level has partitioned it, and which data files are there."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from suite.yaml_files import writing
from trials import datasets, heterogeneity
from trials.common.errors import UserError
from trials.datasets import DATASETS
from trials.federated_data import Array, FederatedData, partition
from trials.run.spec import TrialSpec

BINS = 10
"""A regression's targets are shown as labels: so many intervals of equal width."""


@dataclass(frozen=True, eq=False)
class Description:
    """A partitioned data set: n clients, C labels (or intervals of a regression's targets)."""

    spec: TrialSpec
    data: FederatedData

    @classmethod
    def of(cls, spec: TrialSpec, root: str | None) -> "Description":
        """Load and partition as a run does. Raise `UserError` when files are absent, or the level cannot be had."""
        settings, level = spec.settings, heterogeneity.parse(spec.heterogeneity)
        loaded = datasets.parse(spec.dataset).load(settings.data_seed, settings.clients, root)
        return cls(spec, partition(loaded, level, settings))

    @cached_property
    def label_counts(self) -> pd.DataFrame:
        """Training samples of each client, in rows, and label, in columns by its name, (n, C)."""
        y, classes = self.data.dataset.y, self.data.dataset.classes
        index, names = y, [str(label) for label in range(classes)]
        if y.dtype.kind not in "iu":
            edges = np.linspace(y.min(), y.max(), BINS + 1)
            index = np.digitize(y, edges[1:-1])
            names = [f"{low:.2g}..{high:.2g}" for low, high in pairwise(edges)]
        parts = _parts(index[self.data.train], self.data.offsets)
        counts = [np.bincount(part, minlength=len(names)) for part in parts]
        return pd.DataFrame(counts, columns=names)

    @cached_property
    def per_client(self) -> pd.DataFrame:
        """Numbers of each client, (n,), by name: `wasserstein` is the distance of its label distribution to that of all
        clients together (FedAgg, Fig. 2c). Reading: labels are points on the line, one apart; targets where they are.
        """
        from scipy.stats import wasserstein_distance  # takes every start half a second

        y = self.data.dataset.y[self.data.train]
        values, counts = np.unique(y, return_counts=True)
        parts, held = _parts(y, self.data.offsets), (self.label_counts > 0).sum(axis="columns")
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

    def document(self) -> dict[str, Any]:
        """Return the JSON of `suite data describe`."""
        return {
            "dataset": self.spec.dataset,
            "heterogeneity": self.spec.heterogeneity,
            "clients": self.data.clients,
            "seed": self.spec.settings.partition_seed,
            "fingerprint": self.data.fingerprint,
            "totals": self.totals,
            **self.summaries,
            "per_client": self.per_client.to_dict("list"),
            "label_names": [*self.label_counts],
            "label_counts": self.label_counts.to_numpy().tolist(),
        }

    @property
    def facts(self) -> dict[str, Any]:
        """Sizes, the partition's seed and its fingerprint, by name; what there is none of is left out."""
        unseen = {"clients not trained on": len(self.data.unseen_offsets) - 1}
        sizes = {name: n for name, n in (self.totals | unseen).items() if n}
        seed = self.spec.settings.partition_seed
        return {**sizes, "partition seed": seed, "fingerprint": self.data.fingerprint}

    def write(self, path: Path) -> None:
        """Write who holds what, as arrays of an .npz file: the ids `client_K` of each client's training samples
        (`unseen_K` of those that take no part in training), `val` and `test`, and the labels `y` (N,) of all samples.
        Raise `UserError` for another end of the name, and where a file is there.
        """
        if path.suffix != ".npz":
            raise UserError(f"--output {path}: must end with .npz")
        data = self.data
        arrays: dict[str, Any] = {"fingerprint": np.array(data.fingerprint)}
        arrays |= {"val": data.val, "test": data.test, "y": data.dataset.y}
        arrays |= {f"client_{k}": ids for k, ids in enumerate(_parts(data.train, data.offsets))}
        unseen = _parts(data.unseen_train, data.unseen_offsets)
        arrays |= {f"unseen_{k}": ids for k, ids in enumerate(unseen)}
        with writing(path), path.open("xb") as file:
            np.savez_compressed(file, **arrays)


def check(wanted: Sequence[str], root: str | None) -> list[dict[str, Any]]:
    """Return the files of data sets and how they are: one object a file, or one a data set without files."""
    items: list[dict[str, Any]] = []
    for text in wanted:
        reports = datasets.parse(text).files(root)
        items += [{"dataset": text, **report} for report in reports]
        if not reports:
            items.append({"dataset": text, "name": None, "found": None, "sound": True})
    return items


def states(files: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return by data set whether its files are here, and which one is not as it should be."""
    words = {file["dataset"]: "ready" for file in files}
    for file in files:
        name, path = file["dataset"], file.get("path")
        if words[name] == "ready" and not file["sound"]:  # the first that is not tells enough
            wrong = f"wrong: {path} has {file['found']}, expected {file.get('expected')}"
            words[name] = wrong if file["found"] else f"absent: {path}"
    return words


def known() -> list[str]:
    """Return the names of all data sets that need no argument; the others are generated and have no files."""
    return [
        name
        for name, cls in DATASETS.items()
        if not any(field.default is MISSING for field in fields(cls))  # type: ignore[arg-type]
    ]


def _parts(values: Array, offsets: Array) -> list[Array]:
    return [values[first:end] for first, end in pairwise(offsets)]
