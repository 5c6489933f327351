"""A data set split into training, validation and test samples, with the training samples partitioned to clients."""

from __future__ import annotations

import warnings
import zlib
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from trials.common import randomness
from trials.common.errors import UserError
from trials.common.plugins import hook
from trials.common.tensors import Tensor, torch
from trials.datasets.base import Dataset, drawn_of_each
from trials.heterogeneity import Heterogeneity
from trials.settings import Settings

Array = npt.NDArray[Any]
DEFAULT_CLIENTS = 20
UNREACHED = "reaches nobody: "
"""The prefix of each line of `FederatedData.unreached`, by which reports find these warnings."""


class Samples:
    """The inputs x of a data set on a device. `samples[ids]` has the shape (..., *shape) for ids of shape (...)."""

    def __init__(self, x: Array, device: torch.device, dtype: torch.dtype) -> None:
        self.device, self.dtype = device, dtype
        self.x = torch.from_numpy(x).to(device, dtype).contiguous()

    def __getitem__(self, ids: Tensor | Array) -> Tensor:
        ids = torch.as_tensor(ids)
        return self.x.index_select(0, ids.flatten()).unflatten(0, ids.shape)


@lru_cache(maxsize=1)  # one data set and device at a time
def _tensors(dataset: Dataset, device: torch.device, dtype: torch.dtype) -> tuple[Samples, Tensor]:
    """Return the data set's inputs and targets as contiguous tensors on a device. Rounding in a compiled loop depends on strides."""
    with warnings.catch_warnings():
        # Processes share arrays in read-only memory; nothing here writes to the tensors.
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        x, y = Samples(dataset.x, device, dtype), torch.from_numpy(dataset.y)
    return x, y.to(device, dtype if y.is_floating_point() else y.dtype).contiguous()


class ClientTests(NamedTuple):
    """Test samples of `clients` (k,). A client's score is its mean over g `groups` of samples, weighted by `shares` (k, g)."""

    clients: Array
    groups: list[Array]
    shares: Array


@dataclass(frozen=True, eq=False)
class FederatedData:
    """A data set split into `train`, `val` and `test` ids, with the training ids partitioned to clients.

    All ids index `dataset.x`, and no id is in two splits. Client k holds `train[offsets[k]:offsets[k + 1]]`. Two clients
    may hold the same id. `unseen_train` and `unseen_offsets` do the same for clients that take no part in training.
    """

    dataset: Dataset
    train: Array
    offsets: Array
    val: Array
    test: Array
    unseen_train: Array = field(default_factory=lambda: np.empty(0, np.int64))
    unseen_offsets: Array = field(default_factory=lambda: np.zeros(1, np.int64))

    @property
    def ids(self) -> tuple[Array, ...]:
        """Return all arrays of sample ids and offsets, in the order of the fields."""
        return tuple(getattr(self, f.name) for f in fields(self)[1:])

    @property
    def clients(self) -> int:
        """Return the number of clients n."""
        return len(self.offsets) - 1

    @cached_property
    def sizes(self) -> Array:
        """Return the number of training samples m_k of each client, (n,)."""
        return np.diff(self.offsets)

    @property
    def note(self) -> str:
        """Return notes on how the data set was read, followed by warnings about the partition, one per line."""
        return "\n".join(filter(None, (self.dataset.note, self.unreached)))

    @cached_property
    def unreached(self) -> str:
        """Return warnings about the partition, one per line, or "" if there are none. They report unused training samples,
        test samples with a label or owner that training lacks, and clients too small for a validation sample.
        """
        dataset, y, lines = self.dataset, self.dataset.y, []
        held, free = np.zeros((2, len(y)), bool)
        held[self.train] = held[self.unseen_train] = True
        free[~dataset.test] = True
        free[self.val] = False
        unused, total = free & ~held, f"{free.sum():,} training samples"
        if y.dtype.kind in "iu" and len(missing := np.setdiff1d(y[free], y[held])):
            unheld, labels = unused & np.isin(y, missing), ", ".join(map(str, missing))
            count = f"{unheld.sum():,} of {total} are unused"
            lines.append(f"no client holds the labels {labels}: {count}")
            unused &= ~unheld  # each sample is counted once, under the first reason
        for names, has in ((y.astype(int), "have a label"), (dataset.client, "have an owner")):
            if names is not None and y.dtype.kind in "iu":
                # -1 names no owner (`trials.datasets.own`).
                unknown = np.setdiff1d(names[self.test], [-1, *names[free]])
                if number := np.isin(names[self.test], unknown).sum():
                    tests = f"{number:,} of {len(self.test):,} test samples"
                    lines.append(f"{tests} {has} that no training sample has")
        if 50 * unused.sum() > free.sum():  # rounding alone leaves less
            lines.append(f"{unused.sum():,} of {total} are left over")
        if dataset.client is not None and len(self.val):
            owners = np.unique(dataset.client[self.train])
            if len(small := np.setdiff1d(owners, dataset.client[self.val])):
                few = f"{len(small):,} of {len(owners):,} clients"
                lines.append(f"{few} are too small to give a validation sample")
        return "\n".join(f"{UNREACHED}{line}" for line in lines)

    @cached_property
    def pooled(self) -> FederatedData:
        """Return the same data with a single client that holds all training samples."""
        return replace(self, offsets=self.offsets[[0, -1]])

    @cached_property
    def client_tests(self) -> ClientTests | None:
        """Return the test samples of each client. Clients without test samples are left out.

        Samples may have owners, such as writers. If each client holds one owner's samples, it is tested on that owner's test
        samples. Otherwise each client is tested on all test samples, with each label weighted by its frequency in the client's
        training samples. Such a test is right only if clients differ in nothing but label frequencies. Regressions have no
        labels, so this test is impossible, and None is returned.
        """
        return self._mixtures(self.test)

    @cached_property
    def client_vals(self) -> ClientTests | None:
        """Return the validation samples of each client, chosen and weighted as in `client_tests`; None if there are none."""
        return self._mixtures(self.val)

    @cached_property
    def unseen_tests(self) -> ClientTests | None:
        """Return the test samples of each client that never trains, or None if all clients train."""
        unseen = replace(self, train=self.unseen_train, offsets=self.unseen_offsets)
        return unseen.client_tests if unseen.clients else None

    def _mixtures(self, pool: Array) -> ClientTests | None:
        owner, y = self.dataset.client, self.dataset.y
        if owner is not None:
            first = owner[self.train[self.offsets[:-1]]]
            apart = len(np.unique(first)) == self.clients
            # Each client holds samples of one owner, and no two clients share an owner.
            if apart and (owner[self.train] == np.repeat(first, self.sizes)).all():
                clients, groups = [], []
                for client, name in enumerate(first):
                    ids = pool[owner[pool] == name]
                    if len(ids):
                        clients.append(client)
                        groups.append(ids)
                if groups:
                    return ClientTests(np.array(clients), groups, np.eye(len(groups)))
        if y.dtype.kind not in "iu":
            return None
        # Count the training samples of each client and label, (n, labels).
        pair = np.repeat(np.arange(self.clients), self.sizes) * self.dataset.classes + y[self.train]
        held = np.bincount(pair, minlength=self.clients * self.dataset.classes)
        labels = np.unique(y[pool])
        held = held.reshape(self.clients, -1)[:, labels]
        tested = np.flatnonzero(held.sum(1))
        if not len(tested):
            return None
        groups = [pool[y[pool] == label] for label in labels]
        return ClientTests(tested, groups, held[tested] / held[tested].sum(1, keepdims=True))

    def tensors(self, device: torch.device, dtype: torch.dtype) -> tuple[Samples, Tensor]:
        """Return the data set's inputs and targets on a device. All partitions of the data set share these tensors."""
        return _tensors(self.dataset, device, dtype)

    @cached_property
    def fingerprint(self) -> str:
        """Return a checksum of samples, targets, splits and partition, as 8 hex digits. Equal data have equal checksums."""
        # Unseen clients count only where there are any, since older records were made without them.
        crc, ids = 0, self.ids if len(self.unseen_offsets) > 1 else self.ids[:-2]
        for array in (self.dataset.x, self.dataset.y, *ids):
            crc = zlib.crc32(np.ascontiguousarray(array).reshape(-1).data.cast("B"), crc)
        return f"{crc:08x}"


def partition(dataset: Dataset, heterogeneity: Heterogeneity, settings: Settings) -> FederatedData:
    """Split a data set into training, validation and test samples, and assign the training samples to clients. The share
    `val_fraction` of the samples outside the test set is for validation, taken from each owner if samples have owners.
    Raise `UserError` if the heterogeneity level does not fit the data.
    """
    test, ids = np.flatnonzero(dataset.test), np.flatnonzero(~dataset.test)
    rng = randomness.generator("validation", settings.data_seed)
    owner = np.zeros(len(ids), int) if dataset.client is None else dataset.client[ids]
    share = settings.val_fraction
    validation = drawn_of_each(owner, rng, lambda sizes: (sizes * share).astype(int))
    val, train = ids[validation], ids[~validation]
    owners = None if dataset.client is None else dataset.client[train]
    natural = None if owners is None else len(np.unique(owners))
    clients = settings.clients or natural or DEFAULT_CLIENTS
    rng = randomness.generator("partition", settings.partition_seed)
    try:
        arguments = dataset.y[train], clients, owners, rng
        parts = hook(heterogeneity.partition, "assign", list | tuple, *arguments)
        sizes = [*map(len, parts)]
        if 0 in sizes:
            raise UserError(f"client {sizes.index(0)} gets no sample")
        unseen = heterogeneity.unseen(len(parts), rng)
        if len(unseen) == len(parts):
            raise UserError("no client is left to train")
    except UserError as error:
        raise UserError(f"heterogeneity {heterogeneity.name}: {error}") from None
    seen = np.setdiff1d(np.arange(len(parts)), unseen)
    # For each group of clients: the ids client after client, and the offsets at which a client begins.
    listed: list[Array] = []
    for kept in (seen, unseen):
        each = [np.empty(0, np.int64), *(train[parts[k]] for k in kept)]
        listed += [np.concatenate(each), np.cumsum([*map(len, each)], dtype=np.int64)]
    held, offsets, held_unseen, unseen_offsets = listed
    if dataset.client is not None and len(unseen):  # no sample of an unseen owner may validate
        unseen_owners = np.setdiff1d(dataset.client[held_unseen], dataset.client[held])
        val = val[~np.isin(dataset.client[val], unseen_owners)]
    return FederatedData(dataset, held, offsets, val, test, held_unseen, unseen_offsets)
