"""torch as this package imports it: `from trials.tensors import Tensor, torch`.

Importing torch takes two seconds. What is declared here (ranges, papers, names, settings) is read by
commands that compute nothing, so torch is loaded by the first that does. `Tensor` is for annotations;
`isinstance` takes `torch.Tensor`. What needs torch to be defined, a class that derives from one of
torch's, lies in a module of its own that is imported where it is used.
"""

from typing import TYPE_CHECKING, Any

from trials.lazy import Lazy

if TYPE_CHECKING:
    import torch
    import torch.nn.functional as F  # noqa: N812
    from torch import Tensor, nn
else:
    torch, nn, F = Lazy("torch"), Lazy("torch.nn"), Lazy("torch.nn.functional")
    Tensor = Any

__all__ = ["F", "Tensor", "nn", "torch"]
