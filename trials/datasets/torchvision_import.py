"""`torchvision`, importable beside a CPU-only torch.

At import torchvision registers fake versions of its compiled operators `nms` and `qnms`, and fails if the compiled library
did not load. In that case the two operators are declared here, which suffices: only data sets and models are used.
"""

from torch import library

try:
    import torchvision as torchvision
except RuntimeError as error:
    if "torchvision::" not in str(error):
        raise
    _operators = library.Library("torchvision", "FRAGMENT")
    _operators.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _operators.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import torchvision as torchvision
