"""Models against modules of torch.nn written here, with the same weights, and their counts."""

from math import gcd

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from trials import models
from trials.datasets.torchvision_import import torchvision
from trials.models.base import Model
from trials.scoring.losses import LOSSES

CLASSES = 4


@pytest.mark.parametrize(
    ("name", "shape", "classes", "d"),
    [
        ("mlp", (1, 28, 28), 10, 199_210),
        ("mcmahan_cnn", (1, 28, 28), 10, 1_663_370),
        ("lenet5", (1, 28, 28), 10, 44_426),
        ("vgg_light", (1, 28, 28), 10, 518_538),
        ("vgg_light", (3, 32, 32), 10, 519_690),
        ("vgg_light", (1, 59, 13), 10, 518_538),
        ("linear", (1,), 1, 2),
        # 156 + (150 + 1) 32 + 801 120 + 121 84 + 85 26, and with 16 first maps
        ("lenet5_fedagg", (1, 28, 28), 26, 156 + 4_832 + 96_120 + 10_164 + 2_210),
        ("lenet5_fedagg(16)", (1, 28, 28), 26, 416 + 12_832 + 96_120 + 10_164 + 2_210),
        # 28 32 + 289 64 + 577 64 + 1025 512 + 513 10
        ("cifar10_cnn", (3, 32, 32), 10, 896 + 18_496 + 36_928 + 524_800 + 5_130),
        # 76 64 + 1601 64 + 1601 384 + 385 192 + 193 10
        ("feddc_cnn", (3, 32, 32), 10, 4_864 + 102_464 + 614_784 + 73_920 + 1_930),
        # 80 8 + 109 400 + 201 400 + 101 80
        ("char_lstm", (80,), 80, 640 + 43_600 + 80_400 + 8_080),
        # 10000 300 + 557 1024 + 513 1024 + 257 2
        ("sent_lstm", (25,), 2, 3_000_000 + 570_368 + 525_312 + 514),
        ("resnet18", (3, 32, 32), 10, 11_173_962),
        ("alexnet", (3, 32, 32), 10, 2_472_266),
    ],
)
def test_counts(name, shape, classes, d):
    assert Model(models.parse(name), shape, classes).d == d


@pytest.mark.parametrize(
    ("name", "stem", "head"),
    [("resnet18", 49 - 9, 0), ("googlenet", 49 - 9, 0), ("densenet121", 49 - 9, 0)],
)
@pytest.mark.parametrize("norm", ["group", "batch"])
def test_counts_of_torchvision(name, stem, head, norm):
    """Its own network at 1000 classes, less what a 3x3 first convolution saves of a 7x7 one."""
    more = {"aux_logits": False, "init_weights": False} if name == "googlenet" else {}
    with torch.device("meta"):
        theirs = sum(v.numel() for v in getattr(torchvision.models, name)(**more).parameters())
    ours = Model(models.parse(f"{name}({norm})"), (3, 32, 32), 1000).d
    assert ours == theirs - 64 * 3 * stem


@pytest.mark.parametrize(
    ("name", "theirs", "width"),
    [
        ("vgg11", "vgg11_bn", 512),
        ("vgg11(batch)", "vgg11_bn", 512),
        ("vgg11(none)", "vgg11", 512),
        ("alexnet", "alexnet", 256),
    ],
)
def test_counts_of_torchvisions_features(name, theirs, width):
    with torch.device("meta"):
        features = getattr(torchvision.models, theirs)().features
    expected = sum(v.numel() for v in features.parameters()) + (width + 1) * 7
    assert Model(models.parse(name), (3, 32, 32), 7).d == expected


# The same numbers as modules of torch.nn


def lenet(first, second, padding, flat):
    return nn.Sequential(
        nn.Conv2d(1, first, 5, padding=padding),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Conv2d(first, second, 5),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        *(nn.Linear(flat, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, CLASSES)),
    )


def max_pooled(*layers, same=False):
    """Convolutions, each with ReLU and max-pooling."""
    pairs = [(conv, nn.ReLU(), nn.MaxPool2d(2, ceil_mode=same)) for conv in layers]
    return [module for pair in pairs for module in pair]


def resnet(norm):
    net = torchvision.models.resnet18(num_classes=CLASSES, norm_layer=norm)
    net.conv1, net.maxpool = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
    return net


def googlenet():
    net = torchvision.models.googlenet(
        num_classes=CLASSES, aux_logits=False, init_weights=False, dropout=0.0
    )
    net.conv1.conv, net.maxpool1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.Identity()
    return net


def densenet():
    net = torchvision.models.densenet121(num_classes=CLASSES)
    net.features.conv0 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    net.features.pool0 = nn.Identity()
    return net


def vgg(norm):
    """Configuration A, written out; `norm` makes a normalisation layer, if any."""
    layers, inputs = [], 3
    for width in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
        if width == 0:
            layers.append(nn.MaxPool2d(2))
            continue
        layers += [nn.Conv2d(inputs, width, 3, padding=1), *norm(width), nn.ReLU()]
        inputs = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(512, CLASSES))


def alexnet():
    return nn.Sequential(
        *(nn.Conv2d(3, 64, 11, 4, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(192, 384, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(384, 256, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(256, CLASSES)),
    )


def groups(channels):
    return nn.GroupNorm(gcd(32, channels), channels)


NETS = {
    "logreg": ((3, 2), lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, CLASSES))),
    "linear": ((5,), lambda: nn.Linear(5, CLASSES)),
    "mlp(7,5)": (
        (2, 3),
        lambda: nn.Sequential(
            *(nn.Flatten(), nn.Linear(6, 7), nn.ReLU(), nn.Linear(7, 5), nn.ReLU()),
            nn.Linear(5, CLASSES),
        ),
    ),
    "lenet5": ((1, 28, 28), lambda: lenet(6, 16, 0, 256)),
    "lenet5_fedagg": ((1, 28, 28), lambda: lenet(6, 32, 2, 800)),
    "lenet5_fedagg(16)": ((1, 14, 16), lambda: lenet(16, 32, 2, 64)),
    "mcmahan_cnn": (
        (1, 12, 8),
        lambda: nn.Sequential(
            *max_pooled(nn.Conv2d(1, 32, 5, padding=2), nn.Conv2d(32, 64, 5, padding=2)),
            *(nn.Flatten(), nn.Linear(64 * 6, 512), nn.ReLU(), nn.Linear(512, CLASSES)),
        ),
    ),
    "cifar10_cnn": (
        (3, 16, 8),
        lambda: nn.Sequential(
            *max_pooled(
                nn.Conv2d(3, 32, 3, padding=1),
                nn.Conv2d(32, 64, 3, padding=1),
                nn.Conv2d(64, 64, 3, padding=1),
            ),
            *(nn.Flatten(), nn.Linear(64 * 2, 512), nn.ReLU(), nn.Linear(512, CLASSES)),
        ),
    ),
    "feddc_cnn": (
        (3, 20, 16),
        lambda: nn.Sequential(
            *max_pooled(nn.Conv2d(3, 64, 5), nn.Conv2d(64, 64, 5)),
            *(nn.Flatten(), nn.Linear(64 * 2, 384), nn.ReLU()),
            *(nn.Linear(384, 192), nn.ReLU(), nn.Linear(192, CLASSES)),
        ),
    ),
    "vgg_light": (
        (1, 11, 13),
        lambda: nn.Sequential(
            *(nn.Conv2d(1, 64, 3, padding=1), nn.ReLU()),
            *max_pooled(
                nn.Conv2d(64, 128, 3, padding=1),
                *(nn.Conv2d(128, 128, 3, padding=1) for _ in range(3)),
                same=True,
            ),
            *(nn.AdaptiveAvgPool2d(1), nn.Conv2d(128, CLASSES, 1), nn.Flatten()),
        ),
    ),
    "vgg11": ((3, 32, 32), lambda: vgg(lambda c: [groups(c)])),
    "vgg11(batch)": ((3, 32, 32), lambda: vgg(lambda c: [nn.BatchNorm2d(c)])),
    "alexnet": ((3, 32, 32), alexnet),
    "resnet18": ((3, 16, 16), lambda: resnet(groups)),
    "googlenet(batch)": ((3, 16, 16), googlenet),
    "densenet121(batch)": ((3, 16, 16), densenet),
}
"""Shape, and the module. BatchNorm in training mode uses the batch's own statistics."""


@pytest.mark.parametrize("name", NETS)
def test_logits_and_gradients_are_those_of_torch(name):
    shape, make = NETS[name]
    model = Model(models.parse(name), shape, CLASSES, LOSSES["cross_entropy"])
    rng, net = np.random.default_rng(0), make().double().train()
    w = torch.from_numpy(model.initial(np.array([1]), 0)[0])
    w += torch.from_numpy(rng.normal(size=model.d) * 1e-2)  # so that scales differ from 1
    vector_to_parameters(w, net.parameters())
    x, y = torch.tensor(rng.normal(size=(4, *shape))), torch.tensor([0, 3, 1, 1])
    weight = torch.tensor([0.4, 0.1, 0.3, 0.2]).double()
    logits = net(x)
    loss = (nn.functional.cross_entropy(logits, y, reduction="none") * weight).sum()
    loss.backward()
    expected = parameters_to_vector([v.grad for v in net.parameters()])
    found, g = model.gradients(w, x, y, weight)
    torch.testing.assert_close(model.logits(w, x), logits.detach(), rtol=0, atol=1e-10)
    torch.testing.assert_close(found, loss.detach(), rtol=0, atol=1e-10)
    torch.testing.assert_close(g, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    "name", [n for n in NETS if n.startswith(("res", "goog", "dense", "vgg11"))]
)
def test_layers_stand_in_the_order_of_their_first_use(name):
    shape, make = NETS[name]
    net, used = make().train(), []
    names = {module: path for path, module in net.named_modules()}
    for module in names:
        if list(module.parameters(recurse=False)):
            module.register_forward_hook(lambda m, *_: used.append(names[m]))
    net(torch.zeros(2, *shape))
    used = list(dict.fromkeys(used))
    model = Model(models.parse(name), shape, CLASSES)
    slots = {slot.layer: slot for slot in model.layout if slot.name.endswith("weight")}
    modules = dict(net.named_modules())
    assert len(slots) == len(used)
    for i, path in enumerate(used):
        assert slots[i].shape == tuple(modules[path].weight.shape)
        if not name.startswith("vgg"):
            assert slots[i].name == f"{path}.weight"


@pytest.mark.parametrize(
    ("name", "length", "vocabulary", "width", "units"),
    [("char_lstm", 9, CLASSES, 8, 100), ("sent_lstm(13,6)", 7, 13, 6, 256)],
)
def test_stacked_lstms_are_those_of_torch(name, length, vocabulary, width, units):
    """A layer's weight is [weight_ih, weight_hh] side by side, its bias bias_ih with bias_hh = 0."""
    model = Model(models.parse(name), (length,), CLASSES, LOSSES["cross_entropy"])
    rng = np.random.default_rng(0)
    w = torch.from_numpy(model.initial(np.array([1]), 0)[0])
    p = model.views(w)
    table = nn.Embedding(vocabulary, width).double()
    net = nn.LSTM(width, units, num_layers=2, batch_first=True).double()
    head = nn.Linear(units, CLASSES).double()
    with torch.no_grad():
        table.weight.copy_(p["embedding.weight"])
        for layer, inputs in (("0", width), ("1", units)):
            weight, bias = (p[f"lstm{int(layer) + 1}.{kind}"] for kind in ("weight", "bias"))
            getattr(net, f"weight_ih_l{layer}").copy_(weight[:, :inputs])
            getattr(net, f"weight_hh_l{layer}").copy_(weight[:, inputs:])
            getattr(net, f"bias_ih_l{layer}").copy_(bias)
            getattr(net, f"bias_hh_l{layer}").zero_()
        head.weight.copy_(p["out.weight"])
        head.bias.copy_(p["out.bias"])
    x, y = rng.integers(0, vocabulary, (4, length)), torch.tensor([0, 3, 1, 1])
    logits = head(net(table(torch.tensor(x)))[0][:, -1])
    nn.functional.cross_entropy(logits, y).backward()
    parts = [table.weight.grad]
    for layer in ("0", "1"):
        weights = [getattr(net, f"weight_{kind}_l{layer}").grad for kind in ("ih", "hh")]
        parts += [torch.cat(weights, 1), getattr(net, f"bias_ih_l{layer}").grad]
    expected = torch.cat([v.flatten() for v in (*parts, head.weight.grad, head.bias.grad)])
    share = torch.full((4,), 0.25).double()
    _, g = model.gradients(w, torch.tensor(x, dtype=torch.float64), y, share)
    found = model.logits(w, torch.tensor(x, dtype=torch.float64))
    torch.testing.assert_close(found, logits.detach(), rtol=0, atol=1e-10)
    torch.testing.assert_close(g, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["googlenet", "densenet121"])
@pytest.mark.parametrize("norm", ["group", "batch"])
def test_with_group_norm_a_sample_is_alone(name, norm):
    """And with BatchNorm it is not; whatever the mode, there is no buffer."""
    shape = (1, 16, 16)
    model = Model(models.parse(f"{name}({norm})"), shape, CLASSES)
    w = torch.from_numpy(model.initial(np.array([1]), 0)[0]).float()
    x = torch.from_numpy(np.random.default_rng(0).normal(size=(3, *shape))).float()
    together, alone = model.logits(w, x), model.logits(w, x[:2])
    apart = float((together[:2] - alone).abs().max())
    assert apart < 1e-4 if norm == "group" else apart > 1e-2


def test_linear_regression_by_hand():
    """Squared error of x w + b: the gradient is 2 sum_i weight_i (x_i w + b - y_i) [x_i, 1]."""

    def squared(outputs, y):
        return (outputs[..., 0] - y) ** 2

    model = Model(models.parse("linear"), (1,), 1, squared)
    w = torch.tensor([[0.5, 1.0], [0.0, 0.0]]).double()
    x = torch.tensor([[[2.0], [-1.0]], [[3.0], [1.0]]]).double()
    y = torch.tensor([[1.0, 1.0], [2.0, 0.0]]).double()
    weight = torch.full((2, 2), 0.5).double()
    losses, g = model.gradients(w, x, y, weight)
    # residuals 1, -1/2 and -2, 0
    torch.testing.assert_close(losses, torch.tensor([0.625, 2.0]).double())
    torch.testing.assert_close(g, torch.tensor([[2.5, 0.5], [-6.0, -2.0]]).double())
