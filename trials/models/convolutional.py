"""Convolutional networks of the papers. ReLU everywhere but at the outputs, which are linear.

Dropout is left out: a gradient here is a function of weights and samples alone, which is what makes
equal trials equal to the bit, k clients at once equal to one after the other, and FedUmf's clients
computable later.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, NamedTuple

from trials.common.errors import UserError
from trials.common.tensors import F, Tensor
from trials.models.base import (
    Architecture,
    Parameters,
    check_images,
    conv2d,
    convolution,
    dense,
    linear,
    max_pool2,
    pool2,
)


class Conv(NamedTuple):
    """A convolution with stride 1: output maps, kernel side, padding."""

    maps: int
    kernel: int
    padding: int = 0


class ConvNet(Architecture):
    """Convolutions, each followed by ReLU and 2x2 pooling, then fully connected layers."""

    name: ClassVar[str]
    hidden: ClassVar[tuple[int, ...]]
    average: ClassVar[bool] = False
    """Average pooling; else max-pooling."""

    @property
    @abstractmethod
    def convolutions(self) -> tuple[Conv, ...]:
        """The convolutions, first to last."""

    def parameters(self, shape: tuple[int, ...], classes: int) -> Parameters:
        least = 1
        for conv in reversed(self.convolutions):
            least = max(1, 2 * least + conv.kernel - 1 - 2 * conv.padding)
        check_images(self.name, shape, least, "convolutions and poolings leave nothing of less")
        found: Parameters = []
        channels, height, width = shape
        for i, conv in enumerate(self.convolutions, 1):
            found += convolution(f"conv{i}", channels, conv.maps, conv.kernel)
            lost = conv.kernel - 1 - 2 * conv.padding
            channels, height, width = conv.maps, (height - lost) // 2, (width - lost) // 2
        widths = (channels * height * width, *self.hidden)
        for i, (inputs, outputs) in enumerate(pairwise(widths), 1):
            found += dense(f"hidden{i}", inputs, outputs)
        return found + dense("out", widths[-1], classes)

    def forward(self, p: Mapping[str, Tensor], x: Tensor) -> Tensor:
        for i, conv in enumerate(self.convolutions, 1):
            x = conv2d(x, p[f"conv{i}.weight"], p[f"conv{i}.bias"], conv.padding)
            # The largest of four is rectified rather than the four: the same number for less.
            x = pool2(F.relu(x)) if self.average else F.relu(max_pool2(x))
        x = x.flatten(-3)
        for i in range(1, len(self.hidden) + 1):
            x = F.relu(linear(x, p[f"hidden{i}.weight"], p[f"hidden{i}.bias"]))
        return linear(x, p["out.weight"], p["out.bias"])


@dataclass(frozen=True)
class LeNet5(ConvNet):
    """LeNet-5 of SAFL's Table II: conv 5x5x6, pool, conv 5x5x16, pool, 120, 84, C; no padding.

    44,426 weights at 28x28x1 with 10 classes. Average pooling as printed; the activation is not
    stated there, ReLU is taken.
    """

    summary: ClassVar[str] = "LeNet-5 without padding (SAFL Table II), images of 16x16 and more"
    batched_up_to: ClassVar[float] = 16
    name: ClassVar[str] = "lenet5"
    hidden: ClassVar[tuple[int, ...]] = (120, 84)
    average: ClassVar[bool] = True

    @property
    def convolutions(self) -> tuple[Conv, ...]:
        return Conv(6, 5), Conv(16, 5)


@dataclass(frozen=True)
class LeNet5FedAgg(ConvNet):
    """LeNet-5 of FedAgg's EMNIST rows: conv 5x5, pool, conv 5x5, pool, 800, 120, 84, C.

    800 = 5x5x32 at 28x28 follows from 32 second maps and padding 2 on the first convolution only.
    The number of first maps is not stated: 6 (LeNet's own) is taken, 16 is the other reading.
    Average pooling, as in LeNet-5 itself; the pooling is not stated either. 113,482 weights at
    28x28x1 with 26 classes.
    """

    summary: ClassVar[str] = "LeNet-5 of FedAgg: padded first convolution, 32 second maps"
    batched_up_to: ClassVar[float] = 16
    name: ClassVar[str] = "lenet5_fedagg"
    hidden: ClassVar[tuple[int, ...]] = (120, 84)
    average: ClassVar[bool] = True
    maps: int = 6

    def __post_init__(self) -> None:
        if self.maps < 1:
            raise UserError(f"model lenet5_fedagg: maps >= 1 must hold, got {self.maps}")

    @property
    def convolutions(self) -> tuple[Conv, ...]:
        return Conv(self.maps, 5, 2), Conv(32, 5)


@dataclass(frozen=True)
class McMahanCNN(ConvNet):
    """The CNN of McMahan et al. 2017 (FedAgg's MNIST-CNN): conv 5x5x32, max-pool, conv 5x5x64,
    max-pool, 512, C; padding keeps the sides. 1,663,370 weights at 28x28x1 with 10 classes.
    """

    summary: ClassVar[str] = "CNN of McMahan et al. 2017: two padded 5x5 convolutions, 512"
    batched_up_to: ClassVar[float] = 0
    name: ClassVar[str] = "mcmahan_cnn"
    hidden: ClassVar[tuple[int, ...]] = (512,)

    @property
    def convolutions(self) -> tuple[Conv, ...]:
        return Conv(32, 5, 2), Conv(64, 5, 2)


@dataclass(frozen=True)
class Cifar10CNN(ConvNet):
    """FedAgg's CIFAR10-CNN: three convolutions 3x3 with max-pooling, 1024 (4x4x64), 512, C.

    Only the last of the widths is stated (by 4x4x64): 32, 64, 64 is taken. The paper has two dropout
    layers of unstated place and rate; they are left out, see the module. 586,250 weights at 32x32x3
    with 10 classes.
    """

    summary: ClassVar[str] = "CIFAR10-CNN of FedAgg: three padded 3x3 convolutions, 512; no dropout"
    batched_up_to: ClassVar[float] = 0
    name: ClassVar[str] = "cifar10_cnn"
    hidden: ClassVar[tuple[int, ...]] = (512,)

    @property
    def convolutions(self) -> tuple[Conv, ...]:
        return Conv(32, 3, 1), Conv(64, 3, 1), Conv(64, 3, 1)


@dataclass(frozen=True)
class FedDCCNN(ConvNet):
    """The CIFAR network of FedDC and FedDyn (FedUmf's Appendix A): conv 5x5x64, max-pool, conv
    5x5x64, max-pool, 384, 192, C; no padding. 797,962 weights at 32x32x3 with 10 classes.
    """

    summary: ClassVar[str] = "CIFAR network of FedDC and FedDyn: two 5x5 convolutions, 384, 192"
    batched_up_to: ClassVar[float] = 0
    name: ClassVar[str] = "feddc_cnn"
    hidden: ClassVar[tuple[int, ...]] = (384, 192)

    @property
    def convolutions(self) -> tuple[Conv, ...]:
        return Conv(64, 5), Conv(64, 5)


@dataclass(frozen=True)
class VGGLight(Architecture):
    """SAFL's light VGGNet (Table II): conv 3x3x64, conv 3x3x128, max-pool, three times (conv 3x3x128,
    max-pool), global average, 1x1 convolution to C.

    518,538 weights for one input channel and 10 classes, 519,690 for three (1.76 M are printed).
    Readings: padding 1, "same" pooling (an odd side keeps its last row, so that the 13 coefficients
    of speech features survive four poolings: 13, 7, 4, 2, 1), ReLU, no normalisation. The 1x1
    convolution of one averaged pixel is a fully connected layer and written as one.
    """

    summary: ClassVar[str] = "light VGGNet of SAFL: five 3x3 convolutions; images, (1, 13, frames)"
    batched_up_to: ClassVar[float] = 0
    maps: ClassVar[tuple[int, ...]] = (64, 128, 128, 128, 128)

    def parameters(self, shape: tuple[int, ...], classes: int) -> Parameters:
        check_images("vgg_light", shape, 1, "it convolves")
        found: Parameters = []
        for i, (inputs, outputs) in enumerate(pairwise((shape[0], *self.maps)), 1):
            found += convolution(f"conv{i}", inputs, outputs, 3)
        return found + dense("out", self.maps[-1], classes)

    def forward(self, p: Mapping[str, Tensor], x: Tensor) -> Tensor:
        for i in range(1, len(self.maps) + 1):
            x = conv2d(x, p[f"conv{i}.weight"], p[f"conv{i}.bias"], padding=1)
            x = F.relu(x if i == 1 else max_pool2(x, same=True))
        return linear(x.mean((-2, -1)), p["out.weight"], p["out.bias"])
