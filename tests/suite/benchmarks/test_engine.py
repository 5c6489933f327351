"""The engine benchmark: the workers' protocol, and what is counted."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import engine
import loop
import ours
from engine import WORKLOADS, running
from worker import LR, Workload, read

TINY = Workload("tiny", "logreg", (5,), 3, (8, 4, 12), 2, 4)


def test_a_workload_survives_its_command_line() -> None:
    for workload in (TINY, *WORKLOADS.values()):
        assert read(workload.written()) == workload
        assert all(m % workload.batch_size == 0 for m in workload.sizes)
        assert 1 <= workload.per_round <= len(workload.sizes)


def test_a_worker_runs_whole_rounds_until_it_is_told_no_more() -> None:
    with running([sys.executable, str(engine.HERE / "loop.py")], TINY, 0) as worker:
        for seconds in (0.0, 0.05):
            worker.start(seconds)
            found = worker.result()
            assert found["seconds"] >= seconds
            assert found["samples"] == 4 * found["steps"]
            assert found["steps"] >= 3  # the smallest two clients: 8 and 4 samples
        assert 10**7 < worker.finish() < 10**10


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
def test_the_loop_has_the_suites_model(workload: Workload) -> None:
    """As many weights, but for PyTorch's second bias of an LSTM layer (4 x 100, two layers)."""
    net = loop.network(workload)
    small = replace(workload, sizes=(workload.batch_size,), per_round=1)
    twice = 800 if workload.model == "char_lstm" else 0
    weights = sum(p.numel() for p in net.parameters())
    assert weights == ours.federation(small).d + twice
    x, _ = loop.tensors(small)[0]
    assert net(x).shape == (workload.batch_size, workload.classes)


def test_ours_and_the_loop_do_the_same() -> None:
    """One client and one full batch leave nothing to chance: one gradient step, by hand."""
    one = replace(TINY, sizes=(6,), per_round=1, batch_size=6)
    ((x, y),) = one.data()
    w, b = torch.zeros(3, 5, requires_grad=True), torch.zeros(3, requires_grad=True)
    loss = torch.nn.functional.cross_entropy(torch.from_numpy(x) @ w.T + b, torch.from_numpy(y))
    loss.backward()
    net = torch.nn.Linear(5, 3)
    for parameter in net.parameters():
        torch.nn.init.zeros_(parameter)
    loop.train(net, torch.from_numpy(x), torch.from_numpy(y), 6)
    assert w.grad is not None
    np.testing.assert_allclose(net.weight.detach(), -LR * w.grad, atol=1e-7)
    assert ours.prepare(one)() == loop.prepare(one)() == (1, 6)
