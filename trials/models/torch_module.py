"""A trained model as PyTorch has them."""

from __future__ import annotations

import torch

from trials.models.base import Model


class TrainedModel(torch.nn.Module):
    """The outputs (b, C) of samples (b, *shape): logits, or the one output of a regression.

    Its parameters have the names and shapes of its state dict and can be trained further. They share
    one flat vector, as in the run that they come from, so that outputs are that run's to the last bit.
    """

    def __init__(self, model: Model, w: torch.Tensor) -> None:
        super().__init__()
        self.fitted, self.dtype = model, w.dtype
        for name, value in model.views(w.detach().clone()).items():
            *path, leaf = name.split(".")
            owner: torch.nn.Module = self
            for part in path:
                if part not in dict(owner.named_children()):
                    owner.add_module(part, torch.nn.Module())
                owner = owner.get_submodule(part)
            owner.register_parameter(leaf, torch.nn.Parameter(value))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The outputs (b, C) of samples x (b, *shape), which are taken in the weights' dtype."""
        return self.fitted.outputs(dict(self.named_parameters()), x.to(self.dtype))
