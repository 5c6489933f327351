"""`suite new algorithm` writes what works; `suite check` finds what does not."""

import os
import runpy
import shlex

import numpy as np
import pytest

from suite.authoring.new import new_algorithm
from suite.testing import algorithms as checking
from tests.support.commands import document, suite_here
from trials.common.errors import UserError

HEAD = """
from dataclasses import dataclass
import torch
from trials.algorithm import real
from trials.algorithms.fedavg import FedAvg
from trials.algorithms.fedprox import FedProx

@dataclass(frozen=True)
class Mine(FedAvg):
"""
SOUND = HEAD + "    pass\n"
AGGREGATE = "    def aggregate(self, state, ids, start, local, fed):\n"
FAULTS = {
    "nobody trained in any round": (
        "two rounds",
        "    def round(self, state, fed):\n        return state\n",
    ),
    "has no attribute 'gain'": (
        "two rounds",
        "    def direction(self, w, g, start, **rows):\n        return g + self.gain * w\n",
    ),
    "sequential give weights that are": (
        "executions",
        "    def direction(self, w, g, start, **rows):\n        return g - g.mean(0) / 2\n",
    ),
    "nothing was sent up": (
        "bytes",
        f'{AGGREGATE}        return {{**state, "w": fed.weights(ids) @ local}}\n',
    ),
    "scored() gives 'test' the shape (1, 650), not (650,)": (
        "two rounds",
        '    def scored(self, state, fed):\n        return {"test": state["w"][None]}\n',
    ),
    "a run that goes on from a checkpoint differs": (
        "repeats",
        f"    seen = {{}}\n{AGGREGATE}"
        "        self.seen[fed.round] = local.mean(0)\n"
        "        before = self.seen.pop(fed.round - 1, 0)\n"
        "        new = super().aggregate(state, ids, start, local, fed)\n"
        '        return {**new, "w": new["w"] + 0.1 * before}\n',
    ),
    "a second run differs": (
        "repeats",
        f"{AGGREGATE}        new = super().aggregate(state, ids, start, local, fed)\n"
        '        return {**new, "w": new["w"] + 1e-3 * torch.randn_like(new["w"])}\n',
    ),
    "states with different names: last": (
        "two rounds",
        f'{AGGREGATE}        return {{**super().aggregate(state, ids, start, local, fed), "last": local}}\n',
    ),
}


@pytest.fixture
def only_linear(monkeypatch):
    """One model: the others repeat what is seen there."""
    monkeypatch.setattr(checking, "MODELS", checking.MODELS[:1])


def test_what_new_writes_passes_its_check_and_its_test(tmp_path):
    said = suite_here("new", "algorithm", "SlowMo", cwd=tmp_path).stderr
    check, sweep = [shlex.split(line)[1:] for line in said.splitlines() if line.startswith("  ")]
    suite_here(*sweep, "--dry-run", cwd=tmp_path)
    equal = ("--reduces-to", "fedavg", "--set", "beta=0")
    found = document(suite_here(*check, *equal, "--json", cwd=tmp_path))
    assert found["passed"]
    assert len(found["checks"]) == 3 * 6, "six checks on three models"
    sent = {each["detail"] for each in found["checks"] if each["check"] == "bytes"}
    assert sent == {"1 K d down, 1 K d up"}
    tests = runpy.run_path(str(tmp_path / "test_slowmo.py"))
    written = [test for name, test in tests.items() if name.startswith("test_")]
    assert len(written) == 3
    for test in written:
        test()


EQUAL = f"{AGGREGATE}        p = fed.weights(ids)\n"
EQUAL += '        return {**state, "w": state["w"] + p @ (fed.upload(ids, local) - state["w"])}\n'


def test_an_equal_formula_is_told_to_be_that_up_to_rounding(tmp_path, only_linear):
    (tmp_path / "mine.py").write_text(HEAD + EQUAL)
    asked = ("check", "mine.py", "--reduces-to", "fedavg", "--json")
    for words, code in ((("--set", "local_steps=1"), 0), ((), 0), (("--exact",), 1)):
        *rest, last = document(suite_here(*asked, *words, cwd=tmp_path, code=code))["checks"]
        assert all(check["ok"] for check in rest)
        assert (last["ok"], "e-1" in last["detail"]) == (not code, True)


def test_a_mean_without_weights_is_one_where_a_setting_says_so(tmp_path, only_linear):
    code = '        return {**state, "w": fed.upload(ids, local).mean(0)}\n'
    (tmp_path / "mine.py").write_text(HEAD + AGGREGATE + code)
    asked = ("check", "mine.py", "--reduces-to", "fedavg", "--json")
    last = document(suite_here(*asked, cwd=tmp_path, code=1))["checks"][-1]
    assert "aggregation=plain" in last["detail"]
    suite_here(*asked, "--aggregation", "plain", cwd=tmp_path)


def test_counters_that_differ_are_named(tmp_path, only_linear):
    code = "    def round(self, state, fed):\n        fed.counters['evaluation_passes'] += 1\n"
    (tmp_path / "mine.py").write_text(f"{HEAD}{code}        return super().round(state, fed)\n")
    asked = ("check", "mine.py", "--reduces-to", "fedavg", "--json")
    last = document(suite_here(*asked, cwd=tmp_path, code=1))["checks"][-1]
    assert "evaluation_passes" in last["detail"]


@pytest.mark.parametrize("says", FAULTS)
def test_what_is_wrong_is_found(tmp_path, only_linear, says):
    check, code = FAULTS[says]
    (tmp_path / "mine.py").write_text(HEAD + code)
    done = suite_here("check", "mine.py", "--json", cwd=tmp_path, code=1)
    findings = {each["check"]: each for each in document(done)["checks"]}
    assert not findings[check]["ok"]
    assert says in findings[check]["detail"]
    assert "Traceback" not in done.stderr


def test_a_model_is_checked_on_the_data_that_it_is_for(tmp_path):
    """A module of vectors of five numbers takes no images."""
    code = "from torch import nn\n\ndef make(shape, classes):\n    return nn.Linear(shape[0], classes)\n"
    (tmp_path / "net.py").write_text(code)
    x, y = np.random.default_rng(0).normal(size=(60, 5)), np.arange(60) % 2
    np.savez(tmp_path / "own.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    (one,) = document(suite_here("check", "net.py:make", "--json", cwd=tmp_path, code=1))["checks"]
    assert "cannot be multiplied" in one["detail"]
    own = ("check", "net.py:make", "--dataset", "npz:own.npz", "--json")
    (one,) = document(suite_here(*own, cwd=tmp_path))["checks"]
    assert one["detail"].startswith("right, 12 weights, ")


@pytest.mark.parametrize("name", ["fed avg", "class", "FedAvg"])
def test_names_for_new_files(tmp_path, name):
    with pytest.raises(UserError, match=f"^name '{name}': "):
        new_algorithm(name, tmp_path)
    (tmp_path / "test_mine.py").write_text("mine")
    with pytest.raises(UserError, match="exists, and is kept"):
        new_algorithm("Mine", tmp_path)
    assert os.listdir(tmp_path) == ["test_mine.py"]


def test_results_of_a_third_partys_method_are_asked_for_by_its_short_name(tmp_path):
    (tmp_path / "mine.py").write_text(SOUND)
    named = ("--algorithms", "fedavg,mine.py:Mine", "--heterogeneity", "iid", "--name", "mine")
    suite_here("sweep", "smoke", "--smoke", *named, "--set", "max_concurrent=1", cwd=tmp_path)
    full, asked = f"{tmp_path / 'mine.py'}:Mine", ("--algorithm", "Mine", "--json")
    for words in ("tuned show", "run --tuned --rounds 1 --no-record"):
        assert document(suite_here(*words.split(), *asked, cwd=tmp_path))["algorithm"] == full
    board = document(suite_here("leaderboard", "mine", *asked, cwd=tmp_path))
    assert [row["algorithm"] for row in board["rows"]] == [full]
