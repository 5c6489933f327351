"""What a data set looks like once a heterogeneity level has partitioned it."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from suite.yaml_files import writing
from trials import datasets, heterogeneity
from trials.common.errors import UserError
from trials.federated_data import FederatedData, partition
from trials.run.spec import TrialSpec

BINS = 10
"""A regression's targets are shown as labels: so many intervals of equal width."""


def partitioned(spec: TrialSpec, root: str | None) -> FederatedData:
    """Load and partition as a run does. Raise `UserError` when files are absent, or the level does not suit the data."""
    settings, level = spec.settings, heterogeneity.parse(spec.heterogeneity)
    loaded = datasets.parse(spec.dataset).load(settings.data_seed, settings.clients, root)
    return partition(loaded, level, settings)


def described(spec: TrialSpec, data: FederatedData) -> dict[str, Any]:
    """Return the JSON of `suite data describe`: statistics of each client, and counts (n, C) of labels or intervals of targets.

    `unused` counts training samples that no client holds, `shared` those that several hold. `wasserstein` is the distance
    between a client's labels and those of all clients (FedAgg, Fig. 2c). Reading: labels are the points 0, 1, 2, ... of
    a line; targets are points themselves.
    """
    from scipy.stats import wasserstein_distance  # takes every start half a second

    y, classes = data.dataset.y, data.dataset.classes
    edges, names = np.arange(classes + 1.0), [*map(str, range(classes))]
    if y.dtype.kind not in "iu":
        edges = np.linspace(y.min(), y.max(), BINS + 1)
        names = [*map("from {:.2g}".format, edges[:-1])]
    values, counts = np.unique(y[data.train], return_counts=True)
    held, rows = [], []
    for part in np.split(y[data.train], data.offsets[1:-1]):
        held.append(np.histogram(part, edges)[0])
        distance = wasserstein_distance(part, values, None, counts)
        rows.append((len(part), np.count_nonzero(held[-1]), distance))
    per_client = pd.DataFrame(rows, columns=["samples", "labels", "wasserstein"])
    summaries: Any = per_client.agg(["min", "median", "mean", "max"]).to_dict()
    # Clients may share samples: how many have each that somebody has.
    times = np.unique(data.train, return_counts=True)[1]
    unused = len(y) - len(data.val) - len(data.test) - len(times)
    sizes = {"train": len(data.train), "val": len(data.val), "test": len(data.test)}
    return {
        "dataset": spec.dataset,
        "heterogeneity": spec.heterogeneity,
        "clients": data.clients,
        "clients_not_trained_on": len(data.unseen_offsets) - 1,
        "seed": spec.settings.partition_seed,
        "fingerprint": data.fingerprint,
        "totals": sizes | {"unused": unused, "shared": int((times > 1).sum())},
        **summaries,
        "per_client": per_client.to_dict("list"),
        "label_names": names,
        "label_counts": np.array(held).tolist(),
    }


def write(data: FederatedData, path: Path) -> None:
    """Write who holds what, as arrays of an .npz file: the ids `client_K` of each client's training samples (`unseen_K`
    of those that take no part in training), `val` and `test`, and the labels `y` (N,) of all samples.

    Raise `UserError` for a name that does not end with .npz, and where there is such a file.
    """
    if path.suffix != ".npz":
        raise UserError(f"--output {path}: must end with .npz")
    arrays: dict[str, Any] = {"val": data.val, "test": data.test, "y": data.dataset.y}
    for k, ids in enumerate(np.split(data.train, data.offsets[1:-1])):
        arrays[f"client_{k}"] = ids
    for k in range(len(data.unseen_offsets) - 1):
        arrays[f"unseen_{k}"] = data.unseen_train[slice(*data.unseen_offsets[k : k + 2])]
    with writing(path), path.open("xb") as file:
        np.savez_compressed(file, fingerprint=np.array(data.fingerprint), **arrays)
