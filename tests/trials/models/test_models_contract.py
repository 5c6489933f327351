"""What holds for every model: layout, start, k clients as one, padding, training, refusals."""

from math import inf

import numpy as np
import pytest
import torch

from tests.support.model_cases import CASES, CLASSES, EXTRA
from tests.support.simulations import digest, finish, same, settings, simulation
from trials import models
from trials.algorithms import ALGORITHMS
from trials.algorithms.fedma_fixed_width import match
from trials.common.errors import UserError
from trials.models import MODELS
from trials.models.base import Model
from trials.scoring.losses import LOSSES

KINDS = ("cross_entropy", "two_sided")
ALL = {**CASES, **EXTRA}
PARALLEL = [name for name in CASES if models.parse(name).batchable]
NETWORKS = ["vgg11", "resnet18", "alexnet", "googlenet", "densenet121"]
CHAINS = """logreg linear mlp lenet5 lenet5_fedagg lenet5_fedagg(16) mcmahan_cnn cifar10_cnn feddc_cnn
vgg_light alexnet vgg11(none)"""
"""What FedMA at fixed width can match: the inputs of a layer are the units of the one before."""


def weights(model, k, seed=0):
    return torch.from_numpy(model.initial(np.arange(k), seed))


def close(a, b, tolerance=1e-10):
    torch.testing.assert_close(a, b, rtol=0, atol=tolerance)


@pytest.fixture(scope="module", params=ALL)
def fitted(request):
    """(name, model, weights of two clients); made once a model, since large ones take a while."""
    model = ALL[request.param].fitted()
    return request.param, model, weights(model, 2)


def test_every_model_has_a_case():
    assert CASES.keys() == MODELS.keys()
    assert set(PARALLEL) == MODELS.keys() - set(NETWORKS)


def test_layout(fitted):
    """Parameters lie side by side, layers count up from 0, each one weight before its bias."""
    _, model, _ = fitted
    place, seen = 0, []
    for slot in model.layout:
        assert slot.start == place
        assert slot.stop - slot.start == int(np.prod(slot.shape))
        place = slot.stop
        layer, _, kind = slot.name.rpartition(".")
        assert (kind == "weight") == (layer not in seen)
        if layer not in seen:
            seen.append(layer)
        assert seen[slot.layer] == layer == seen[-1]
    assert place == model.d


def test_initial_weights(fitted):
    """U(-r, r), r = 1 / sqrt(fan in); normalisation layers 1 and 0; each client its own."""
    _, model, w = fitted
    assert w.shape == (2, model.d)
    rows = {s.name.rpartition(".")[0]: s.shape for s in model.layout if s.name.endswith("weight")}
    for slot in model.layout:
        shape, values = rows[slot.name.rpartition(".")[0]], w[:, slot.start : slot.stop]
        if len(shape) == 1:
            assert (values == (1 if slot.name.endswith("weight") else 0)).all()
            continue
        r = int(np.prod(shape[1:])) ** -0.5
        largest = float(values.abs().max())
        assert largest <= r
        assert (values[0] != values[1]).all()
        if values.numel() > 500:
            assert largest > 0.98 * r
            assert float(values.std()) == pytest.approx(r / np.sqrt(3), rel=0.1)
            assert abs(float(values.mean())) < 5 * r / np.sqrt(3 * values.numel())


def test_k_clients_are_k_times_one_and_padding_has_no_effect(fitted):
    """Also in one client's batch. Any samples may be padding."""
    name, model, w = fitted
    rng, (k, b, more) = np.random.default_rng(0), (2, 3, 2)
    x = ALL[name].samples(rng, k, b + more)
    y = torch.from_numpy(rng.integers(0, CLASSES, (k, b + more)))
    weight = torch.from_numpy(rng.uniform(0.1, 1, (k, b + more)))
    weight[:, b:] = 0
    losses, g = model.gradients(w, x, y, weight)
    logits = model.logits(w, x[:, :b])
    assert logits.shape == (k, b, CLASSES)
    assert losses.shape == (k,)
    assert not g.requires_grad
    for i in range(k):
        loss, one = model.gradients(w[i], x[i, :b], y[i, :b], weight[i, :b])
        close(losses[i], loss)
        close(g[i], one)
        assert one.norm() > 1e-3
        close(logits[i], model.logits(w[i], x[i, :b]))
    loss, padded = model.gradients(w[1], x[1], y[1], weight[1])
    close(loss, losses[1])
    close(padded, g[1])


@pytest.mark.parametrize("loss", KINDS)
@pytest.mark.parametrize("name", PARALLEL)
def test_the_gradient_is_the_slope_of_the_loss(name, loss):
    """Along a random direction; steps are small enough to meet no kink of a ReLU."""
    rng, case = np.random.default_rng(4), CASES[name]
    model = case.fitted(LOSSES[loss])
    w, x = weights(model, 1), case.samples(rng, 1, 3)
    y, weight = torch.tensor([[0, 2, 1]]), torch.tensor([[0.5, 0.2, 0.3]]).double()
    _, g = model.gradients(w, x, y, weight)
    u, h = torch.from_numpy(rng.normal(size=(1, model.d)) / np.sqrt(model.d)), 1e-6
    up, down = ((model.loss(model.logits(w + s * u, x), y) * weight).sum() for s in (h, -h))
    assert float((up - down) / (2 * h)) == pytest.approx(float((g * u).sum()), rel=1e-3, abs=1e-7)


@pytest.mark.parametrize("loss", KINDS)
@pytest.mark.parametrize("name", PARALLEL)
def test_batched_equals_sequential(name, loss):
    """Unequal clients, unequal work, so that there are paddings and rows that end early."""
    common = {"loss": loss, "batch_size": 2, "rounds": 2, "momentum": 0.5, "clip_norm": 1.0}
    runs = [
        finish(
            simulation(
                ALGORITHMS["fedavg"](lr=0.05),
                CASES[name].partitioned([3, 1, 2]),
                settings(local_steps=2, execution=execution, **common),
                CASES[name].text,
                "iid+system(steps=1..3)",
            )
        )
        for execution in ("batched", "sequential")
    ]
    assert [run.fed.execution for run in runs] == ["batched", "sequential"]
    same(*runs, 1e-10)
    a, b = (run.history[-1] for run in runs)
    for metric in ("train_loss", "test_loss"):
        assert a[metric] == pytest.approx(b[metric], abs=1e-10)


@pytest.mark.parametrize("loss", KINDS)
@pytest.mark.parametrize("name", ALL)
def test_a_few_steps_of_fedavg_lower_the_loss(name, loss):
    """Two clients whose three samples each step sees all; normalised networks are steep."""
    steep = name.partition("(")[0] in NETWORKS and name not in CHAINS.split()
    data = ALL[name].partitioned([2, 1])
    run = simulation(
        ALGORITHMS["fedavg"](lr=1e-4 if steep else 0.05),
        data,
        settings(rounds=1, local_steps=2, loss=loss, dtype="float32"),
        ALL[name].text,
    )
    assert (run.fed.execution == "sequential") == (run.fed.model.architecture.batched_up_to < inf)
    before = float(run.fed.evaluate(run.state["w"], data.train)["loss"])
    finish(run)
    assert not run.diverged
    assert float(run.fed.evaluate(run.state["w"], data.train)["loss"]) < before


@pytest.mark.parametrize("name", ["char_lstm", "mcmahan_cnn", "alexnet"])
def test_equal_runs_are_equal_to_the_bit(name):
    runs = [
        finish(
            simulation(
                ALGORITHMS["fedavg"](lr=0.01),
                CASES[name].partitioned([2, 3]),
                settings(rounds=1, local_steps=1, dtype="float32"),
                CASES[name].text,
            )
        )
        for _ in range(2)
    ]
    assert digest(runs[0]) == digest(runs[1])


def test_networks_run_one_client_after_the_other():
    """Also where a person asks for clients at once."""
    common = settings(execution="batched", dtype="float32")
    data = CASES["alexnet"].partitioned([1, 1])
    assert simulation(ALGORITHMS["fedavg"](), data, common, "alexnet").fed.execution == "sequential"


def test_fedma_takes_chains_and_names_what_is_none(fitted):
    """Matching units does not change what a chain computes."""
    name, model, w = fitted
    check = ALGORITHMS["fedma_fixed_width"]().check
    if name not in CHAINS.split():
        with pytest.raises(UserError, match=r"needs a chain of layers, but .* does not follow"):
            check(2, model, settings())
        return
    check(2, model, settings())
    (matched,) = match(w[:1], w[1], model)
    assert (matched != w[0]).any() == (name not in ("logreg", "linear"))
    x = ALL[name].samples(np.random.default_rng(0), 2)
    close(model.logits(matched, x), model.logits(w[0], x))


# Names, and samples that do not fit

LEAST = {
    "lenet5": 16,
    "lenet5_fedagg": 12,
    "mcmahan_cnn": 4,
    "cifar10_cnn": 8,
    "feddc_cnn": 16,
    "vgg_light": 1,
    "vgg11": 32,
    "resnet18": 16,
    "alexnet": 29,
    "googlenet": 16,
    "densenet121": 16,
}
"""By hand: 1 pixel backwards through poolings (2 s) and unpadded 5x5 convolutions (s + 4)."""


@pytest.mark.parametrize(("name", "side"), LEAST.items())
def test_the_least_image_and_less(name, side):
    for shape in [(1, side - 1, 40), (1, 40, side - 1), (40, 40), (784,)]:
        with pytest.raises(UserError, match=f"model {name} needs images .* {side}x{side}, because"):
            Model(models.parse(name), shape, 2)
    model = Model(models.parse(name), (1, side, side), 2)
    logits = model.logits(torch.full((model.d,), 0.01), torch.ones(1, 1, side, side))
    assert logits.shape == (1, 2)
    assert torch.isfinite(logits).all()


@pytest.mark.parametrize("name", ["char_lstm", "sent_lstm"])
@pytest.mark.parametrize("shape", [(1, 28, 28), (80, 2)])
def test_text_models_refuse_what_is_no_sequence(name, shape):
    with pytest.raises(UserError, match=f"model {name} needs sequences of token ids"):
        Model(models.parse(name), shape, 2)


@pytest.mark.parametrize("wrong", [-1, 11])
@pytest.mark.parametrize("k", [None, 2])
def test_tokens_outside_the_vocabulary(wrong, k):
    """Of k clients too, where the next row would be another client's."""
    model = CASES["sent_lstm"].fitted()
    x = torch.zeros(1, 6) if k is None else torch.zeros(k, 1, 6)
    x[..., 2] = wrong
    w = torch.zeros(model.d) if k is None else torch.zeros(k, model.d)
    with pytest.raises(UserError, match=r"token ids must be 0\.\.10 .* vocabulary of 11"):
        model.logits(w, x)


@pytest.mark.parametrize("wrong", [-1, 3])
def test_unknown_tokens_are_found_before_the_first_step_on_another_device(wrong):
    """On a GPU a step cannot say so."""
    case, device = CASES["char_lstm"], torch.device("meta")
    data = case.partitioned([3, 2])
    data.dataset.x[1, 2] = wrong
    with pytest.raises(UserError, match=r"token ids must be 0\.\.2 .* ids from"):
        simulation(ALGORITHMS["fedavg"](), data, settings(), case.text, device=device)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (
            "resnet18(bacth)",
            "unknown normalisation of model resnet18 'bacth'. Did you mean 'batch'",
        ),
        ("densenet121(none)", "unknown normalisation of model densenet121"),
        ("alexnet(group)", "the form is alexnet"),
        ("lenet5_fedagg(0)", "maps >= 1 must hold, got 0"),
        ("sent_lstm(0)", "vocabulary >= 1 and width >= 1 must hold, got 0, 300"),
        ("char_lstm(8)", "the form is char_lstm"),
        ("mlp(0)", "widths >= 1 must hold"),
    ],
)
def test_wrong_arguments(text, part):
    with pytest.raises(UserError) as error:
        models.parse(text)
    assert part in str(error.value)


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("resnet18( norm=batch )", "resnet18(batch)"),
        ("resnet18(group)", "resnet18"),
        ("vgg11(none)", "vgg11(none)"),
        ("lenet5_fedagg(maps=16)", "lenet5_fedagg(16)"),
        ("lenet5_fedagg(6)", "lenet5_fedagg"),
        ("sent_lstm(500)", "sent_lstm(500,300)"),
        ("alexnet()", "alexnet"),
    ],
)
def test_canonical_names(written, canonical):
    assert models.canonical(written) == canonical
    assert models.canonical(canonical) == canonical
