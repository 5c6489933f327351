"""Networks of torchvision, adapted to images of 32x32 pixels; one client after the other.

The network itself is torchvision's: a skeleton without numbers that is called with a client's weights.
What is adapted, as is usual for CIFAR (the papers do not say):

- resnet18, googlenet, densenet121: the first convolution is 3x3 with stride 1, and the pooling after
  it is left out, so that 32x32 pixels arrive at the last stage as 4x4.
- vgg11, alexnet: one fully connected layer on the globally averaged maps (512, 256) instead of three;
  alexnet's first convolution has padding 5 and its poolings are 2x2.
- Dropout is left out; why is said in `trials.models.convolutional`.

Normalisation layers are GroupNorm (Wu and He 2018) with gcd(32, channels) groups, `group`, because
it looks at one sample at a time. `batch` is BatchNorm without buffers: a batch is normalised by its
own mean and variance in training and in evaluation alike, so that all there is to a model is its
weights, there is nothing beside them to average, and algorithms that do arithmetic on weights keep
their meaning. The price is that a prediction depends a little on the batch that is evaluated with it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from trials.common.errors import unknown
from trials.common.tensors import Tensor, nn, torch
from trials.models.base import Architecture, Parameters, channels_last, check_images
from trials.scoring.losses import Loss


class Network(Architecture):
    """A network of torchvision; `name` is what it is called there and in `MODELS`."""

    batchable: ClassVar[bool] = False
    batched_up_to: ClassVar[float] = 0
    name: ClassVar[str]
    side: ClassVar[int]
    norms: ClassVar[tuple[str, ...]] = ("group", "batch")
    """Normalisations that it may have."""
    norm: str

    def __post_init__(self) -> None:
        if self.norm not in self.norms:
            raise unknown(f"normalisation of model {self.name}", self.norm, self.norms)

    @property
    def one_by_one(self) -> bool:
        return self.norm != "batch"

    @abstractmethod
    def network(self, models: Any, channels: int, classes: int) -> nn.Module:
        """The network, adapted, with BatchNorm where it normalises; `models` is torchvision's."""

    def parameters(self, shape: tuple[int, ...], classes: int) -> Parameters:
        check_images(self.name, shape, self.side, "its poolings and strides leave nothing of less")
        named = _skeleton(self, shape[0], classes).named_parameters()
        return [(name, tuple(value.shape)) for name, value in named]

    def forward(self, p: Mapping[str, Tensor], x: Tensor) -> Tensor:
        if x.dim() == 5:
            rows = zip(_rows(p, len(x)), x, strict=True)
            return torch.stack([self.forward(one, samples) for one, samples in rows])
        *_, bias = p.values()
        skeleton = _skeleton(self, x.shape[1], len(bias))
        logits: Tensor = torch.func.functional_call(skeleton, dict(p), (channels_last(x),))
        return logits

    def gradients(
        self, p: Mapping[str, Tensor], x: Tensor, y: Tensor, weight: Tensor, loss: Loss
    ) -> tuple[Tensor, list[Tensor]]:
        """The losses and gradients of k clients, one after the other: without their padding, which
        BatchNorm would see.
        """
        if y.dim() == 1:
            return super().gradients(p, x, y, weight, loss)
        found = [
            self.gradients(one, samples[real], label[real], share[real], loss)
            for one, samples, label, share, real in zip(
                _rows(p, len(x)), x, y, weight, weight > 0, strict=True
            )
        ]
        losses, gradients = zip(*found, strict=True)
        return torch.stack(losses), [torch.stack(of) for of in zip(*gradients, strict=True)]


def _rows(p: Mapping[str, Tensor], k: int) -> list[dict[str, Tensor]]:
    return [{name: value[i] for name, value in p.items()} for i in range(k)]


@cache
def _skeleton(model: Network, channels: int, classes: int) -> nn.Module:
    """The network's shapes and order of operations, without numbers."""
    from trials.datasets.torchvision_import import (
        torchvision,  # takes a second, and few trials need it
    )

    with torch.device("meta"):
        network = model.network(torchvision.models, channels, classes)
        for parent in list(network.modules()):
            for name, child in parent.named_children():
                if isinstance(child, nn.BatchNorm2d):
                    setattr(parent, name, NORMS[model.norm](child.num_features, child.eps))
    return network.eval()  # without dropout


def _group_norm(channels: int, eps: float) -> nn.Module:
    return nn.GroupNorm(math.gcd(32, channels), channels, eps)


def _batch_norm(channels: int, eps: float) -> nn.Module:
    return nn.BatchNorm2d(channels, eps, track_running_stats=False)


NORMS = {"group": _group_norm, "batch": _batch_norm}


@dataclass(frozen=True)
class ResNet18(Network):
    """ResNet-18 (He et al. 2016). 11,173,962 weights at three channels with 10 classes."""

    summary: ClassVar[str] = "ResNet-18 for 32x32; norm: group or batch"
    name: ClassVar[str] = "resnet18"
    side: ClassVar[int] = 16
    norm: str = "group"

    def network(self, models: Any, channels: int, classes: int) -> nn.Module:
        network = models.resnet18(num_classes=classes)
        network.conv1 = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
        network.maxpool = nn.Identity()
        return network


@dataclass(frozen=True)
class GoogLeNet(Network):
    """GoogLeNet (Szegedy et al. 2015) as in torchvision: with normalisation, no auxiliary outputs."""

    summary: ClassVar[str] = "GoogLeNet for 32x32; norm: group or batch"
    name: ClassVar[str] = "googlenet"
    side: ClassVar[int] = 16
    norm: str = "group"

    def network(self, models: Any, channels: int, classes: int) -> nn.Module:
        network = models.googlenet(
            num_classes=classes, aux_logits=False, transform_input=False, init_weights=False
        )
        network.conv1.conv = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
        network.maxpool1 = nn.Identity()
        return network


@dataclass(frozen=True)
class DenseNet121(Network):
    """DenseNet-121 (Huang et al. 2017), for the papers' unspecified DenseNet."""

    summary: ClassVar[str] = "DenseNet-121 for 32x32; norm: group or batch"
    name: ClassVar[str] = "densenet121"
    side: ClassVar[int] = 16
    norm: str = "group"

    def network(self, models: Any, channels: int, classes: int) -> nn.Module:
        network = models.densenet121(num_classes=classes)
        network.features.conv0 = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
        network.features.pool0 = nn.Identity()
        return network


@dataclass(frozen=True)
class VGG11(Network):
    """VGG-11 (Simonyan and Zisserman 2015) with normalisation, `none` without as first published.

    Without it, the common start shrinks signals by about sqrt(6) a layer, and training is slow to begin.
    """

    summary: ClassVar[str] = "VGG-11 for 32x32; norm: group, batch or none"
    name: ClassVar[str] = "vgg11"
    side: ClassVar[int] = 32
    norms: ClassVar[tuple[str, ...]] = ("group", "batch", "none")
    norm: str = "group"

    def network(self, models: Any, channels: int, classes: int) -> nn.Module:
        make = models.vgg11 if self.norm == "none" else models.vgg11_bn
        network = make(num_classes=classes)
        network.features[0] = nn.Conv2d(channels, 64, 3, padding=1)
        network.avgpool = nn.AdaptiveAvgPool2d(1)
        network.classifier = nn.Linear(512, classes)
        return network


@dataclass(frozen=True)
class AlexNet(Network):
    """AlexNet (Krizhevsky 2014, torchvision's), which has no normalisation."""

    summary: ClassVar[str] = "AlexNet for 32x32"
    name: ClassVar[str] = "alexnet"
    side: ClassVar[int] = 29
    norms: ClassVar[tuple[str, ...]] = ("none",)
    norm = "none"

    def network(self, models: Any, channels: int, classes: int) -> nn.Module:
        network = models.alexnet(num_classes=classes)
        network.features[0] = nn.Conv2d(channels, 64, 11, stride=4, padding=5)
        for i in (2, 5, 12):
            network.features[i] = nn.MaxPool2d(2)
        network.avgpool = nn.AdaptiveAvgPool2d(1)
        network.classifier = nn.Linear(256, classes)
        return network
