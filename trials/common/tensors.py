"""torch as this package imports it: `from trials.common.tensors import Tensor, torch`.

Importing torch takes two seconds, so the first computation loads it. `Tensor` is for annotations alone.
"""

import os
from typing import TYPE_CHECKING, Any

from trials.common.lazy import Lazy

# A product's bits must not depend on where in memory its matrices lie: a client's place among those that
# are computed at once says where. MKL reads this at its first product.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")

if TYPE_CHECKING:
    import torch
    import torch.nn.functional as F
    from torch import Tensor, nn
else:
    torch, nn, F = Lazy("torch"), Lazy("torch.nn"), Lazy("torch.nn.functional")
    Tensor = Any

__all__ = ["F", "Tensor", "nn", "torch"]
