"""Modules of others, as their authors would write them; some as they should not."""

import torch
from torch import nn
from torch.nn import functional as F


def logreg(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(torch.Size(shape).numel(), classes))


def mlp(shape, classes, width=20):
    inputs = torch.Size(shape).numel()
    hidden = [nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(width, classes))


def lenet5(shape, classes):
    side = ((shape[1] - 4) // 2 - 4) // 2
    return nn.Sequential(
        *(nn.Conv2d(shape[0], 6, 5), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Flatten(), nn.Linear(16 * side**2, 120), nn.ReLU()),
        *(nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, classes)),
    )


def resnet18(shape, classes):
    from trials.datasets.torchvision_import import torchvision

    network = torchvision.models.resnet18(num_classes=classes)
    network.conv1 = nn.Conv2d(shape[0], 64, 3, padding=1, bias=False)
    network.maxpool = nn.Identity()
    return network


class Normalised(nn.Module):
    """BatchNorm after a convolution and after a linear layer, dropout, a constant of its own."""

    def __init__(self, shape, classes):
        super().__init__()
        self.conv = nn.Conv2d(shape[0], 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.hidden = nn.Linear(4 * (shape[1] // 2) * (shape[2] // 2), 16)
        self.norm2 = nn.BatchNorm1d(16)
        self.dropout = nn.Dropout(0.25)
        self.out = nn.Linear(16, classes)
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x):
        h = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        h = F.relu(self.norm2(self.hidden(h.flatten(1))))
        return self.out(self.dropout(h)) * self.scale


def normalising(shape, classes):
    return nn.Sequential(nn.BatchNorm1d(shape[0]), nn.Linear(shape[0], classes))


class Activated(nn.BatchNorm1d):
    """As timm's BatchNormAct2d."""

    def forward(self, x):
        return F.relu(super().forward(x))


def fused(shape, classes, norm=Activated):
    inputs = torch.Size(shape).numel()
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 8), norm(8), nn.Linear(8, classes))


class Tempered(nn.Module):
    """A parameter without dimensions."""

    def __init__(self, shape, classes):
        super().__init__()
        self.net = mlp(shape, classes)
        self.temperature = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        return self.net(x) / self.temperature


class Cast(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.net = mlp(shape, classes)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.net(x)


class Dropping(nn.Module):
    def __init__(self, shape, classes):
        super().__init__()
        self.net = mlp(shape, classes)

    def forward(self, x):
        return self.net(F.dropout(x, 0.3, self.training))


class Branching(nn.Module):
    """Control flow that depends on the data, which vmap cannot follow."""

    def __init__(self, shape, classes):
        super().__init__()
        self.net = mlp(shape, classes)

    def forward(self, x):
        h = self.net(x)
        return h if h.sum() > 0 else 2 * h


def not_a_module(shape, classes):
    return [nn.Linear(2, 2)]


def nothing_to_train(shape, classes):
    return nn.Flatten()


def wrong_outputs(shape, classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(torch.Size(shape).numel(), classes + 1))


def raises(shape, classes):
    raise ValueError("no such shape")


class InPlace(Dropping):
    def forward(self, x):
        return self.net(x.add_(1.0))


class Buffered(Dropping):
    def __init__(self, shape, classes):
        super().__init__(shape, classes)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        self.seen += len(x)
        return self.net(x)


class Kept(nn.BatchNorm1d):
    """BatchNorm that never trains, by its own `train`."""

    def train(self, mode=True):
        return super().train(False)


def kept(shape, classes):
    return fused(shape, classes, Kept)


def shared(shape, classes):
    norm = nn.BatchNorm1d(8)
    return fused(shape, classes, lambda width: nn.Sequential(norm, nn.ReLU(), norm))


def instance_norm(shape, classes):
    norm = nn.Sequential(nn.Unflatten(1, (4, 2)), nn.InstanceNorm1d(4, track_running_stats=True))
    return fused(shape, classes, lambda width: nn.Sequential(*norm, nn.Flatten()))


def double(shape, classes):
    return mlp(shape, classes).double()


def likely(shape, classes):
    return nn.Sequential(mlp(shape, classes), nn.Softmax(1))


class Moving(Dropping):
    """A mean of what was seen, which each step puts in the place of the last."""

    def __init__(self, shape, classes):
        super().__init__(shape, classes)
        self.register_buffer("mean", torch.zeros(shape))

    def forward(self, x):
        if self.training:
            self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
        return self.net(x - self.mean)


class Hidden(Dropping):
    """A weight that is trained by itself alone."""

    def __init__(self, shape, classes):
        super().__init__(shape, classes)
        self.scale = torch.ones((), requires_grad=True)

    def forward(self, x):
        return self.net(x) * self.scale


class Unseeded(Dropping):
    def __init__(self, shape, classes):
        super().__init__(shape, classes)
        import os

        with torch.no_grad():
            self.net[1].bias.fill_(int.from_bytes(os.urandom(2)))
