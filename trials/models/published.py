"""The models of the papers: builders of networks, with ReLU everywhere but at the linear outputs.

`suite list models` shows the first line of each class's docstring. Dropout is left out, so that a gradient is a
function of weights and samples alone, and k clients at once equal one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import ClassVar

from trials.common.errors import UserError
from trials.common.names import bounded
from trials.common.tensors import nn
from trials.models.base import Architecture


def dense(row: nn.Sequential, *widths: int) -> nn.Sequential:
    """Append fully connected layers to `row`, with ReLU between them, and return `row`. `widths` begin with the input size."""
    from trials.models.torch_modules import ClientLinear  # a class of torch's

    *hidden, last = pairwise(widths)
    for i, (inputs, outputs) in enumerate(hidden, 1):
        row.add_module(f"hidden{i}", ClientLinear(inputs, outputs))
        row.add_module(f"relu{i}", nn.ReLU())
    row.add_module("out", ClientLinear(*last))
    return row


def perceptron(shape: tuple[int, ...], *widths: int) -> nn.Sequential:
    """Return a network that flattens samples, then applies fully connected layers. It also takes samples of k clients at once."""
    return dense(nn.Sequential(nn.Flatten(-len(shape))), prod(shape), *widths)


class Linear(Architecture):
    """linear regression, W x + b, of targets that are one number (DeFed's sine)"""

    linear: ClassVar[bool] = True

    def network(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return perceptron(shape, classes)


class LogisticRegression(Linear):
    """multinomial logistic regression, softmax(W x + b), by a gradient in closed form"""


@dataclass(frozen=True)
class MLP(Architecture):
    """two hidden layers with ReLU (default 200, 200: McMahan's 2NN)"""

    width1: int = bounded(200, 1)
    width2: int = bounded(200, 1)

    def network(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return perceptron(shape, self.width1, self.width2, classes)


def convolved(
    model: str,
    shape: tuple[int, ...],
    convolutions: Sequence[tuple[int, int, int]],
    *widths: int,
    average: bool = False,
) -> nn.Sequential:
    """Return a network of convolutions (maps, kernel side, padding), then fully connected layers of these widths. Each
    convolution has ReLU and 2x2 max-pooling (or `average` pooling). Raise `UserError` if images of `shape` are too small.
    """
    row, (channels, height, width) = nn.Sequential(), _image(model, shape)
    for i, (maps, kernel, padding) in enumerate(convolutions, 1):
        row.add_module(f"conv{i}", nn.Conv2d(channels, maps, kernel, padding=padding))
        if average:
            row.extend([nn.ReLU(), nn.AvgPool2d(2)])
        else:  # ReLU after pooling gives the same numbers as before it, for less work
            row.extend([nn.MaxPool2d(2), nn.ReLU()])
        lost = kernel - 1 - 2 * padding
        channels, height, width = maps, (height - lost) // 2, (width - lost) // 2
    if min(height, width) < 1:
        raise UserError(f"model {model} leaves nothing of images as small as {shape}")
    return dense(row.append(nn.Flatten()), channels * height * width, *widths)


def _image(model: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    if len(shape) != 3:
        raise UserError(f"model {model} needs images (channels, height, width); got {shape}")
    return shape


class LeNet5(Architecture):
    """LeNet-5 without padding (SAFL Table II), images of 16x16 and more

    44,426 weights at 28x28x1 with 10 classes. Average pooling as printed. The activation is not stated; ReLU is used.
    """

    def network(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return convolved("lenet5", shape, [(6, 5, 0), (16, 5, 0)], 120, 84, classes, average=True)


@dataclass(frozen=True)
class LeNet5FedAgg(Architecture):
    """LeNet-5 of FedAgg: images padded to 32x32, max-pooling, 32 maps in layer 2

    Conv 5x5, pool 2x2, conv 5x5, pool 2x2, 800 = 5x5x32, 120, 84, C (VII-A5). The number of maps in layer 1 is not
    stated (6 is LeNet's own; 16 is the other reading). 113,482 weights at 28x28x1 with 26 classes.
    """

    maps: int = bounded(6, 1)

    def network(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        padding = max(0, (32 - min(shape[1:])) // 2)
        convolutions = (self.maps, 5, padding), (32, 5, 0)
        return convolved("lenet5_fedagg", shape, convolutions, 120, 84, classes)


class McMahanCNN(Architecture):
    """CNN of McMahan et al. 2017: two padded 5x5 convolutions, 512

    FedAgg's MNIST-CNN: 32 and 64 maps, max-pooling; 1,663,370 weights at 28x28x1 with 10 classes.
    """

    def network(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return convolved("mcmahan_cnn", shape, ((32, 5, 2), (64, 5, 2)), 512, classes)


class Cifar10CNN(Architecture):
    """CIFAR10-CNN of FedAgg: three padded 3x3 convolutions, 512; no dropout

    With max-pooling, then 1024 (4x4x64), 512, C. Of the widths only the last is stated (by 4x4x64); 32, 64, 64 are used.
    Two dropout layers of unstated position and rate are left out. 586,250 weights at 32x32x3 with 10 classes.
    """

    def network(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return convolved("cifar10_cnn", shape, ((32, 3, 1), (64, 3, 1), (64, 3, 1)), 512, classes)


class FedDCCNN(Architecture):
    """CIFAR network of FedDC and FedDyn: two 5x5 convolutions, 384, 192

    FedUmf's Appendix A: 64 maps each, max-pooling, no padding; 797,962 weights at 32x32x3 with 10 classes.
    """

    def network(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return convolved("feddc_cnn", shape, ((64, 5, 0), (64, 5, 0)), 384, 192, classes)


class VGGLight(Architecture):
    """light VGGNet of SAFL: five 3x3 convolutions; images, (1, 13, frames)

    Table II: conv 3x3x64, four times (conv 3x3x128, max-pool), global average, 1x1 convolution to C (a fully connected
    layer). 518,538 weights for one input channel and 10 classes, 519,690 for three (the paper: 1.76 M).
    Readings: padding 1, "same" pooling (an odd side keeps its last row, so that 13 speech coefficients survive four
    poolings), ReLU, no normalisation.
    """

    def network(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        row, (channels, *_) = nn.Sequential(), _image("vgg_light", shape)
        for i, (inputs, maps) in enumerate(pairwise((channels, 64, 128, 128, 128, 128)), 1):
            row.add_module(f"conv{i}", nn.Conv2d(inputs, maps, 3, padding=1))
            row.extend([nn.MaxPool2d(2, ceil_mode=True)] if i > 1 else []).append(nn.ReLU())
        return dense(row.extend([nn.AdaptiveAvgPool2d(1), nn.Flatten()]), 128, classes)


def stacked_lstm(shape: tuple[int, ...], *sizes: int) -> nn.Module:
    """Return the LSTM of FedProx's code (Li et al. 2020). `sizes` are vocabulary size, embedding width, LSTM width and classes."""
    from trials.models.torch_modules import StackedLSTM

    if len(shape) != 1:
        raise UserError(f"LSTMs need sequences of token ids (length,); got {shape}")
    return StackedLSTM(*sizes)


class CharLSTM(Architecture):
    """next character (Shakespeare): embedding 8, LSTM 2 x 100

    Inputs and outputs share an alphabet: the ids are 0..C-1. 132,720 weights with 80 characters.
    """

    def network(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return stacked_lstm(shape, classes, 8, 100, classes)


@dataclass(frozen=True)
class SentLSTM(Architecture):
    """sentiment of words (Sent140): embedding, LSTM 2 x 256

    The embedding starts at random and is trained; FedProx's code keeps GloVe's fixed. Ids are 0..vocabulary-1, as in
    the data set `sent140(vocabulary)`. That code's linear layer of 30 units between LSTM and output is left out.
    """

    vocabulary: int = bounded(10000, 1)
    width: int = bounded(300, 1)

    def network(self, shape: tuple[int, ...], classes: int) -> nn.Module:
        return stacked_lstm(shape, self.vocabulary, self.width, 256, classes)
