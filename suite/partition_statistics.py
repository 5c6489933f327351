"""What a data set looks like once a heterogeneity level has partitioned it, and which data files are there."""

from collections.abc import Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from suite.yaml_files import writing
from trials import datasets, heterogeneity
from trials.common.errors import UserError
from trials.datasets import DATASETS
from trials.federated_data import FederatedData, partition
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
        edges, names = np.arange(classes + 1.0), [str(label) for label in range(classes)]
        if y.dtype.kind not in "iu":
            edges = np.linspace(y.min(), y.max(), BINS + 1)
            names = [f"from {edge:.2g}" for edge in edges[:-1]]
        parts = np.split(y[self.data.train], self.data.offsets[1:-1])
        return pd.DataFrame([np.histogram(part, edges)[0] for part in parts], columns=names)

    @cached_property
    def per_client(self) -> pd.DataFrame:
        """Numbers of each client, (n,), by name: `wasserstein` is the distance of its label distribution to that of all
        clients together (FedAgg, Fig. 2c). Reading: labels are points on the line, one apart; targets where they are.
        """
        from scipy.stats import wasserstein_distance  # takes every start half a second

        y = self.data.dataset.y[self.data.train]
        values, counts = np.unique(y, return_counts=True)
        parts = np.split(y, self.data.offsets[1:-1])
        apart = [wasserstein_distance(part, values, None, counts) for part in parts]
        held = (self.label_counts > 0).sum(axis="columns")
        return pd.DataFrame({"samples": self.data.sizes, "labels": held, "wasserstein": apart})

    def document(self) -> dict[str, Any]:
        """Return the JSON of `suite data describe`. Of the training samples, `unused` ones no client holds, `shared` ones several."""
        data, times = self.data, np.unique(self.data.train, return_counts=True)[1]
        sizes = {"train": len(data.train), "val": len(data.val), "test": len(data.test)}
        unused = len(data.dataset.y) - len(data.val) - len(data.test) - len(times)
        return {
            "dataset": self.spec.dataset,
            "heterogeneity": self.spec.heterogeneity,
            "clients": data.clients,
            "seed": self.spec.settings.partition_seed,
            "fingerprint": data.fingerprint,
            "totals": sizes | {"unused": unused, "shared": int((times > 1).sum())},
            **self.per_client.agg(["min", "median", "mean", "max"]).to_dict(),
            "per_client": self.per_client.to_dict("list"),
            "label_names": [*self.label_counts],
            "label_counts": self.label_counts.to_numpy().tolist(),
        }

    def write(self, path: Path) -> None:
        """Write who holds what, as arrays of an .npz file: the ids `client_K` of each client's training samples
        (`unseen_K` of those that take no part in training), `val` and `test`, and the labels `y` (N,) of all samples.
        Raise `UserError` for another end of the name, and where a file is there.
        """
        if path.suffix != ".npz":
            raise UserError(f"--output {path}: must end with .npz")
        data = self.data
        arrays = {"val": data.val, "test": data.test, "y": data.dataset.y}
        for k, ids in enumerate(np.split(data.train, data.offsets[1:-1])):
            arrays[f"client_{k}"] = ids
        for k in range(len(data.unseen_offsets) - 1):
            arrays[f"unseen_{k}"] = data.unseen_train[slice(*data.unseen_offsets[k : k + 2])]
        with writing(path), path.open("xb") as file:
            np.savez_compressed(file, fingerprint=np.array(data.fingerprint), **arrays)


def check(wanted: Sequence[str], root: str | None) -> list[dict[str, Any]]:
    """Return the files of data sets and how they are, one object a file, or one a data set without files; without a name
    of all that need no argument.
    """
    for name, cls in DATASETS.items() if not wanted else ():
        if all(field.default is not MISSING for field in fields(cls)):  # type: ignore[arg-type]
            wanted = [*wanted, name]
    absent = {"name": None, "found": None, "sound": True}
    return [
        {"dataset": text, **report}
        for text in wanted
        for report in datasets.parse(text).files(root) or [absent]
    ]
