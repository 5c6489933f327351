"""Local steps by the study's optimizer are torch.optim's, in every execution, in packs and after a checkpoint."""

import io
from functools import partial

import numpy as np
import pytest
import torch

from tests.support.oracle import CLASSES, EXECUTIONS, FEATURES, LR, SEED, Problem
from tests.support.simulations import finish, partitioned, settings, simulation
from trials.algorithms import ALGORITHMS
from trials.common.errors import UserError
from trials.engine.federation import Federation
from trials.engine.pack import Pack
from trials.models import parse
from trials.models.base import Model
from trials.run.spec import refuse
from trials.settings import Settings

MU = 0.3
OPTIMIZERS = {
    "adam": {"optimizer": "adam", "betas": (0.8, 0.95), "weight_decay": 0.1},
    "adamw": {"optimizer": "adamw", "weight_decay": 0.1, "lr_decay": "inverse(3)"},
    "clipped": {"optimizer": "adam", "clip_norm": 0.25, "lr_decay": 0.8},
    "sgd": {"momentum": 0.6, "weight_decay": 0.1, "lr_decay": "inverse(2)"},
}
DEFINED_BY_SGD = {
    "scaffold",
    "fednova",
    "feddc",
    "fedumf_feddc",
    "fedagg",
    "fedagg_literal",
    "defed",
}
DEFINED_BY_SGD |= {"fedsgd", "fedumf", "lb_norm", "lb_optimal"}


def optimizer(s, w):
    if s.optimizer == "sgd":
        return torch.optim.SGD([w], momentum=s.momentum, weight_decay=s.weight_decay)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[s.optimizer]
    return kind([w], betas=s.betas, weight_decay=s.weight_decay)


def by_torch(problem):
    """FedProx's server weights in the end, by PyTorch's optimizers."""
    s, kept, server = problem.settings, {}, torch.from_numpy(problem.initial())
    for t in range(1, s.rounds + 1):
        ids, ends = problem.select(t), []
        for k in ids:
            x, y = map(torch.from_numpy, problem.parts[k])
            if k not in kept or not s.keep_moments:
                w = server.clone().requires_grad_()
                kept[k] = w, optimizer(s, w)
            w, steps = kept[k]
            w.data.copy_(server)
            decay = {"inverse(3)": 3 / (2 + t), "inverse(2)": 2 / (1 + t), 0.8: 0.8 ** (t - 1)}
            steps.param_groups[0]["lr"] = LR * decay.get(s.lr_decay, 1)
            for _ in range(s.local_steps):
                size = CLASSES * FEATURES
                logits = x @ w[:size].view(CLASSES, FEATURES).T + w[size:]
                loss = torch.nn.functional.cross_entropy(logits, y)
                (g,) = torch.autograd.grad(loss, w)
                g = g + MU * (w.detach() - server)
                w.grad = g * min(1.0, (s.clip_norm or np.inf) / float(g.norm()))
                steps.step()
            ends.append(w.detach().clone())
        server = torch.from_numpy(problem.p(ids)) @ torch.stack(ends)
    return server


def resumed(begin):
    """A run that is over, of which every round but the first was computed after a checkpoint."""
    run = begin()
    while not run.finished:
        run.advance()
        file = io.BytesIO()
        torch.save(run.save(), file)
        file.seek(0)
        run = begin()
        run.load(torch.load(file, weights_only=True))
    return run


def in_a_pack(begin):
    pack, runs = Pack(), []
    shared = partial(Federation, solver=pack.solver)
    pack.run([lambda: runs.append(finish(begin(federation=shared)))] * 3)
    return runs[0]


def whole(begin):
    return finish(begin())


WAYS = {"pack": in_a_pack, "resumed": resumed, **dict.fromkeys(EXECUTIONS, whole)}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_torch(name, keep, way):
    given = {**OPTIMIZERS[name], "keep_moments": keep, "participation": 0.6}
    problem, how = Problem(given), way if way in ("sequential", "compiled") else "batched"
    begin = partial(problem.run, "fedprox", {"mu": MU}, how)
    if how == "compiled" and problem.settings.optimizer != "sgd":
        with pytest.raises(UserError, match="compiled"):
            begin()
        return
    run = WAYS[way](begin)
    np.testing.assert_allclose(run.state["w"], by_torch(problem), rtol=0, atol=1e-10)


def test_the_pool_keeps_its_moments_as_one_client_does():
    """One client's pool is its data, so centralized training is FedAvg's."""
    common = settings(optimizer="adam", keep_moments=True)
    runs = [
        finish(simulation(ALGORITHMS[name](), partitioned([9]), common, seed=SEED))
        for name in ("fedavg", "centralized")
    ]
    np.testing.assert_allclose(runs[0].state["w"], runs[1].state["w"], rtol=0, atol=1e-12)


@pytest.mark.parametrize("key", ["optimizer", "keep_moments"])
def test_an_algorithm_has_to_say_itself_that_any_optimizer_will_do(key):
    common = Settings(**{key: {"optimizer": "adam", "keep_moments": True}[key]})
    child = type("Child", (ALGORITHMS["fedavg"],), {})
    for name, cls in {**ALGORITHMS, "child": child}.items():
        if name in {*DEFINED_BY_SGD, "child"}:
            with pytest.raises(UserError, match=key):
                refuse(name, cls, common)
        else:
            refuse(name, cls, common)


@pytest.mark.parametrize(
    ("weights", "draw"),
    [("glorot", torch.nn.init.xavier_uniform_), ("he", torch.nn.init.kaiming_uniform_)],
)
def test_initial_weights_have_the_bounds_that_torch_gives_them(weights, draw):
    model = Model(parse("lenet5"), (1, 28, 28), 10)
    rows = model.views(torch.from_numpy(model.initial(np.arange(40), 0, weights)))
    for slot in model.layout:
        if len(slot.shape) == 1:
            assert not rows[slot.name].any()
            continue
        arguments = {"nonlinearity": "relu"} if weights == "he" else {}
        theirs = draw(torch.empty(slot.shape), **arguments).abs().max()
        assert float(rows[slot.name].abs().max()) == pytest.approx(float(theirs), rel=0.05)
