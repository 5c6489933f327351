"""`suite run --save` and `suite.load_model`."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

import suite as interface
from suite.tracking.store import Store
from tests.support.commands import document, fault, suite_here
from trials import datasets
from trials.run.saved_model import read

RUN = (
    "run",
    *["--set", "rounds=2", "--set", "clients=4", "--algorithm", "safl", "--model", "mlp(8,8)"],
)


def digits_tests():
    data = datasets.parse("digits").load(0, None, None)
    return data.x[data.test], data.y[data.test]


def test_a_run_saves_its_model_which_scores_the_same_in_a_fresh_process(tmp_path):
    ran = document(suite_here(*RUN, "--save", "kept", "--json", cwd=tmp_path))
    script = "from trials.run.saved_model import read; print(read(Path('kept')).score())"
    python = [sys.executable, "-c", f"from pathlib import Path; {script}"]
    scores = ast.literal_eval(subprocess.check_output(python, cwd=tmp_path, text=True))
    assert scores == {key: ran["history"][-1][key] for key in scores}

    x, y = digits_tests()
    module = interface.load_model(tmp_path / "kept")
    assert isinstance(module, torch.nn.Module)
    with torch.no_grad():
        outputs = module(torch.from_numpy(x)).numpy()
    assert (outputs.argmax(1) == y).mean() == ran["history"][-1]["test_accuracy"]
    assert interface.load_model(tmp_path / "kept", client=3)(torch.from_numpy(x)).shape == (360, 10)

    store = Store(None, tmp_path / "runs")
    copy = interface.load_model(Path(store.client.download_artifacts(ran["run_id"], "model")))
    with torch.no_grad():
        np.testing.assert_array_equal(copy(torch.from_numpy(x)).numpy(), outputs)


def test_a_model_that_was_changed_does_not_score_the_same(tmp_path):
    suite_here(*RUN, "--no-record", "--save", "kept", cwd=tmp_path)
    weights = torch.load(tmp_path / "kept/model.pt", weights_only=True)
    weights["out.bias"] += 5 * torch.arange(10)
    torch.save(weights, tmp_path / "kept/model.pt")
    changed = read(tmp_path / "kept")
    assert changed.score()["test_accuracy"] != changed.card.scores["test_accuracy"]


def test_a_folder_with_other_files_is_refused_before_anything_runs(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.tex").write_text("x")
    done = suite_here(*RUN, "--save", "mine", cwd=tmp_path, code=2)
    assert "mine" in fault(done)
    done = suite_here(*RUN, "--save", "mine/thesis.tex", cwd=tmp_path, code=2)
    assert "mine/thesis.tex" in fault(done)
    assert os.listdir(tmp_path) == ["mine"]
