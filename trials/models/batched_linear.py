"""The linear layer of k clients, apart because its class derives from one of torch's."""

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
