"""torch as this package imports it: `from trials.common.tensors import Tensor, torch`.

Importing torch takes two seconds, so it is loaded at the first computation. `Tensor` is for annotations only.
"""

import os
from typing import TYPE_CHECKING, Any

from trials.common.lazy import Lazy

# By default the bits of MKL's matrix products depend on the matrices' memory alignment, and so on a client's
# position among those computed together. MKL reads this variable at its first product.
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")

if TYPE_CHECKING:
    import torch
    import torch.nn.functional as F
    from torch import Tensor, nn
else:
    torch, nn, F = Lazy("torch"), Lazy("torch.nn"), Lazy("torch.nn.functional")
    Tensor = Any

__all__ = ["F", "Tensor", "nn", "torch"]
