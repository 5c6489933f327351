"""Data sets that need no files: generated from random numbers, or bundled with scikit-learn."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from trials.common import randomness
from trials.common.names import bounded
from trials.datasets.base import Array, Dataset, DatasetFamily
from trials.scoring.metrics import REGRESSION, Task

Law = tuple[Array, Array, Array]  # v, W, b: x ~ N(v, diag(j^-1.2)), y = argmax(x W + b)


@dataclass(frozen=True)
class Digits(DatasetFamily):
    """Handwritten digits 8x8 bundled with scikit-learn (offline), 10 classes; a fifth is test, drawn by `seed`."""

    kind = "grey images"

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split

        x, y = load_digits(return_X_y=True)
        ids = np.arange(len(y))
        _, held_out = train_test_split(ids, test_size=0.2, stratify=y, random_state=seed)
        x = (x / 16).reshape(-1, 1, 8, 8).astype(np.float32)
        return Dataset(x, y.astype(np.int64), np.isin(ids, held_out), 10)


@dataclass(frozen=True)
class Synthetic(DatasetFamily):
    """FedProx's Synthetic(alpha,beta): 30 devices, 60 features, 10 classes (Li et al. 2020).

    Device k has floor(LogNormal(4, 2)) + 50 samples: u_k ~ N(0, alpha), B_k ~ N(0, beta); v_k ~ N(B_k, 1) in R^60;
    x ~ N(v_k, diag(j^-1.2)); W_k in R^{60x10}, b_k in R^10 ~ N(u_k, 1); y = argmax(x W_k + b_k). alpha and beta are
    standard deviations, as in the authors' code. A tenth of each device's samples is test.

    alpha changes no label: the mean u_k of W_k and b_k adds the same number to the logit of every class.
    """

    kind = "generated features"
    family = "synthetic"
    alpha: float = bounded(low=0)
    beta: float = bounded(low=0)

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        def device(rng: np.random.Generator) -> Law:
            u, b_k = rng.normal(0, self.alpha), rng.normal(0, self.beta)
            v = rng.normal(b_k, 1, 60)
            return v, rng.normal(u, 1, (60, 10)), rng.normal(u, 1, 10)

        return _devices("synthetic", seed, _fedprox_sizes(seed, clients or 30), device)


@dataclass(frozen=True)
class SyntheticIID(DatasetFamily):
    """FedProx's Synthetic_iid: as Synthetic, with one W, b ~ N(0, 1) for all devices and v_k = 0."""

    kind = "generated features"
    family = "synthetic"

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        rng = randomness.generator("synthetic_iid", seed)
        w, b = rng.normal(0, 1, (60, 10)), rng.normal(0, 1, 10)
        sizes = _fedprox_sizes(seed, clients or 30)
        return _devices("synthetic", seed, sizes, lambda _: (np.zeros(60), w, b))


@dataclass(frozen=True)
class FedDCSynthetic(DatasetFamily):
    """FedDC's synthetic: 20 devices, 5 classes; alpha=0: one W for all, beta=0: one input distribution.

    FedDyn and FedUmf (Fig. A5) use it too. Each device has 200 samples of 30 features, drawn as in `Synthetic`, except that
    alpha = 0 gives all devices the same W, b ~ N(0, 1), and beta = 0 gives them v_k = 0. (The authors' code has a flag for
    each.) The authors test on the training set; here a tenth of each device's samples is test.
    """

    kind = "generated features"
    alpha: float = bounded(low=0)
    beta: float = bounded(low=0)

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        rng = randomness.generator("feddc_synthetic_common", seed)
        common = rng.normal(0, 1, (30, 5)), rng.normal(0, 1, 5)

        def device(rng: np.random.Generator) -> Law:
            u, b_k = rng.normal(0, self.alpha), rng.normal(0, self.beta)
            v = rng.normal(b_k, 1, 30) if self.beta else np.zeros(30)
            law = rng.normal(u, 1, (30, 5)), rng.normal(u, 1, 5)
            return (v, *(law if self.alpha else common))

        return _devices("feddc_synthetic", seed, np.full(clients or 20, 200), device)


@dataclass(frozen=True)
class Sine(DatasetFamily):
    """DeFed's regression y = 0.5 sin x + 1 + N(0, noise), scored by MSE.

    6,000 training samples with x (N, 1) in [-6, 6] and 1,000 test samples with x in [-12, 12] (DeFed section III).
    Our reading, where the paper is silent: x is uniform, and the test set has the same noise.
    """

    task: ClassVar[Task] = REGRESSION
    noise: float = bounded(0.1, low=0)

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        rng = randomness.generator("sine", seed)
        x = np.concatenate([rng.uniform(-6, 6, 6000), rng.uniform(-12, 12, 1000)])
        y = 0.5 * np.sin(x) + 1 + rng.normal(0, self.noise, 7000)
        x, y = x[:, None].astype(np.float32), y.astype(np.float32)
        return Dataset(x, y, np.arange(7000) >= 6000, 1, task=REGRESSION)


def _fedprox_sizes(seed: int, devices: int) -> Array:
    rng = randomness.generator("synthetic_sizes", seed)
    return rng.lognormal(4, 2, devices).astype(int) + 50


def _devices(
    stream: str, seed: int, sizes: Array, device: Callable[[np.random.Generator], Law]
) -> Dataset:
    """Return `sizes[k]` samples of device k, a tenth for testing. `device` draws a device's feature means, and weights and bias for its labels."""
    parts = []
    for k, size in enumerate(sizes):
        rng = randomness.generator(stream, seed, k)
        v, w, b = device(rng)
        x = rng.normal(v, np.arange(1, len(v) + 1) ** -0.6, (size, len(v)))
        test = rng.permutation(size) < size // 10
        parts.append((x, np.argmax(x @ w + b, axis=1), test, np.full(size, k)))
    x, y, test, client = map(np.concatenate, zip(*parts, strict=True))
    return Dataset(x.astype(np.float32), y.astype(np.int64), test, len(b), client)
