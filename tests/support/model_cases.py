"""A small case of every model: its name, the shape of a sample, and how many tokens there are."""

from typing import NamedTuple

import numpy as np
import torch

from tests.support.simulations import partitioned
from trials import models
from trials.federated_data import FederatedData
from trials.models.base import Model
from trials.scoring.losses import cross_entropy

CLASSES = 3


class Case(NamedTuple):
    text: str
    shape: tuple[int, ...]
    tokens: int = 0

    def fitted(self, loss=cross_entropy) -> Model:
        return Model(models.parse(self.text), self.shape, CLASSES, loss)

    def samples(self, rng: np.random.Generator, *size: int) -> torch.Tensor:
        """Gaussian numbers, or token ids as floats."""
        if self.tokens:
            return torch.tensor(rng.integers(0, self.tokens, (*size, *self.shape))).double()
        return torch.tensor(rng.normal(size=(*size, *self.shape)))

    def partitioned(self, sizes: list[int]) -> FederatedData:
        data = partitioned(sizes, self.shape, CLASSES)
        if self.tokens:
            rng = np.random.default_rng(1)
            data.dataset.x[:] = rng.integers(0, self.tokens, data.dataset.x.shape)
        return data


CASES = {
    "logreg": Case("logreg", (1, 4, 3)),
    "linear": Case("linear", (5,)),
    "mlp": Case("mlp(6,5)", (1, 4, 3)),
    "lenet5": Case("lenet5", (1, 16, 16)),
    "lenet5_fedagg": Case("lenet5_fedagg", (1, 12, 13)),
    "mcmahan_cnn": Case("mcmahan_cnn", (2, 6, 5)),
    "cifar10_cnn": Case("cifar10_cnn", (3, 9, 8)),
    "feddc_cnn": Case("feddc_cnn", (3, 16, 17)),
    "vgg_light": Case("vgg_light", (1, 5, 13)),
    "char_lstm": Case("char_lstm", (7,), tokens=CLASSES),
    "sent_lstm": Case("sent_lstm(11,5)", (6,), tokens=11),
}
