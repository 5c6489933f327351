"""Classes that derive from PyTorch's. They have a file of their own, because torch takes two seconds to import."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from trials.common.errors import UserError

SIDES = (None, 64, 224, 299)  # sides to which images are scaled (None: not), smallest first


class BatchedLinear(torch.autograd.Function):
    """The function x w' + b for k clients. Its gradient with respect to w has the memory layout of w, which saves a copy."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        """Return outputs (k, b, o) of k linear layers for inputs x (k, b, i). The weights w are (k, o, i), the biases (k, o)."""
        ctx.save_for_backward(x, w)
        return torch.baddbmm(b.unsqueeze(1), x, w.transpose(1, 2))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        """Return dL/dx = z w, dL/dw = z' x and dL/db, the sum of z over samples, for a loss L with dL/d(outputs) = z."""
        (z,), (x, w) = gradients, ctx.saved_tensors
        into_x = torch.bmm(z, w) if ctx.needs_input_grad[0] else None
        return into_x, torch.bmm(z.transpose(1, 2), x), z.sum(1)


class ClientLinear(nn.Linear):
    """A `torch.nn.Linear` that also takes the weights (k, o, i) and samples (k, b, i) of k clients."""

    def forward(self, x: Tensor) -> Tensor:
        """Return outputs (b, o) for samples x (b, i). For k clients, x is (k, b, i) and the outputs are (k, b, o)."""
        w, b = self.weight, self.bias
        if w.dim() == 2:
            return F.linear(x, w, b)
        if not (x.stride(0) or x.requires_grad or w.requires_grad):
            # All clients' weights on the same samples, which are then read once.
            shared = F.linear(x[0], w.flatten(0, 1), b.flatten())
            return shared.unflatten(-1, b.shape).transpose(0, 1)
        outputs: Tensor = BatchedLinear.apply(x, w, b)
        return outputs


class StackedLSTM(nn.Module):
    """An embedding of token ids (b, t), two LSTM layers, and a layer on the last position's output: logits (b, C).

    A layer has one weight (4h, i + h) on [x_t; h_(t-1)] and one bias (4h), as TensorFlow's cells do. The constant 1
    that TensorFlow adds to the forget gate is left out, so that one rule initialises all weights.
    """

    why_alone = "PyTorch's LSTM is fused for one client"

    def __init__(self, vocabulary: int, width: int, units: int, classes: int) -> None:
        super().__init__()
        # Not `nn.Embedding(...)`: to draw its weights on the meta device torch loads 70 MB of its compiler.
        table = torch.empty(vocabulary, width)
        self.embedding = nn.Embedding.from_pretrained(table, freeze=False)
        self.lstm1, self.lstm2 = (nn.Linear(i + units, 4 * units) for i in (width, units))
        self.out = nn.Linear(units, classes)

    def check(self, ids: Any) -> None:
        """Raise `UserError` if an id in an array of token ids is outside the vocabulary."""
        size, low, high = self.embedding.num_embeddings, int(ids.min()), int(ids.max())
        if low < 0 or high >= size:
            raise UserError(f"token ids must be 0..{size - 1}, but there are {low} to {high}")

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (b, C) for token ids x (b, t). The ids are not checked, since this would wait for the GPU: see `check`."""
        h = self.embedding(x.long())
        for layer in (self.lstm1, self.lstm2):
            w, b, inputs = layer.weight, layer.bias, h.shape[-1]
            zeros = h.new_zeros(1, len(h), w.shape[1] - inputs)
            weights = [w[:, :inputs], w[:, inputs:], b, torch.zeros_like(b)]
            if w.is_cuda:  # cuDNN refuses parts of a matrix
                weights = [weight.contiguous() for weight in weights]
            # cuDNN keeps what a backward pass needs in training mode only.
            options = True, 1, 0.0, w.requires_grad, False, True
            h = torch.lstm(h, (zeros, zeros), weights, *options)[0]
        return self.out(h[:, -1])


class ForImages(nn.Module):
    """A wrapper of a network for colour images, which repeats a single channel and scales images to `side` pixels."""

    def __init__(self, name: str, network: nn.Module, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.network, self.side = network, None
        network.eval()
        for self.side in SIDES:
            with suppress(RuntimeError, AssertionError, ValueError), torch.no_grad():
                if self(torch.zeros(1, *shape)).isfinite().all():
                    return
        raise UserError(f"model torchvision:{name} takes no images of {shape}")

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (b, C) for images x (b, 1 or 3, h, w)."""
        x = x.expand(-1, 3, -1, -1)
        if self.side is not None:
            size = (self.side, self.side)
            x = F.interpolate(x, size, mode="bilinear", align_corners=False)
        outputs: Tensor = self.network(x)
        return outputs


class TrainedModel(nn.Module):
    """A trained model as a module: it returns logits (b, C) of samples (b, *shape), or the one output of a regression.

    Its parameters are those of its state dict and can be trained further. They share one flat vector, as in the run
    that trained them, so that outputs equal that run's to the last bit. BatchNorm's running statistics are buffers.
    """

    def __init__(self, model: Any, tensors: dict[str, Tensor]) -> None:
        super().__init__()
        w = torch.cat([tensors[slot.name].flatten() for slot in model.layout])
        self.fitted, self.dtype, weights = model, w.dtype, model.views(w)
        for name, value in tensors.items():
            *path, leaf = name.split(".")
            owner: nn.Module = self
            for part in path:
                if part not in dict(owner.named_children()):
                    owner.add_module(part, nn.Module())
                owner = owner.get_submodule(part)
            if name in weights:
                owner.register_parameter(leaf, nn.Parameter(weights[name]))
            else:
                owner.register_buffer(leaf, value.clone())

    def forward(self, x: Tensor) -> Tensor:
        """Return outputs (b, C) for samples x (b, *shape). The samples are first converted to the weights' dtype."""
        tensors = dict(self.named_parameters()) | dict(self.named_buffers())
        return self.fitted.outputs(tensors, x.to(self.dtype))
