"""Which samples clients meet at which step: minibatches and full passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from trials.common import randomness
from trials.federated_data import FederatedData

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class BatchPlan:
    """Which samples each of k rows meets at each step.

    `samples` (k, J, B) indexes the data set; `weight` (k, J, B) is each sample's share in its loss
    and 0 for padding, which comes last; row i has `steps[i]` <= J steps. `draws` (k,) name the random
    numbers of each row's training, such as dropout's; gradients of a plan without them have none. `clients`
    (k,) are those that the rows are of; a plan of several runs does not say.
    """

    samples: Array
    weight: Array
    steps: Array
    draws: Array | None = None
    clients: Array | None = None


def steps_per_epoch(sizes: Array, batch_size: int | str) -> Array:
    """Minibatches in one pass, ceil(m_k / B), the last short one kept; 1 for full batches."""
    return np.ones_like(sizes) if batch_size == "full" else -(-sizes // int(batch_size))


def samples_met(sizes: Array, steps: Array, batch_size: int | str) -> int:
    """Samples in the minibatches of `steps` (k,) of clients of these sizes: whole passes, then full
    minibatches.
    """
    per_epoch = steps_per_epoch(sizes, batch_size)
    width = sizes if batch_size == "full" else int(batch_size)
    return int((steps // per_epoch * sizes + steps % per_epoch * width).sum())


def minibatches(
    data: FederatedData, ids: Array, steps: Array, batch_size: int | str, words: tuple[int, ...]
) -> BatchPlan:
    """`steps` (k,) minibatches for clients `ids` (k,): each pass over a client's data in a new
    order, a function of (`words`, client, pass) alone; a minibatch weighs its samples equally.
    """
    sizes = data.sizes[ids]
    width = int(sizes.max()) if batch_size == "full" else min(int(batch_size), int(sizes.max()))
    per_epoch = steps_per_epoch(sizes, batch_size)
    passes = -(-steps // per_epoch)
    row = np.repeat(np.arange(len(ids)), passes)
    epoch = _counts_up(passes)
    segment = np.repeat(np.arange(len(row)), sizes[row])
    position = _counts_up(sizes[row])
    key = randomness.bits("order", *words, ids[row][segment], epoch[segment], position)
    order = (segment.astype(np.uint64) << np.uint64(40)) | (key >> np.uint64(24))
    # 40 bits tie now and then, and how another sort breaks ties depends on the processor.
    shuffled = position[np.argsort(order, kind="stable")]
    row = row[segment]
    step = epoch[segment] * per_epoch[row] + position // width
    kept = step < steps[row]
    row, step, slot = row[kept], step[kept], position[kept] % width
    samples = np.zeros((len(ids), int(steps.max()), width), np.int64)
    real = np.zeros(samples.shape, bool)
    samples[row, step, slot] = data.train[data.offsets[ids[row]] + shuffled[kept]]
    real[row, step, slot] = True
    draws = randomness.bits("draws", *words, ids)
    weight = real / np.maximum(real.sum(-1, keepdims=True), 1)
    return BatchPlan(samples, weight, steps, draws, ids)


def full_pass(data: FederatedData, ids: Array, width: int = 256) -> BatchPlan:
    """All samples of clients `ids` in blocks, each weighing 1 / m_k: gradients of F_k add up."""
    sizes = data.sizes[ids]
    width = min(width, int(sizes.max()))
    steps = -(-sizes // width)
    row, position = np.repeat(np.arange(len(ids)), sizes), _counts_up(sizes)
    samples = np.zeros((len(ids), int(steps.max()), width), np.int64)
    weight = np.zeros(samples.shape)
    where = (row, position // width, position % width)
    samples[where] = data.train[data.offsets[ids[row]] + position]
    weight[where] = 1 / sizes[row]
    return BatchPlan(samples, weight, steps, clients=ids)


def _counts_up(lengths: Array) -> Array:
    """0..l-1 for each length l, one after the other: [2, 3] -> [0, 1, 0, 1, 2]."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
