"""The models of the papers: their weights, what they compute and its slopes, of one client and of k, and refusals."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from tests.support.model_cases import CASES, CLASSES
from tests.support.simulations import settings, simulation
from trials import models
from trials.algorithms import ALGORITHMS
from trials.algorithms.fedma_fixed_width import match
from trials.common.errors import UserError
from trials.models import MODELS
from trials.models.base import Model
from trials.models.torch_modules import StackedLSTM

AT_ONCE = [name for name in CASES if not name.endswith("_lstm")]


def weights(model, k):
    return torch.from_numpy(model.initial(np.arange(k), 0))


def close(a, b):
    torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


@pytest.fixture(scope="module", params=CASES)
def fitted(request):
    """(name, model, weights of two clients)."""
    model = CASES[request.param].fitted()
    return request.param, model, weights(model, 2)


def test_every_model_has_a_case():
    assert CASES.keys() == MODELS.keys()


@pytest.mark.parametrize(
    ("name", "shape", "classes", "d"),
    [
        ("logreg", (1, 28, 28), 10, 7_850),
        ("linear", (1,), 1, 2),
        ("mlp", (1, 28, 28), 10, 199_210),
        ("mlp(3,4)", (1, 28, 28), 10, 784 * 3 + 3 + 16 + 50),
        ("mcmahan_cnn", (1, 28, 28), 10, 1_663_370),
        ("lenet5", (1, 28, 28), 10, 44_426),
        ("vgg_light", (1, 28, 28), 10, 518_538),
        ("vgg_light", (3, 32, 32), 10, 519_690),
        ("vgg_light", (1, 59, 13), 10, 518_538),
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
    ],
)
def test_counts(name, shape, classes, d):
    assert Model(models.parse(name), shape, classes).d == d


def test_parameters_lie_side_by_side_and_start_within_their_fan_in(fitted):
    """Layers count up from 0, each one weight before its bias; U(-r, r), r = 1 / sqrt(fan in); each client its own."""
    _, model, w = fitted
    assert w.shape == (2, model.d)
    place, seen = 0, []
    rows = {s.name.rpartition(".")[0]: s.shape for s in model.layout if s.name.endswith("weight")}
    for slot in model.layout:
        assert (slot.start, slot.stop - slot.start) == (place, int(np.prod(slot.shape)))
        place = slot.stop
        layer, _, kind = slot.name.rpartition(".")
        assert (kind == "weight") == (layer not in seen)
        seen += [layer] if layer not in seen else []
        assert seen[slot.layer] == layer == seen[-1]
        r, values = int(np.prod(rows[layer][1:])) ** -0.5, w[:, slot.start : slot.stop]
        assert 0 < float(values.abs().max()) <= r
        assert (values[0] != values[1]).all()
        if values.numel() > 500:
            assert float(values.abs().max()) > 0.98 * r
            assert float(values.std()) == pytest.approx(r / np.sqrt(3), rel=0.1)
            assert abs(float(values.mean())) < 5 * r / np.sqrt(3 * values.numel())
    assert place == model.d


@pytest.mark.parametrize("name", AT_ONCE)
def test_k_clients_are_k_times_one_and_padding_has_no_effect(name):
    """Also of many models on the same samples, which are then read once."""
    model = CASES[name].fitted()
    w = weights(model, 2)
    rng, (k, b, more) = np.random.default_rng(0), (2, 3, 2)
    x = CASES[name].samples(rng, k, b + more)
    y = torch.from_numpy(rng.integers(0, CLASSES, (k, b + more)))
    weight = torch.from_numpy(rng.uniform(0.1, 1, (k, b + more)))
    weight[:, b:] = 0
    losses, g = model.gradients(w, x, y, weight)
    logits, shared = model.logits(w, x[:, :b]), model.logits(w, x[0].expand(k, *x[0].shape))
    assert logits.shape == (k, b, CLASSES)
    assert not g.requires_grad
    for i in range(k):
        loss, one = model.gradients(w[i], x[i, :b], y[i, :b], weight[i, :b])
        close(losses[i], loss)
        close(g[i], one)
        assert one.norm() > 1e-3
        close(logits[i], model.logits(w[i], x[i, :b]))
        close(shared[i], model.logits(w[i], x[0]))
    loss, padded = model.gradients(w[1], x[1], y[1], weight[1])
    close(loss, losses[1])
    close(padded, g[1])


def pooled(*layers, average=False, same_side=False):
    """Convolutions, each with ReLU and pooling."""
    pool = nn.AvgPool2d(2) if average else nn.MaxPool2d(2, ceil_mode=same_side)
    return [part for layer in layers for part in (layer, nn.ReLU(), pool)]


def perceptron(*widths):
    pairs = [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.ReLU())]
    return [nn.Flatten(), *pairs[:-1]]


NETS = {
    "logreg": ((3, 2), perceptron(6, CLASSES)),
    "mlp(7,5)": ((2, 3), perceptron(6, 7, 5, CLASSES)),
    "lenet5": (
        (1, 28, 28),
        [
            *pooled(nn.Conv2d(1, 6, 5), nn.Conv2d(6, 16, 5), average=True),
            *perceptron(256, 120, 84, CLASSES),
        ],
    ),
    "mcmahan_cnn": (
        (1, 12, 8),
        [
            *pooled(nn.Conv2d(1, 32, 5, padding=2), nn.Conv2d(32, 64, 5, padding=2)),
            *perceptron(64 * 6, 512, CLASSES),
        ],
    ),
    "vgg_light": (
        (1, 11, 13),
        [
            *(nn.Conv2d(1, 64, 3, padding=1), nn.ReLU()),
            *pooled(
                nn.Conv2d(64, 128, 3, padding=1),
                *(nn.Conv2d(128, 128, 3, padding=1) for _ in range(3)),
                same_side=True,
            ),
            *(nn.AdaptiveAvgPool2d(1), nn.Conv2d(128, CLASSES, 1), nn.Flatten()),
        ],
    ),
}
"""Shape, and the layers as the paper has them."""


@pytest.mark.parametrize("name", NETS)
def test_logits_and_gradients_are_those_of_torch(name):
    shape, layers = NETS[name]
    model, rng = Model(models.parse(name), shape, CLASSES), np.random.default_rng(0)
    net, w = nn.Sequential(*layers).double(), weights(model, 1)[0]
    vector_to_parameters(w, net.parameters())
    x, y = torch.tensor(rng.normal(size=(4, *shape))), torch.tensor([0, 2, 1, 1])
    weight = torch.tensor([0.4, 0.1, 0.3, 0.2]).double()
    logits = net(x)
    loss = (nn.functional.cross_entropy(logits, y, reduction="none") * weight).sum()
    loss.backward()
    expected = parameters_to_vector([v.grad for v in net.parameters()])
    many = model.gradients(w[None], x[None], y[None], weight[None])
    for found, g in (model.gradients(w, x, y, weight), (part[0] for part in many)):
        close(found, loss.detach())
        close(g, expected)
    close(model.logits(w, x), logits.detach())


def test_stacked_lstms_are_those_of_torch():
    """A layer's weight is [weight_ih, weight_hh] side by side, its bias bias_ih with bias_hh = 0."""
    stack = StackedLSTM(13, 6, 20, CLASSES).double()
    nn.init.normal_(stack.embedding.weight)
    net = nn.LSTM(6, 20, num_layers=2, batch_first=True).double()
    with torch.no_grad():
        for i, (layer, inputs) in enumerate(((stack.lstm1, 6), (stack.lstm2, 20))):
            getattr(net, f"weight_ih_l{i}").copy_(layer.weight[:, :inputs])
            getattr(net, f"weight_hh_l{i}").copy_(layer.weight[:, inputs:])
            getattr(net, f"bias_ih_l{i}").copy_(layer.bias)
            getattr(net, f"bias_hh_l{i}").zero_()
    x = torch.randint(0, 13, (4, 7))
    expected = stack.out(net(stack.embedding(x))[0][:, -1])
    close(stack(x.double()), expected)
    (g,) = torch.autograd.grad(expected.sum(), net.weight_hh_l0)
    (found,) = torch.autograd.grad(stack(x).sum(), stack.lstm1.weight)
    close(found[:, 6:], g)


def test_fedma_takes_chains_and_names_what_is_none(fitted):
    """Matching units does not change what a chain computes."""
    name, model, w = fitted
    check = ALGORITHMS["fedma_fixed_width"]().check
    if name.endswith("_lstm"):
        with pytest.raises(UserError, match=r"needs a chain of layers, but .* does not follow"):
            check(2, model, settings())
        return
    check(2, model, settings())
    (matched,) = match(w[:1], w[1], model)
    assert (matched != w[0]).any() == (name not in ("logreg", "linear"))
    x = CASES[name].samples(np.random.default_rng(0), 2)
    close(model.logits(matched, x), model.logits(w[0], x))


# Names, and samples that do not fit


@pytest.mark.parametrize("wrong", [-1, 3])
def test_unknown_tokens_are_found(wrong):
    """Before the first step, of which a GPU cannot say so."""
    case = CASES["char_lstm"]
    data = case.partitioned([3, 2])
    data.dataset.x[1, 2] = wrong
    with pytest.raises(UserError, match=r"token ids must be 0\.\.2"):
        simulation(ALGORITHMS["fedavg"](), data, settings(), case.text)
