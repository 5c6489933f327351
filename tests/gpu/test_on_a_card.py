"""What a card computes: the CPU's numbers up to rounding, the same bits twice, in packs what each trial computes alone,
in no more memory than is estimated. Run by hand on a machine with one: `make test-gpu`.
"""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from suite.testing.algorithms import finish, numbers, same
from tests.support import actors
from tests.support.model_cases import CASES
from tests.support.simulations import CPU, honoured, local_work, settings, simulation
from trials.algorithms import ALGORITHMS
from trials.common import randomness
from trials.common.transfer import uniform_on
from trials.engine.federation import Federation
from trials.engine.pack import Pack
from trials.run import trainable
from trials.run.simulation import Simulation

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]
CARD = torch.device("cuda")
ROUNDING = 1e-4
"""How far numbers of float32 may be apart after a few steps, beside 1 and beside themselves."""
FEW_SWEEPS = {"fedagg_literal": {"max_sweeps": 2}}

every = pytest.mark.parametrize("name", ALGORITHMS)
models = pytest.mark.parametrize("model", ["logreg", "mlp", "lenet5"])
EXECUTED = [(m, how) for m in ("logreg", "mlp", "lenet5") for how in ("batched", "sequential")]
ALONE = [(model, "sequential") for model in ("char_lstm", "cifar10_cnn", "vgg_light")]


def begun(name: str, model: str, execution: str, device: torch.device, **more: Any) -> Simulation:
    """Two rounds of three clients in single precision, at their beginning."""
    given = {"rounds": 2, "batch_size": 2, "dtype": "float32", "execution": execution}
    common, level = honoured(name, {**given, **local_work(name, 2)}, "iid")
    algorithm, data = (
        ALGORITHMS[name](lr=0.1, **FEW_SWEEPS.get(name, {})),
        CASES[model].partitioned([3, 2, 4]),
    )
    common = settings(**common)
    return simulation(algorithm, data, common, CASES[model].text, level, device=device, **more)


def assert_near(found: Simulation, right: Simulation) -> None:
    there, here = numbers(found), numbers(right)
    assert there.keys() == here.keys()
    for key, value in here.items():
        off = (there[key].double() - value.double()).abs()
        assert (off <= ROUNDING * value.double().abs().clamp(min=1)).all(), key


@every
@pytest.mark.parametrize(("model", "execution"), [*EXECUTED, *ALONE])
def test_a_card_computes_what_the_cpu_does(name: str, model: str, execution: str) -> None:
    if (name, model) == ("fedma_fixed_width", "char_lstm"):
        pytest.skip("fedma_fixed_width needs a chain of layers")
    there, here = (finish(begun(name, model, execution, device)) for device in (CARD, CPU))
    assert_near(there, here)


@every
def test_a_run_has_the_same_bits_twice(name: str) -> None:
    first, second = (finish(begun(name, "lenet5", "batched", CARD)) for _ in range(2))
    assert same(first, second)


@models
def test_a_pack_computes_what_its_trials_compute_alone(model: str) -> None:
    pack, found = Pack(), dict[str, Simulation]()
    packed = partial(Federation, solver=pack.solver)

    def work(name: str) -> None:
        found[name] = finish(begun(name, model, "batched", CARD, federation=packed))

    pack.run([partial(work, name) for name in ALGORITHMS])
    for name, run in found.items():
        assert_near(run, finish(begun(name, model, "batched", CARD)))


def test_coins_are_hashed_on_the_card() -> None:
    words = (3, 2, np.array([0, 1, 7])[:, None])
    found = uniform_on(CARD, "anneal", *words, size=257)
    assert (found.cpu().numpy() == randomness.uniform("anneal", *words, np.arange(257))).all()


def test_a_trial_over_its_part_of_a_card_fails_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainable.ray, "get", lambda reference: reference)
    spec = actors.spec()
    actor = actors.actor(spec)
    actor.reset_config(actors.config(spec, device="cuda", need={"GPU": 0.5}))
    size = torch.cuda.get_device_properties(0).total_memory * 6 // 10
    try:
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(size, dtype=torch.uint8, device="cuda")
        assert actors.finish(actor)[-1]["status"] == "finished"
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
