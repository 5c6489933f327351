"""`suite bench engine|algorithms|scaling`: the workers' protocol, what is counted, what is printed."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from suite.bench import engine, loop, ours, scaling
from suite.bench.engine import WORKLOADS, running
from suite.bench.worker import LR, Workload, measured, read
from tests.support.commands import document, fault, suite_here
from trials import models
from trials.algorithms import ALGORITHMS
from trials.models.base import Model

TINY = Workload("tiny", "logreg", (5,), 3, (8, 4, 12), 2, 4)


def test_a_workload_survives_its_command_line() -> None:
    for workload in (TINY, *WORKLOADS.values()):
        assert read(workload.written()) == workload
        assert all(m % workload.batch_size == 0 for m in workload.sizes)
        assert 1 <= workload.per_round <= len(workload.sizes)


def test_a_worker_runs_whole_rounds_until_it_is_told_no_more() -> None:
    with running([sys.executable, "-m", "suite.bench.loop"], TINY, 0) as worker:
        for seconds in (0.0, 0.05):
            worker.start(seconds)
            found = worker.result()
            assert found["seconds"] >= seconds
            assert found["samples"] == 4 * found["steps"]
            assert found["steps"] >= 3  # the smallest two clients: 8 and 4 samples
        assert 10**7 < worker.finish() < 10**10


def test_a_worker_that_fails_says_why() -> None:
    code = "raise SystemExit('no such model here')"
    with (
        pytest.raises(RuntimeError, match="no such model here"),
        running([sys.executable, "-c", code], TINY, 0),
    ):
        pass


def test_a_worker_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "PATIENCE", 0.3)
    with (
        pytest.raises(RuntimeError, match="ended"),
        running([sys.executable, "-c", "import time; time.sleep(60)"], TINY, 0),
    ):
        pass


def test_whole_rounds_are_measured() -> None:
    found = measured(lambda: (3, 12), 0.0)
    assert found.keys() == {"steps", "samples", "seconds"}
    assert (found["steps"], found["samples"]) == (3, 12)


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


def test_floating_point_operations_by_hand() -> None:
    """Logits take 2 B p C, the gradient of W as many; a convolution's first layer no input gradient."""
    assert engine.flops(WORKLOADS["784-10"]) == 2 * 2 * 10 * 784 * 10
    assert engine.flops(WORKLOADS["60-10"]) == 2 * 2 * 10 * 60 * 10
    b = 50
    first = 2 * b * 28 * 28 * 32 * 25
    second = 2 * b * 14 * 14 * 64 * 32 * 25
    dense = 2 * b * (3136 * 512 + 512 * 10)
    assert engine.flops(WORKLOADS["cnn"]) == 2 * first + 3 * (second + dense)


def test_the_json_document_and_a_missing_peer(tmp_path: Path) -> None:
    args = ["--workloads", "60-10", "--peers", "fedjax", "--runs", 2, "--seconds", 0.01]
    found = document(
        suite_here("bench", "engine", *args, "--plot", "e.svg", "--json", cwd=tmp_path)
    )
    assert found["not_installed"] == ["fedjax"]
    (workload,) = found["workloads"]
    rows = {row["system"]: row for row in workload["systems"]}
    assert list(rows) == ["ours", "loop"]
    for row in rows.values():
        assert len(row["runs"]) == 2
        assert row["steps_per_second"] == pytest.approx(np.median(row["runs"]))
        assert row["samples_per_second"] == pytest.approx(10 * row["steps_per_second"])
        faster = rows["ours"]["steps_per_second"] / row["steps_per_second"]
        assert row["ours_is_faster"] == pytest.approx(faster)
        done = row["steps_per_second"] * workload["flops_a_step"]
        assert row["share_of_limit"] == pytest.approx(done / workload["limit_flops_per_second"])
    assert "<svg" in (tmp_path / "e.svg").read_text()


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--workloads", "784"], "unknown workload '784'. Did you mean '784-10'?"),
        (["--peers", "fedjaxx"], "unknown peer 'fedjaxx'. Did you mean 'fedjax'?"),
        (["--plot", "e.doc"], "--plot is 'e.doc', but must end in .svg, .png, .pdf"),
        (["--plot", "nowhere/e.svg"], "--plot is 'nowhere/e.svg', but there is no such folder"),
        (["--device", "gpu"], "unknown device 'gpu'. Did you mean 'cpu'?"),
        (
            ["--device", "cuda", "--peers", "fedjax"],
            "device is cuda, which peers are not set up for; use --peers none",
        ),
        (["--executions", "batchd"], "unknown execution 'batchd'. Did you mean 'batched'?"),
        (
            ["--peer-python", "no/python"],
            "peer_python is 'no/python', but cannot be run: No such file or directory",
        ),
    ],
)
def test_bad_input_is_refused_before_anything_is_measured(
    args: list[str], said: str, tmp_path: Path
) -> None:
    result = suite_here("bench", "engine", *args, cwd=tmp_path, code=2)
    assert fault(result) == said


def test_the_cost_of_every_algorithm_beside_its_gradients(tmp_path: Path) -> None:
    found = document(
        suite_here("bench", "algorithms", "--runs", 1, "--seconds", 0, "--json", cwd=tmp_path)
    )
    rows = {row["algorithm"]: row for row in found["algorithms"]}
    assert rows.keys() | found["skipped"].keys() == set(ALGORITHMS)
    assert rows["fedavg"]["ratio"] == rows["fedavg"]["ratio_of_sample_gradients"] == 1
    assert rows["fedprox"]["ratio_of_sample_gradients"] == 1
    assert rows["folb"]["ratio_of_sample_gradients"] == 2  # one more pass over the same samples


def test_growth_along_each_axis(tmp_path: Path) -> None:
    args = ["--most", 100, "--runs", 1, "--seconds", 0, "--plot", "s.svg", "--json"]
    found = document(suite_here("bench", "scaling", *args, cwd=tmp_path))
    first, second, third = found["axes"]
    assert (first["points"], second["points"], third["points"]) == ([10, 30, 100], [100], [])
    for line in first["lines"]:
        times, slopes = line["seconds_a_round"], line["slopes"]
        assert len(times) == 3
        assert times[0] * 3 ** slopes[0] == pytest.approx(times[1])
        assert times[2] > times[0]
    assert "<svg" in (tmp_path / "s.svg").read_text()


def test_tables_for_people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From documents as `--json` prints them; a line without points has no row."""
    line = {"model": "logreg", "seconds_a_round": [0.001, 0.004], "slopes": [2.0]}
    none = {"model": "mlp(w,w)", "seconds_a_round": [], "slopes": []}
    axes = [
        {"axis": "clients a round", "points": [10, 20], "lines": [line]},
        {"axis": "weights", "points": [], "lines": [none]},
    ]
    monkeypatch.setattr(scaling, "scaling", lambda *given: {"axes": axes})
    said = suite_here("bench", "scaling", cwd=tmp_path).stdout
    assert "4.00" in said
    assert "2.00" in said
    assert "mlp" not in said
    row = {"system": "ours", "steps_per_second": 1234.5, "samples_per_second": 12345.0}
    row |= {"ours_is_faster": 1.0, "share_of_limit": 0.25, "peak_bytes": 3e8}
    workload = {"workload": "cnn", "systems": [row], "failed": {"pfl": "it broke"}}
    workload |= {"two_at_once": {"steps_per_second": 2469.0, "ratio_to_one": 2.0}}
    found = {"workloads": [workload], "not_installed": ["flwr"]}
    monkeypatch.setattr(engine, "measure", lambda plan: found)
    monkeypatch.setenv("COLUMNS", "120")
    said = suite_here("bench", "engine", cwd=tmp_path).stdout
    for text in ("1,234", "25.00%", "300", "two of ours", "0.50", "it broke", "not installed"):
        assert text in said


@pytest.mark.parametrize("d", [1000, 10_000, 100_000, 1_000_000, 10_000_000])
def test_a_network_of_about_so_many_weights(d: int) -> None:
    name = scaling.model_of(d)
    assert Model(models.parse(name), (784,), 10).d == pytest.approx(d, rel=0.2)
