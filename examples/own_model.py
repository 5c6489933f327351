"""A network of your own: any `torch.nn.Module`, returned by a function of the samples' shape and the classes.

suite check examples/own_model.py:make
suite run --model examples/own_model.py:make
suite sweep quickstart --models "logreg,examples/own_model.py:make(width=64)" --name mine
"""

from torch import Tensor, nn


class Network(nn.Module):
    """A convolution with BatchNorm, a hidden layer with dropout."""

    def __init__(self, shape: tuple[int, ...], classes: int, width: int) -> None:
        super().__init__()
        channels, height, breadth = shape
        self.conv = nn.Sequential(
            nn.Conv2d(channels, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()
        )
        self.hidden = nn.Linear(8 * (height // 2) * (breadth // 2), width)
        self.dropout = nn.Dropout(0.2)
        self.out = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (samples, classes) of x (samples, *shape)."""
        h = nn.functional.max_pool2d(self.conv(x), 2).flatten(1)
        return self.out(self.dropout(nn.functional.relu(self.hidden(h))))


def make(shape: tuple[int, ...], classes: int, width: int = 32) -> nn.Module:
    """Return the network for samples of `shape`, such as (1, 8, 8) of digits. What follows `classes` are arguments of the
    name, by their names: `own_model.py:make(width=64)`.
    """
    return Network(shape, classes, width)
