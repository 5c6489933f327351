"""The linear layer of k clients, apart because its classes derive from torch's."""

from typing import Any

import torch
from torch import Tensor


class BatchedLinear(torch.autograd.Function):
    """x w' + b of k clients, whose gradient in w is laid out as w is, which saves copying it."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        """(k, b, o) of x (k, b, i), w (k, o, i), b (k, o)."""
        ctx.save_for_backward(x, w)
        return torch.baddbmm(b.unsqueeze(1), x, w.transpose(1, 2))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        """dF/dx = z w, dF/dw = z' x, dF/db = sum_b z for z = dF/d(outputs)."""
        (z,), (x, w) = gradients, ctx.saved_tensors
        into_x = torch.bmm(z, w) if ctx.needs_input_grad[0] else None
        return into_x, torch.bmm(z.transpose(1, 2), x), z.sum(1)


class ClientLinear(torch.autograd.Function):
    """x w' + b of one client, and under `torch.func.vmap` `BatchedLinear` of all. PyTorch's own rule lays the gradient
    in w out as its transpose, which has to be copied.
    """

    @staticmethod
    def forward(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        """(..., o) of x (..., i), w (o, i), b (o)."""
        return torch.nn.functional.linear(x, w, b)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        """Keep what the gradients are made of."""
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        """As `BatchedLinear`'s, of one client."""
        (z,), (x, w) = gradients, ctx.saved_tensors
        rows = z.flatten(0, -2)
        into_x = z @ w if ctx.needs_input_grad[0] else None
        return into_x, rows.T @ x.flatten(0, -2), rows.sum(0)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], x: Tensor, w: Tensor, b: Tensor
    ) -> tuple[Tensor, int]:
        """(k, ..., o), batched along its first axis, as what is given without is repeated."""
        x, w, b = (
            value.expand(info.batch_size, *value.shape) if at is None else value.movedim(at, 0)
            for value, at in zip((x, w, b), in_dims, strict=True)
        )
        outputs: Tensor = BatchedLinear.apply(x.flatten(1, -2), w, b)
        return outputs.unflatten(1, x.shape[1:-1]), 0


class OwnLinear(torch.nn.Linear):
    """`torch.nn.Linear` as clients are computed at once fastest."""

    def forward(self, x: Tensor) -> Tensor:
        """The same outputs; of one sample, and without a bias, PyTorch's own."""
        if self.bias is None or x.dim() < 2:
            return super().forward(x)
        outputs: Tensor = ClientLinear.apply(x, self.weight, self.bias)
        return outputs
