"""Tuned configurations as programs of plain PyTorch."""

import json
import os
import subprocess
import sys
from functools import partial

import pytest
from torch import nn

from suite.configurations import configuration as tuned
from suite.configurations import program as plain
from suite.runs import single
from tests.support import configurations
from tests.support.commands import suite_here
from trials.common.errors import UserError
from trials.models import parse as model_named
from trials.models.base import Model

BASE = {"rounds": 4, "clients": 6, "participation": 0.5, "eval_every": 2, "dtype": "float64"}
BASE |= {"execution": "batched"}  # compiling loops takes seconds
CASES = {
    "fedavg": ("mlp(8,6)", {"local_epochs": 2, "momentum": 0.5, "clip_norm": 2.0}, {}),
    "fedprox": ("logreg", {"lr_decay": 0.9, "weight_decay": 0.01}, {"mu": 0.3}),
    "scaffold": ("logreg", {"local_steps": 7, "init": "zeros"}, {"server_lr": 0.7}),
    "fedadam": ("logreg", {"batch_size": "full", "aggregation": "plain"}, {"server_lr": 0.05}),
}
ALONE = """
import runpy, sys
TORCH = "torch torchgen functorch typing_extensions sympy mpmath networkx jinja2 markupsafe filelock fsspec setuptools"
class Only:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in TORCH.split():
            raise ModuleNotFoundError(f"{name} is not there")
sys.meta_path.insert(0, Only())
for program in sys.argv[1:]:
    sys.argv = [program, program.replace(".py", ".pt")]
    print(program)
    runpy.run_path(program, run_name="__main__")
"""
"""Runs programs where only torch, and what it requires itself, can be imported."""


def a_configuration(algorithm: str) -> tuned.Tuned:
    model, settings, params = CASES[algorithm]
    content = {"algorithm": algorithm, "dataset": "digits", "model": model}
    content |= {"heterogeneity": "dirichlet(0.3)", "settings": {**BASE, **settings}}
    return tuned.parse(json.dumps({**content, "params": {"lr": 0.5, **params}}), algorithm)


@pytest.mark.slow("a process that imports torch alone")
def test_programs_of_plain_pytorch_compute_the_runs_numbers(tmp_path):
    """In float64 on the run's samples, first weights and minibatches: what differs is the order of sums."""
    ours, programs = {}, []
    for algorithm in CASES:
        item = a_configuration(algorithm)
        for path, content in plain.exported(item, tmp_path, 3, None).items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        programs.append(str((tmp_path / item.path).with_suffix(".py")))
        history = single.execute(item.spec(3), None, "cpu", lambda entry: None).history
        ours[programs[-1]] = [(e["round"], e["test_accuracy"], e["test_loss"]) for e in history[1:]]
    command = [sys.executable, "-I", "-W", "ignore", "-c", ALONE, *programs]
    single_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=single_thread)
    assert done.returncode == 0, done.stderr
    theirs: dict[str, list[tuple[float, ...]]] = {}
    for line in done.stdout.splitlines():
        if line in ours:
            at = theirs.setdefault(line, [])
        else:
            at.append(tuple(map(float, line.split()[1::2])))
    assert list(theirs) == programs
    for program, rows in theirs.items():
        assert [row[0] for row in rows] == [2, 4]
        for mine, other in zip(ours[program], rows, strict=True):
            assert other == pytest.approx(mine, rel=1e-10), program


def test_convolutions_have_the_weights_in_our_order():
    """The module's parameters, one after the other, are the shapes of our layout."""
    for name in ("lenet5", "mcmahan_cnn", "feddc_cnn"):
        kind = model_named(name)
        layers = plain.layers_of(name, kind, (1, 28, 28), 10)
        module = nn.Sequential(*(eval(layer, {"nn": nn}) for layer in layers))
        shapes = [slot.shape for slot in Model(kind, (1, 28, 28), 10).layout]
        assert [tuple(p.shape) for p in module.parameters()] == shapes


@pytest.mark.parametrize(
    "change",
    [
        {"algorithm": "folb"},
        {"settings": {"selection": "independent"}},
        {"settings": {"init": "own"}},
    ],
)
def test_what_no_program_is_written_of(change):
    item = configurations.a_tuned().model_dump(mode="json") | change
    with pytest.raises(UserError, match="no program"):
        plain.prepared(tuned.parse(json.dumps(item), "mine"), 0, None)


def test_the_command(tmp_path):
    """It writes programs, and the run of a seed; what no program supports is said and left out."""
    storage = ("--storage", tmp_path / "runs")
    here = partial(suite_here, cwd=tmp_path)
    late = a_configuration("fedavg").model_copy(update={"heterogeneity": "iid+dropout(0.1)"})
    mine = configurations.folder(
        tmp_path / "mine", late, *map(a_configuration, ("fedprox", "scaffold"))
    )
    here("tuned", "import", mine, *storage)
    one = (*storage, "--algorithm", "fedprox")
    written = here("tuned", "export", tmp_path / "out", "--seed", "1", *one).stdout.splitlines()
    assert [path.split("/")[-1] for path in written] == ["fedprox.py", "fedprox.pt"]
    said = here("tuned", "export", tmp_path / "out", *storage)
    names = {line.split("/")[-1] for line in said.stdout.splitlines()}
    assert names == {"scaffold.py", "fedprox.py"}
    assert "left out: digits/iid+dropout(0.1)/mlp(8,6)/fedavg.yaml" in said.stderr
