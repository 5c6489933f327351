"""LSTMs computed one client after the other."""

from typing import Any

import pytest
import torch

from trials import models
from trials.models import base
from trials.models.base import Model


def test_a_gradient_is_taken_in_training_mode_and_scores_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A GPU's backward pass refuses what was computed in another mode; the numbers are the same."""
    modes: list[bool] = []
    lstm = torch.lstm

    def noted(*given: Any) -> Any:
        modes.append(given[6])
        return lstm(*given)

    monkeypatch.setattr(base.torch, "lstm", noted)
    model = Model(models.parse("char_lstm"), (5,), 7)
    w, x = (
        torch.randn(model.d, dtype=torch.float64),
        torch.tensor([[0, 1, 2, 3, 4], [6, 5, 0, 0, 1]]),
    )
    model.logits(w, x)
    assert modes == [False, False], "two layers"
    losses, gradient = model.gradients(w, x, torch.tensor([1, 2]), torch.tensor([0.5, 0.5]))
    assert modes[2:] == [True, True]
    (many,), (also,) = model.gradients(
        w[None], x[None], torch.tensor([[1, 2]]), torch.tensor([[0.5, 0.5]])
    )
    assert torch.allclose(many, losses)
    assert torch.allclose(also, gradient)
