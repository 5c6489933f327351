"""Modules of PyTorch: a trained model, networks of torchvision, BatchNorm without running statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from trials.common.errors import UserError, unknown
from trials.models.base import Model
from trials.models.batched_linear import OwnLinear


class TrainedModel(torch.nn.Module):
    """The outputs (b, C) of samples (b, *shape): logits, or the one output of a regression.

    Its parameters have the names and shapes of its state dict and can be trained further. They share
    one flat vector, as in the run that they come from, so that outputs are that run's to the last bit.
    BatchNorm normalises by its running statistics, which are buffers.
    """

    def __init__(self, model: Model, w: torch.Tensor) -> None:
        super().__init__()
        self.fitted, self.dtype = model, w.dtype
        for name, value in model.views(w.detach().clone()).items():
            owner, leaf = self._place(name)
            owner.register_parameter(leaf, torch.nn.Parameter(value))
        kept = model.architecture.statistics
        for name, value in kept.evaluating(w).items() if kept else ():
            owner, leaf = self._place(name)
            owner.register_buffer(leaf, value.clone())

    def _place(self, name: str) -> tuple[torch.nn.Module, str]:
        """The submodule that a tensor belongs to, which is made where there is none, and its name there."""
        *path, leaf = name.split(".")
        owner: torch.nn.Module = self
        for part in path:
            if part not in dict(owner.named_children()):
                owner.add_module(part, torch.nn.Module())
            owner = owner.get_submodule(part)
        return owner, leaf

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The outputs (b, C) of samples x (b, *shape), which are taken in the weights' dtype."""
        given = dict(self.named_parameters()) | dict(self.named_buffers())
        return self.fitted.outputs(given, x.to(self.dtype))


class BatchStatistics(nn.Module):
    """BatchNorm that is told what it normalises by: the batch, of which it then moves its running statistics, or
    these (`running`). Of a batch with one value a channel the outputs are the bias, and nothing is moved.
    `frozen` ones are normalised by for good. One that keeps none normalises by the batch, always.
    """

    running_mean: torch.Tensor | None
    running_var: torch.Tensor | None
    num_batches_tracked: torch.Tensor | None

    def __init__(self, of: Any, frozen: bool) -> None:
        super().__init__()
        self.weight, self.bias, self.eps, self.momentum = of.weight, of.bias, of.eps, of.momentum
        keeps = of.running_mean is not None
        self.frozen = frozen and keeps
        self.running = False
        for name in ("running_mean", "running_var", "num_batches_tracked"):
            self.register_buffer(name, getattr(of, name) if keeps else None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The normalised x (b, channels, ...)."""
        mean, var = self.running_mean, self.running_var
        batch = mean is None or not (self.running or self.frozen)
        if batch and x.numel() == x.shape[1]:
            shape = (1, -1, *(1 for _ in x.shape[2:]))
            x = x - x
            return x if self.bias is None else x + self.bias.view(shape)
        pace = 0.0 if self.momentum is None else self.momentum
        if batch and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            pace = 1 / float(self.num_batches_tracked) if self.momentum is None else pace
        return F.batch_norm(x, mean, var, self.weight, self.bias, batch, pace, self.eps)


def told(module: nn.Module, frozen: bool) -> nn.Module:
    """The module with each BatchNorm in it replaced by `BatchStatistics`, under the same names, and each linear layer
    computed as the project's own.
    """
    if isinstance(module, BATCH_NORMS):
        return BatchStatistics(module, frozen)
    if type(module) is nn.Linear:
        module.__class__ = OwnLinear
    for name, child in module.named_children():
        setattr(module, name, told(child, frozen))
    return module


def by_running(module: nn.Module) -> nn.Module:
    """The module, of which BatchNorm normalises by its running statistics."""
    for child in module.modules():
        if isinstance(child, BatchStatistics):
            child.running = True
    return module


class ForImages(nn.Module):
    """A network for colour images: one channel is given three times, and `side` is what they are scaled to."""

    def __init__(self, network: nn.Module, side: int | None) -> None:
        super().__init__()
        self.network, self.side = network, side

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Logits (b, C) of images x (b, 1 or 3, h, w)."""
        x = x.expand(-1, 3, -1, -1)
        if self.side is not None:
            size = (self.side, self.side)
            x = F.interpolate(x, size, mode="bilinear", align_corners=False)
        return self.network(x)


BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
SIDES = (None, 64, 224, 299)
"""Sides of images to try, the data's own first: the smallest that a network takes."""


def torchvision_network(
    name: str, shape: tuple[int, ...], classes: int, **given: Mapping[str, Any]
) -> nn.Module:
    """A classifier of torchvision, untrained, for images of `shape`; raises `UserError` where there is none."""
    from trials.datasets.torchvision_import import torchvision

    known = torchvision.models.list_models(module=torchvision.models)
    if name not in known:
        raise unknown("model of torchvision", name, known)
    if len(shape) != 3 or shape[0] not in (1, 3):
        raise UserError(
            f"model torchvision:{name} needs images (1 or 3, height, width), but samples are {shape}"
        )
    if any(key.startswith("weights") for key in given):
        raise UserError(
            f"model torchvision:{name}: weights are not downloaded; load them in a function of your own, "
            "as in my.py:make"
        )
    if name in ("googlenet", "inception_v3"):
        given = {"aux_logits": False, "init_weights": True, **given}  # type: ignore[dict-item]
    network = torchvision.models.get_model(name, num_classes=classes, **given)
    return ForImages(network, _side(name, network, shape))


def _side(name: str, network: nn.Module, shape: tuple[int, ...]) -> int | None:
    """What images are scaled to: None where the network takes them as they are."""
    network.eval()
    for side in SIDES:
        try:
            with torch.no_grad():
                found = ForImages(network, side)(torch.zeros(1, *shape))
        except (RuntimeError, AssertionError, ValueError):
            continue
        if math.isfinite(float(found.sum())):
            return side
    raise UserError(f"model torchvision:{name} takes no images of {shape}")
