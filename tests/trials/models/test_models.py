"""Models: the shapes they need, their sizes, their first weights."""

import numpy as np
import pytest
import torch

from trials import models
from trials.common.errors import UserError
from trials.models.base import Model


def test_lenet5_refuses_small_images():
    for shape in [(1, 8, 8), (1, 28, 15), (784,)]:
        with pytest.raises(UserError, match="at least 16x16, because"):
            Model(models.parse("lenet5"), shape, 10)


def test_lenet5_has_44426_weights():
    assert Model(models.parse("lenet5"), (1, 28, 28), 10).d == 44426


@pytest.mark.parametrize(
    ("name", "d"), [("logreg", 7850), ("mlp", 199210), ("mlp(3,4)", 784 * 3 + 3 + 16 + 50)]
)
def test_model_sizes(name, d):
    assert Model(models.parse(name), (1, 28, 28), 10).d == d


@pytest.mark.parametrize("name", ["logreg", "mlp(6,5)", "lenet5"])
def test_initial_weights_are_uniform_within_the_fan_in(name):
    model = Model(models.parse(name), (1, 20, 20), 7)
    w = model.initial(np.array([0, 1]), 3)
    assert w.shape == (2, model.d)
    fan_in = {"logreg": {400}, "mlp(6,5)": {400, 6, 5}, "lenet5": {25, 150, 64, 120, 84}}[name]
    found = set()
    for slot in model.layout:
        if slot.name.endswith("weight"):
            n = int(np.prod(slot.shape[1:]))
            found.add(n)
            values = w[:, slot.start : slot.stop]
            assert np.abs(values).max() <= n**-0.5
            assert values.std() == pytest.approx((3 * n) ** -0.5, rel=0.2)
    assert found == fan_in
    assert abs(np.corrcoef(w)[0, 1]) < 5 * model.d**-0.5
    logits = model.logits(torch.tensor(w), torch.zeros(2, 4, 1, 20, 20, dtype=torch.float64))
    assert logits.shape == (2, 4, 7)
