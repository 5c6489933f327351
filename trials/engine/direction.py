"""The direction of a local step, as algorithms write it and as the compiled loop needs it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trials.common.tensors import Tensor, torch

Direction = Callable[..., Tensor]
"""`direction(w, g, **rows)` returns the direction (k, d) of a local step from weights w and gradients g, both (k, d)."""


class NotAffineError(TypeError):
    """The error of a local step whose direction is not affine in the weights and gradients."""


@dataclass(frozen=True)
class Affine:
    """The direction of a local step as scale * g + pull * w + shift, computed with symbols for the weights w and gradients g.

    `scale` and `pull` are numbers or (k, 1). `shift` is a number, or a tensor that broadcasts to (k, d). Sums,
    differences, and products with numbers and (k, 1) tensors keep the form. Anything else raises `NotAffineError`, or
    `AttributeError` for attributes that only tensors have.
    """

    scale: float | Tensor = 0.0
    pull: float | Tensor = 0.0
    shift: float | Tensor = 0.0

    def __add__(self, other: Any) -> "Affine":
        if isinstance(other, Affine):
            return Affine(
                self.scale + other.scale, self.pull + other.pull, self.shift + other.shift
            )
        return Affine(self.scale, self.pull, self.shift + _value(other))

    def __mul__(self, other: Any) -> "Affine":
        factor = _value(other)
        if isinstance(factor, torch.Tensor) and factor.dim() and factor.shape[-1] != 1:
            raise NotAffineError("weights are multiplied one by one")
        return Affine(self.scale * factor, self.pull * factor, self.shift * factor)

    def __neg__(self) -> "Affine":
        return self * -1.0

    def __sub__(self, other: Any) -> "Affine":
        return self + -other

    def __rsub__(self, other: Any) -> "Affine":
        return -self + other

    def __truediv__(self, other: Any) -> "Affine":
        return self * (1.0 / _value(other))

    __radd__ = __add__
    __rmul__ = __mul__

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> "Affine":
        """Return tensor + form, tensor - form or tensor * form as an affine form. Raise `NotAffineError` for other operations."""
        operator = function.__name__.strip("_")
        name = operator.removeprefix("r")
        if kwargs or len(args) != 2 or name not in ("add", "sub", "mul"):
            raise NotAffineError(f"{function.__name__} of weights or gradients")
        left, right = args if operator == name else reversed(args)
        if name == "mul":
            return right * left if isinstance(right, Affine) else left * right
        right = right if name == "add" else -right
        return right + left if isinstance(right, Affine) else left + right


def affine(direction: Direction, rows: dict[str, Tensor]) -> Affine | None:
    """Return direction(w, g, **rows) as scale * g + pull * w + shift, for weights w and gradients g; None if it is not affine."""
    try:
        form = direction(Affine(pull=1.0), Affine(scale=1.0), **rows)
    except (TypeError, AttributeError):
        return None
    return form if isinstance(form, Affine) else None


def column(value: float | Tensor, like: Tensor) -> Tensor:
    """Return `value`, which is a number or a tensor (k, 1), as a tensor (k,). Its device and dtype are those of `like` (k, d)."""
    if not isinstance(value, torch.Tensor):
        return like.new_full((len(like),), value)
    full = value.to(like)
    return full.reshape(-1).expand(len(like)).contiguous()


def _value(other: Any) -> float | Tensor:
    if isinstance(other, bool) or not isinstance(other, int | float | torch.Tensor):
        raise NotAffineError(f"arithmetic with {type(other).__name__}")
    return other
