"""`suite run --save` and `suite.load_model`."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import torch

import suite as interface
from suite.tracking.store import Store
from tests.support.commands import document, suite_here
from trials import datasets

RUN = (
    "run",
    *["--set", "rounds=2", "--set", "clients=4", "--algorithm", "safl", "--model", "mlp(8,8)"],
)


SCRIPT = """
import suite
import torch
from trials import datasets
data = datasets.parse("digits").load(0, None, None)
outputs = suite.load_model("kept")(torch.from_numpy(data.x[data.test])).detach().numpy()
print((outputs.argmax(1) == data.y[data.test]).mean(), outputs.tobytes().hex())
"""


def test_a_run_saves_its_model_which_computes_the_same_in_a_fresh_process(tmp_path):
    ran = document(suite_here(*RUN, "--save", "kept", "--json", cwd=tmp_path))
    said = subprocess.check_output([sys.executable, "-c", SCRIPT], cwd=tmp_path, text=True)
    accuracy, fresh = said.split()

    data = datasets.parse("digits").load(0, None, None)
    x, y = data.x[data.test], data.y[data.test]
    module = interface.load_model(tmp_path / "kept")
    assert isinstance(module, torch.nn.Module)
    with torch.no_grad():
        outputs = module(torch.from_numpy(x)).numpy()
    assert outputs.tobytes().hex() == fresh
    right = (outputs.argmax(1) == y).mean()
    assert right == float(accuracy) == ran["history"][-1]["test_accuracy"]
    assert interface.load_model(tmp_path / "kept", client=3)(torch.from_numpy(x)).shape == (360, 10)

    store = Store(None, tmp_path / "runs")
    copy = interface.load_model(Path(store.client.download_artifacts(ran["run_id"], "model")))
    with torch.no_grad():
        np.testing.assert_array_equal(copy(torch.from_numpy(x)).numpy(), outputs)
