"""Statistics of a data set whose samples a heterogeneity level has distributed over clients."""

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
"""The number of intervals of equal width into which the targets of a regression are counted, in the place of labels."""


def partitioned(spec: TrialSpec, root: str | None) -> FederatedData:
    """Return a trial's partitioned data set. Raise `UserError` if files are missing, or the level does not suit the data."""
    settings, level = spec.settings, heterogeneity.parse(spec.heterogeneity)
    loaded = datasets.parse(spec.dataset).load(settings.data_seed, settings.clients, root)
    return partition(loaded, level, settings)


def described(spec: TrialSpec, data: FederatedData) -> dict[str, Any]:
    """Return the output of `suite data describe`: statistics of each client, and the counts (clients, C) of labels.

    `unused` counts training samples that no client holds, and `shared` counts samples that several clients hold.
    `wasserstein` is the distance between one client's labels (0 to C - 1) and all clients' labels (FedAgg, Fig. 2c). A
    regression has targets instead of labels, and counts them in 10 intervals of equal width.
    """
    from scipy.stats import wasserstein_distance  # takes half a second to load

    y, classes = data.dataset.y, data.dataset.classes
    edges, names = np.arange(classes + 1.0), [*map(str, range(classes))]
    if y.dtype.kind not in "iu":
        edges = np.linspace(y.min(), y.max(), BINS + 1)
        names = [*map("from {:.2g}".format, edges[:-1])]
    values, counts = np.unique(y[data.train], return_counts=True)
    label_counts, rows = [], []
    for part in np.split(y[data.train], data.offsets[1:-1]):
        label_counts.append(np.histogram(part, edges)[0])
        distance = wasserstein_distance(part, values, None, counts)
        rows.append((len(part), np.count_nonzero(label_counts[-1]), distance))
    per_client = pd.DataFrame(rows, columns=["samples", "labels", "wasserstein"])
    summaries: Any = per_client.agg(["min", "median", "mean", "max"]).to_dict()
    # Clients may share samples, so count the holders of each sample that has any.
    holders = np.unique(data.train, return_counts=True)[1]
    unused = len(y) - len(data.val) - len(data.test) - len(holders)
    sizes = {"train": len(data.train), "val": len(data.val), "test": len(data.test)}
    return {
        "dataset": spec.dataset,
        "heterogeneity": spec.heterogeneity,
        "clients": data.clients,
        "clients_not_trained_on": len(data.unseen_offsets) - 1,
        "seed": spec.settings.partition_seed,
        "fingerprint": data.fingerprint,
        "totals": sizes | {"unused": unused, "shared": int((holders > 1).sum())},
        **summaries,
        "per_client": per_client.to_dict("list"),
        "label_names": names,
        "label_counts": np.array(label_counts).tolist(),
    }


def write(data: FederatedData, path: Path) -> None:
    """Write the partition to a new .npz file. `client_K` has the sample indices of a training client, `unseen_K` those of a
    client outside training. `val` and `test` have the other splits' indices, and `y` (N,) all labels.

    Raise `UserError` if the path does not end with .npz, or the file exists already.
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
