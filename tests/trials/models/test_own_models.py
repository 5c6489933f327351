"""Models of others: the registry's own written as modules have its numbers, whatever computes them; what is
wrong with a module is said in a line.
"""

from functools import partial

import numpy as np
import pytest
import torch

from tests.support.simulations import (
    ROOT,
    digest,
    finish,
    honoured,
    local_work,
    partitioned,
    rounds,
    settings,
    simulation,
    state,
)
from trials import models
from trials.algorithms import ALGORITHMS
from trials.common.errors import UserError
from trials.engine.federation import Federation
from trials.engine.pack import Pack
from trials.engine.training import execution, minibatches
from trials.models.base import Model
from trials.models.own import check_module
from trials.run.spec import Scenario, canonical
from trials.run.trial import run
from trials.settings import Settings

FILE = ROOT / "tests" / "support" / "own_models.py"
SAMPLES = ROOT / "tests" / "support" / "own_samples.py"
EXAMPLE = ROOT / "examples" / "own_model.py"
TWINS = {
    "logreg": ("logreg", (3, 4)),
    "mlp(width=20)": ("mlp(20,20)", (3, 4)),
    "lenet5": ("lenet5", (1, 16, 16)),
}
LEVEL = "iid+system(steps=1..3)"


def own(name):
    return f"{FILE}:{name}"


def given(weights):
    """A federation that starts from these weights."""

    class Given(Federation):
        def initial(self, ids):
            return self.tensor(weights).expand(len(ids), -1).clone()

    return Given


def trained(algorithm, data, model, start, **more):
    common, level = honoured(algorithm, {"batch_size": 4, "rounds": 2, **more}, LEVEL)
    common = settings(**{**common, **local_work(algorithm, 3)})
    made = ALGORITHMS[algorithm](lr=0.1)
    return finish(simulation(made, data, common, model, level, federation=given(start)))


@pytest.mark.parametrize("execution", ["batched", "sequential"])
@pytest.mark.parametrize(
    "algorithm", ["fedavg", "scaffold", "fedadam", "astw", "fedma_fixed_width"]
)
@pytest.mark.parametrize("name", TWINS)
def test_a_module_has_the_numbers_of_the_registrys_model(name, algorithm, execution):
    twin, shape = TWINS[name]
    data = partitioned([7, 9, 4], shape=shape, classes=4)
    start = Model(models.parse(twin), shape, 4).initial(np.array([-1]), 3)[0]
    mine, its = (
        trained(algorithm, data, model, start, execution=execution) for model in (own(name), twin)
    )
    assert mine.fed.execution == execution
    for key, value in state(its).items():
        np.testing.assert_allclose(state(mine)[key], value, rtol=0, atol=1e-10)
    assert mine.history[-1]["test_loss"] == pytest.approx(its.history[-1]["test_loss"], abs=1e-10)


@pytest.mark.parametrize(
    ("name", "ways", "because"),
    [
        ("mlp", ["batched", "sequential"], "vmap"),
        ("Branching", ["sequential"], "torch.func.vmap cannot"),
        ("Dropping", ["sequential"], "random numbers"),
        ("Normalised", ["sequential"], "random numbers"),
        ("fused", ["sequential"], "its batch"),
        ("Tempered", ["batched", "sequential"], "vmap"),
        ("Cast", ["sequential"], "vmap gives other numbers"),
    ],
)
def test_how_clients_are_computed_is_said(name, ways, because):
    model = Model(models.parse(own(name)), (1, 16, 16), 4)
    assert because in model.network.note
    way = partial(execution, model, device=torch.device("cpu"))
    assert {way(settings(execution=asked)) for asked in ("batched", "sequential")} == set(ways)


def built(name="Normalised", seed=0, algorithm="fedavg", **federation):
    data = partitioned([9, 6, 5], shape=(1, 6, 6), classes=4)
    common, level = honoured(algorithm, {"batch_size": 4, "rounds": 3}, "iid")
    common = settings(**{**common, **local_work(algorithm, 2)})
    return simulation(
        ALGORITHMS[algorithm](lr=0.1), data, common, own(name), level, seed, **federation
    )


def test_dropout_is_a_function_of_seed_round_client_and_step():
    first = built()
    steps = list(rounds(first))
    torch.manual_seed(99)
    torch.rand(7)
    second = built()
    for before, after in zip(steps, rounds(second), strict=True):
        np.testing.assert_array_equal(before, after)
    assert digest(finish(built(seed=1))) != digest(first)


def test_dropout_and_statistics_go_on_from_a_checkpoint_and_in_a_pack():
    alone = [digest(finish(built(seed=seed))) for seed in (0, 1)]
    first, second = built(), built()
    first.advance()
    second.load(first.save())
    assert digest(finish(first)) == digest(finish(second)) == alone[0]
    pack = Pack()
    shared = partial(Federation, solver=pack.solver)
    found = {}

    def work(seed):
        found[seed] = digest(finish(built(seed=seed, federation=shared)))

    pack.run([partial(work, seed) for seed in (0, 1)])
    assert [found[0], found[1]] == alone


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_takes_batchnorm_dropout_and_a_torch_dataset(algorithm):
    """The example's module and a map-style dataset, by their names."""
    given, level = honoured(algorithm, {"batch_size": 16, "rounds": 2, "clients": 4}, "labels(3)")
    common = Settings(**{**given, **local_work(algorithm, 2)})
    scenario = Scenario(f"{SAMPLES}:digits", f"{EXAMPLE}:make(width=8)", level)
    spec = canonical(algorithm, {"lr": 0.1}, scenario, common, 0)
    if algorithm == "fedma_fixed_width":
        with pytest.raises(UserError, match=r"chain of layers, but conv\.1\.weight"):
            run(spec)
        return
    simulation, data = run(spec)
    assert not simulation.diverged
    assert len(data.test) == 60
    assert simulation.history[-1]["test_loss"] != simulation.history[0]["test_loss"]


def normalising(rounds=1, **given):
    """Two clients with 4 and 2 samples of two values, and a network that normalises before all else."""
    data = partitioned([4, 2], shape=(2,), classes=2)
    common = settings(batch_size=2, rounds=rounds, local_steps=None, **given)
    return data, simulation(ALGORITHMS["fedavg"](lr=0.1), data, common, own("normalising"))


def test_running_statistics_are_the_mean_over_clients_of_what_each_met():
    """By hand, from the minibatches that the plan gives: m <- 0.9 m + 0.1 mean, v <- 0.9 v + 0.1 var n / (n - 1)
    from m = 0 and v = 1; the server's are 2/3 of the first client's and 1/3 of the second's.
    """
    data, run = normalising(rounds=2)
    mean, var = np.zeros(2), np.ones(2)
    assert run.fed.model.statistics.server["0.running_var"].tolist() == [1, 1]
    for at in (1, 2):
        run.advance()
        plan = minibatches(data, np.array([0, 1]), np.array([2, 1]), 2, (0, at))
        found = []
        for client, steps in enumerate((2, 1)):
            m, v = mean, var
            for step in range(steps):
                x = data.dataset.x[plan.samples[client, step]].astype(np.float64)
                m, v = 0.9 * m + 0.1 * x.mean(0), 0.9 * v + 0.1 * x.var(0) * 2
            found.append((m, v))
        (m0, v0), (m1, v1) = found
        mean, var = (2 * m0 + m1) / 3, (2 * v0 + v1) / 3
        kept = run.fed.model.statistics.server
        np.testing.assert_allclose(kept["0.running_mean"], mean, rtol=0, atol=1e-12)
        np.testing.assert_allclose(kept["0.running_var"], var, rtol=0, atol=1e-12)
    w, x = state(run)["w"], data.dataset.x[data.test].astype(np.float64)
    scale, shift, weight, bias = w[:2], w[2:4], w[4:8].reshape(2, 2), w[8:]
    logits = (scale * (x - mean) / np.sqrt(var + 1e-5) + shift) @ weight.T + bias
    right = (logits.argmax(1) == data.dataset.y[data.test]).mean()
    assert run.history[-1]["test_accuracy"] == pytest.approx(right)
    loss = np.log(np.exp(logits).sum(1)) - logits[np.arange(len(x)), data.dataset.y[data.test]]
    assert run.history[-1]["test_loss"] == pytest.approx(loss.mean(), abs=1e-10)


def test_frozen_statistics_stay_as_they_are_made():
    _, run = normalising(buffers="frozen")
    model = run.fed.model
    assert model.statistics is None
    assert "averaged" not in model.network.note
    x = torch.tensor([[1.0, 2.0], [5.0, 0.0]]).double()
    w = torch.tensor([1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0]).double()
    torch.testing.assert_close(model.logits(w, x), x / (1 + 1e-5) ** 0.5)
    _, parts = model.gradients(w, x, torch.tensor([0, 1]), torch.tensor([0.5, 0.5]).double())
    _, alone = model.gradients(w, x[:1], torch.tensor([0]), torch.tensor([1.0]).double())
    _, other = model.gradients(w, x[1:], torch.tensor([1]), torch.tensor([1.0]).double())
    torch.testing.assert_close(parts, (alone + other) / 2)


@pytest.mark.parametrize("name", ["not_a_module", "nothing_to_train", "wrong_outputs", "raises"])
def test_what_is_no_model_is_refused(name):
    with pytest.raises(UserError, match=f"own_models.*{name}"):
        Model(models.parse(own(name)), (2, 2), 4)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("InPlace", "changes its input in place"),
        ("Buffered", "changes its seen"),
        ("Unseeded", "differs between two modules made with the same torch.manual_seed"),
        ("instance_norm", "changes its .*running_mean"),
        ("Moving", "changes its mean"),
        ("Hidden", "tensors that are not its parameters"),
        ("double", "of torch.float32"),
    ],
)
def test_what_a_run_would_compute_otherwise_than_pytorch_is_refused(name, message):
    with pytest.raises(UserError, match=f"{name}.*{message}"):
        Model(models.parse(own(name)), (2, 2), 4)


def test_outputs_that_look_like_probabilities_are_said():
    for name, said in (("likely", True), ("mlp", False)):
        note = Model(models.parse(own(name)), (2, 2), 4).network.note
        assert ("no softmax" in note) == said


@pytest.mark.parametrize(
    "name",
    ["fused", "Normalised", "Dropping", "Tempered", "Cast", "resnet18", "kept", "shared"],
)
@pytest.mark.parametrize("buffers", ["averaged", "frozen"])
def test_a_module_is_computed_as_pytorch_does(name, buffers):
    """Outputs and gradients, in training and evaluation mode; BatchNorm with an activation in it, too."""
    network = Model(models.parse(own(name)), (3, 8, 8), 4, buffers=buffers).network
    check_module(network, torch.rand(16, 3, 8, 8))


def test_a_minibatch_of_one_value_is_normalised_by_running_statistics():
    """PyTorch itself refuses it; its gradient flows, and the statistics stay."""
    _, run = normalising()
    model = run.fed.model
    w, x = torch.ones(model.d).double(), torch.tensor([[3.0, -1.0]]).double()
    _, g = model.gradients(w, x, torch.tensor([0]), torch.ones(1).double())
    assert torch.isfinite(g).all()
    torch.testing.assert_close(model.logits(w, x), model.outputs(model.views(w), x, "step"))
    assert model.statistics.training(w)["0.running_mean"].tolist() == [0, 0]


def test_files_and_networks_that_there_are_not():
    for name in ("nowhere.py:make", "torchvision:resnet81", "torchvision:resnet18"):
        with pytest.raises(UserError, match=r"nowhere|resnet"):
            Model(models.parse(name), (64,), 7)


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "squeezenet1_1"])
def test_networks_of_torchvision_take_the_classes_and_the_images(name):
    model = Model(models.parse(f"torchvision:{name}"), (1, 8, 8), 7)
    w = torch.from_numpy(model.initial(np.array([0]), 0)[0]).float()
    assert model.logits(w, torch.rand(2, 1, 8, 8)).shape == (2, 7)
