"""A trained model as a module of PyTorch."""

from __future__ import annotations

from torch import Tensor, nn

from trials.models.base import Model


class TrainedModel(nn.Module):
    """The outputs (b, C) of samples (b, *shape): logits, or the one output of a regression.

    Its parameters have the names and shapes of its state dict and can be trained further. They share
    one flat vector, as in the run that they come from, so that outputs are that run's to the last bit.
    BatchNorm normalises by its running statistics, which are buffers.
    """

    def __init__(self, model: Model, w: Tensor) -> None:
        super().__init__()
        self.fitted, self.dtype = model, w.dtype
        for name, value in model.views(w.detach().clone()).items():
            owner, leaf = self._place(name)
            owner.register_parameter(leaf, nn.Parameter(value))
        for name, value in model.statistics.evaluating(w).items() if model.statistics else ():
            owner, leaf = self._place(name)
            owner.register_buffer(leaf, value.clone())

    def _place(self, name: str) -> tuple[nn.Module, str]:
        """Return the submodule that a tensor belongs to, which is made where there is none, and its name there."""
        *path, leaf = name.split(".")
        owner: nn.Module = self
        for part in path:
            if part not in dict(owner.named_children()):
                owner.add_module(part, nn.Module())
            owner = owner.get_submodule(part)
        return owner, leaf

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs (b, C) of samples x (b, *shape), which are taken in the weights' dtype."""
        tensors = dict(self.named_parameters()) | dict(self.named_buffers())
        return self.fitted.outputs(tensors, x.to(self.dtype))
