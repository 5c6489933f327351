"""`torchvision`, importable beside a CPU-only torch.

torchvision registers fakes for its compiled operators `nms` and `qnms` at import and fails when the compiled library did
not load. Only its data sets and models are used here, so in that case the two get a schema, which is all it asks for.
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
