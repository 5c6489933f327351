"""Samples partitioned to clients: splits first, then the heterogeneity level."""

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
"""The beginning of a note's line that says which samples reach no client, or no validation."""


class Samples:
    """The samples x of a data set on a device: `samples[ids]` are (..., *shape) for ids (...)."""

    def __init__(self, x: Array, device: torch.device, dtype: torch.dtype) -> None:
        self.device, self.dtype = device, dtype
        self.x = torch.from_numpy(x).to(device, dtype).contiguous()

    def __getitem__(self, ids: Tensor | Array) -> Tensor:
        ids = torch.as_tensor(ids)
        return self.x.index_select(0, ids.flatten()).unflatten(0, ids.shape)


@lru_cache(maxsize=1)  # one data set and device at a time
def _tensors(dataset: Dataset, device: torch.device, dtype: torch.dtype) -> tuple[Samples, Tensor]:
    """Return x and y on a device, with contiguous rows: for other strides a compiled loop has other bits."""
    with warnings.catch_warnings():
        # Arrays that processes share are read-only, and so is what is done with these tensors.
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        x, y = Samples(dataset.x, device, dtype), torch.from_numpy(dataset.y)
    return x, y.to(device, dtype if y.is_floating_point() else y.dtype).contiguous()


class ClientTests(NamedTuple):
    """Groups of ids, and the `shares` (k, groups) that each group has in what each of `clients` (k,) would be tested on."""

    clients: Array
    groups: list[Array]
    shares: Array


@dataclass(frozen=True, eq=False)
class FederatedData:
    """A data set and its partition. All ids index `dataset.x`; none is in two of `train`, `val` and `test`.

    `train` lists the training ids client after client; client k's are `train[offsets[k]:offsets[k + 1]]`, and others may
    share them. `unseen_train` and `unseen_offsets` list those of clients that take no part in training.
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
        """Return all fields except the data set, in order."""
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
        """Return in words how samples were made of what a person has, and what of them reaches nobody."""
        return "\n".join(filter(None, (self.dataset.note, self.unreached)))

    @cached_property
    def unreached(self) -> str:
        """Return what reaches no client, or no validation, in lines that begin with `UNREACHED`; "" where all does."""
        dataset, y, lines = self.dataset, self.dataset.y, []
        held, free = np.zeros((2, len(y)), bool)
        held[self.train] = held[self.unseen_train] = True
        free[~dataset.test] = True
        free[self.val] = False
        unused, total = free & ~held, f"{free.sum():,} training samples"
        if y.dtype.kind in "iu" and len(lost := np.setdiff1d(y[free], y[held])):
            left, labels = unused & np.isin(y, lost), ", ".join(map(str, lost))
            unheld = f"{left.sum():,} of {total} are unused"
            lines.append(f"no client holds the labels {labels}: {unheld}")
            # Each sample is told of once, under the first reason.
            unused &= ~left
        for names, what in ((y.astype(int), "have a label"), (dataset.client, "are of a client")):
            if names is not None and y.dtype.kind in "iu":
                # -1 names no owner (`trials.datasets.own`).
                strange = np.setdiff1d(names[self.test], [-1, *names[free]])
                if number := np.isin(names[self.test], strange).sum():
                    tests = f"{number:,} of {len(self.test):,} test samples"
                    lines.append(f"{tests} {what} that no training sample has")
        if 50 * unused.sum() > free.sum():  # less is what rounding leaves
            lines.append(f"{unused.sum():,} of {total} are left over")
        if dataset.client is not None and len(self.val):
            owners = np.unique(dataset.client[self.train])
            if len(small := np.setdiff1d(owners, dataset.client[self.val])):
                few = f"{len(small):,} of {len(owners):,} clients"
                lines.append(f"{few} are too small to give a validation sample")
        return "\n".join(f"{UNREACHED}{line}" for line in lines)

    @cached_property
    def pooled(self) -> FederatedData:
        """Return the same samples, all with one client."""
        return replace(self, offsets=self.offsets[[0, -1]])

    @cached_property
    def client_tests(self) -> ClientTests | None:
        """Return what each client would be tested on; None for a regression without owners.

        If clients keep their own samples, and test samples have owners too, the groups are the owners. Else the groups
        are the labels, mixed as in the client's training samples: exact if clients differ only by labels. Clients without
        test samples are left out.
        """
        return self._of_clients(self.test)

    @cached_property
    def client_vals(self) -> ClientTests | None:
        """Return `client_tests` on validation samples; None without any."""
        return self._of_clients(self.val)

    @cached_property
    def unseen_tests(self) -> ClientTests | None:
        """Return `client_tests` of the clients that take no part in training; None without any."""
        unseen = replace(self, train=self.unseen_train, offsets=self.unseen_offsets)
        return unseen.client_tests if unseen.clients else None

    def _of_clients(self, pool: Array) -> ClientTests | None:
        owner, y = self.dataset.client, self.dataset.y
        if owner is not None:
            first = owner[self.train[self.offsets[:-1]]]
            apart = len(np.unique(first)) == self.clients
            # Each client has the samples of one owner, and no two of the same one.
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
        # How many training samples of each label each client has, (n, labels).
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
        """Return x and y on a device, which all partitions of the data set share."""
        return _tensors(self.dataset, device, dtype)

    @cached_property
    def fingerprint(self) -> str:
        """Return a checksum of samples, splits and owners: equal only if every client holds the same."""
        # Without unseen clients the checksum is what it was before there were any.
        crc, ids = 0, self.ids if len(self.unseen_offsets) > 1 else self.ids[:-2]
        for array in (self.dataset.x, self.dataset.y, *ids):
            crc = zlib.crc32(np.ascontiguousarray(array).reshape(-1).data.cast("B"), crc)
        return f"{crc:08x}"


def partition(dataset: Dataset, heterogeneity: Heterogeneity, settings: Settings) -> FederatedData:
    """Split samples, then partition the training part. The data set says which are test. Validation is a share of the
    others, drawn per owner where samples have owners. Raises `UserError` when the level does not suit the data.
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
    # Ids client after client, and where each client's begin and the last one's end.
    listed: list[Array] = []
    for kept in (seen, unseen):
        each = [np.empty(0, np.int64), *(train[parts[k]] for k in kept)]
        listed += [np.concatenate(each), np.cumsum([*map(len, each)], dtype=np.int64)]
    held, offsets, held_unseen, unseen_offsets = listed
    if dataset.client is not None and len(unseen):  # of owners that nobody else has, all is unseen
        strangers = np.setdiff1d(dataset.client[held_unseen], dataset.client[held])
        val = val[~np.isin(dataset.client[val], strangers)]
    return FederatedData(dataset, held, offsets, val, test, held_unseen, unseen_offsets)
