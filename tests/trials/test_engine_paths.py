"""The ways to the same numbers: compiled loops, chunks, bf16."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from tests.support.simulations import (
    digest,
    finish,
    fresh_process,
    honoured,
    linear_digest,
    local_work,
    partitioned,
    same,
    settings,
    simulation,
)
from trials import models
from trials.algorithms import ALGORITHMS
from trials.common.errors import UserError
from trials.engine.direction import affine
from trials.engine.federation import ClientRows
from trials.engine.training import execution
from trials.models.base import Model
from trials.scoring.losses import LOSSES
from trials.scoring.metrics import REGRESSION


def agree(run, right):
    """Two runs end alike, and had the same losses on the way, up to rounding."""
    same(run, right, 1e-10)
    for found, expected in zip(run.history, right.history, strict=True):
        for loss in ("train_loss", "test_loss"):
            assert found.get(loss) == pytest.approx(expected.get(loss), abs=1e-10)


@pytest.mark.parametrize("chunk", [1, 2])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_chunks_compute_what_one_client_after_the_other_does(name, chunk):
    """Unequal clients and work, short minibatches; all at once is in the contract of every algorithm."""
    data = partitioned([9, 4, 17, 12], shape=(5,), classes=11)
    common = {"participation": 0.75, "batch_size": 7, "momentum": 0.5, "weight_decay": 0.01}
    common, level = honoured(name, common, "iid+system(steps=1..4)")
    common |= local_work(name, 2) | {"rounds": 3}
    runs = []
    for how in ({"execution": "sequential"}, {"execution": "batched", "chunk": chunk}):
        made = ALGORITHMS[name](lr=0.05)
        runs.append(finish(simulation(made, data, settings(**common, **how), "mlp(7,5)", level)))
    assert runs[1].fed.chunk == chunk
    agree(*runs)


@pytest.mark.parametrize("loss", ["squared_error", "half_squared_error"])
def test_compiled_regression_equals_sequential(loss):
    data = partitioned([9, 4, 17], shape=(3,))
    target = data.dataset.x @ np.array([1.0, -2.0, 0.5], np.float32) + 1
    regression = replace(data.dataset, y=target, classes=1, task=REGRESSION)
    data, made = replace(data, dataset=regression), ALGORITHMS["fedprox"](lr=0.05)
    runs = []
    for how in ("compiled", "sequential"):
        common = settings(execution=how, loss=loss, batch_size=4, momentum=0.3)
        runs.append(finish(simulation(made, data, common, "linear")))
    agree(*runs)


@pytest.mark.slow("compiled anew in a process of its own")
def test_what_was_compiled_before_changes_no_bit_nor_do_threads(tmp_path, monkeypatch):
    """Code that comes from disk is what was just compiled, and BLAS adds up in one order."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    script = (
        "from tests.support import simulations; from trials.engine import compiled;"
        "print(simulations.linear_digest(), compiled._sgd.stats.cache_hits.total())"
    )
    for threads, hits in (("1", 0), ("4", 1)):
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
            monkeypatch.setenv(name, threads)
        assert fresh_process(script) == f"{linear_digest()} {hits}"


def test_what_is_fastest_is_taken_and_what_is_not_there_is_refused(monkeypatch):
    data, cpu = partitioned([4, 4], shape=(1, 16, 16)), torch.device("cpu")
    for name, size, best in (
        ("logreg", 32, "compiled"),
        ("mlp", "full", "batched"),
        ("lenet5", 16, "batched"),
        ("lenet5", 32, "sequential"),
        ("lenet5", "full", "sequential"),
        ("mcmahan_cnn", 10, "sequential"),
    ):
        model = Model(models.parse(name), data.dataset.shape, 3)
        assert execution(model, settings(batch_size=size), cpu) == best
        assert execution(model, settings(execution="sequential"), cpu) == "sequential"
    linear, compiled = Model(models.parse("logreg"), (4,), 3), settings(execution="compiled")
    two_sided = Model(models.parse("logreg"), (4,), 3, LOSSES["two_sided"])
    for other in (model, two_sided):
        with pytest.raises(UserError, match="execution is compiled"):
            execution(other, compiled, cpu)
    assert execution(linear, settings(), torch.device("cuda")) == "batched"
    monkeypatch.setattr("trials.engine.training.find_spec", lambda name: None)
    assert execution(linear, settings(), cpu) == "batched"


def test_what_diverges_shows_in_a_compiled_loop():
    """Sums may be reordered there, infinities and NaN may not be lost."""
    run = finish(
        simulation(ALGORITHMS["fedavg"](lr=1e308), partitioned([9, 4]), settings(rounds=9))
    )
    assert run.fed.execution == "compiled"
    assert run.diverged
    assert not math.isfinite(run.history[-1]["train_loss"])


def test_equal_samples_give_equal_bits_however_they_lie_in_memory():
    data = partitioned([9, 4, 7], shape=(5,))
    x, y = np.asfortranarray(data.dataset.x), np.repeat(data.dataset.y, 2)[::2]
    strided = replace(data, dataset=replace(data.dataset, x=x, y=y))
    assert strided.fingerprint == data.fingerprint
    for how in ("compiled", "batched", "sequential"):
        common = settings(execution=how, batch_size=3, dtype="float32")
        rows = strided.tensors(torch.device("cpu"), torch.float32)
        assert all(each.is_contiguous() for each in (rows[0].x, rows[1])), "else compiled anew"
        runs = [finish(simulation(ALGORITHMS["folb"](), of, common)) for of in (data, strided)]
        assert digest(runs[0]) == digest(runs[1])


# Directions


ROWS = {"start": torch.arange(6.0).view(2, 3), "a": torch.tensor([[2.0], [3.0]])}
OTHER = {
    "sign": lambda w, g, start, a: torch.sign(g),
    "product": lambda w, g, start, a: g * w,
    "weight by weight": lambda w, g, start, a: g * start,
    "normed": lambda w, g, start, a: g / g.norm(dim=1, keepdim=True),
    "compared": lambda w, g, start, a: torch.where(g > 0, g, w),
    "neither": lambda w, g, start, a: start,
}


@pytest.mark.parametrize("direction", OTHER.values(), ids=OTHER)
def test_any_other_direction_takes_the_general_way(direction):
    assert affine(direction, ROWS) is None


def test_every_built_in_direction_is_affine():
    """Else a linear model would be slow under it, and nobody would notice."""
    seen = []

    def noted(direction, rows):
        seen.append(found := affine(direction, rows))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trials.engine.training.affine", noted)
        for name, cls in ALGORITHMS.items():
            common, _ = honoured(name, {"rounds": 2}, "iid")
            common |= local_work(name, 1)
            finish(simulation(cls(), partitioned([5, 6]), settings(**common)))
    assert len(seen) > len(ALGORITHMS)
    assert None not in seen


# Client state


@given(st.lists(st.lists(st.integers(0, 19), min_size=1, max_size=6, unique=True), max_size=8))
@profile(max_examples=50)
def test_client_rows_are_a_table_that_holds_only_what_was_written(writes):
    cpu, table = torch.device("cpu"), -torch.ones(20, 2)
    rows = ClientRows(20, lambda ids: -torch.ones(len(ids), 2), cpu)
    for step, ids in enumerate(map(torch.tensor, writes)):
        new = torch.stack([ids.float(), torch.full((len(ids),), float(step))], 1)
        rows.write(ids, new)
        table[ids] = new
    assert torch.equal(rows[torch.arange(20)], table)
    held = len({k for ids in writes for k in ids})
    assert (0 if rows.values is None else len(rows.values)) == held


# bf16


def test_bf16_is_near_and_its_weights_are_single():
    data, made = partitioned([40, 30], shape=(5,)), ALGORITHMS["fedprox"](lr=0.1)
    single, mixed = (
        finish(simulation(made, data, settings(dtype=dtype, rounds=3), "mlp(7,5)"))
        for dtype in ("float32", "bf16")
    )
    assert mixed.state["w"].dtype == torch.float32
    apart = float((single.state["w"] - mixed.state["w"]).abs().max())
    assert 0 < apart < 0.02
