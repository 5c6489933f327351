"""Final models in a folder: plain state dicts that score what the run scored."""

import io
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from suite import load_model
from suite import run as suite_run
from tests.support import own_models
from tests.support.simulations import ROOT, fresh_process
from trials.common.errors import UserError
from trials.run.saved_model import SavedModel, read
from trials.run.scenario import Scenario
from trials.run.spec import canonical
from trials.run.trial import run
from trials.settings import Settings

CASES = [
    ("fedavg", "logreg", {}),
    ("fedprox", "mlp(8,8)", {"dtype": "float64"}),
    ("safl", "mlp(8,8)", {"dtype": "bf16"}),
    ("defed", "logreg", {}),
    ("local_only", "logreg", {}),
    ("fedavg", "mcmahan_cnn", {"execution": "sequential"}),
]
COMMON = {"rounds": 2, "clients": 4, "eval_every": 1}


def kept(folder, algorithm, model, given):
    """A run on digits and its saved models, written and read."""
    settings = Settings(**{**COMMON, **given})
    spec = canonical(algorithm, {}, Scenario("digits", model, "labels(3)"), settings, 3)
    simulation, data = run(spec)
    SavedModel.of(spec, simulation).files(folder)
    return simulation, data, read(folder)


@pytest.mark.parametrize(("algorithm", "model", "given"), CASES)
def test_a_saved_model_scores_what_its_run_scored(tmp_path, algorithm, model, given):
    simulation, _, saved = kept(tmp_path, algorithm, model, given)
    last = simulation.history[-1]
    found = saved.score()
    assert found == {key: last[key] for key in found}
    assert found == saved.card.scores
    assert "test_accuracy_worst10" in found


@pytest.mark.parametrize(("algorithm", "model", "given"), CASES[:3] + CASES[5:])
def test_the_module_gives_the_runs_outputs_and_its_state_dict_is_the_file(
    tmp_path, algorithm, model, given
):
    simulation, data, saved = kept(tmp_path, algorithm, model, given)
    module = saved.module()
    x, y = simulation.fed.x[data.test], simulation.fed.y[torch.from_numpy(data.test)]
    with torch.no_grad():
        outputs = module(x)
    assert torch.equal(outputs, simulation.fed.model.logits(simulation.state["w"], x))
    accuracy = float((outputs.argmax(1) == y).double().mean())
    assert accuracy == simulation.history[-1]["test_accuracy"]
    file = torch.load(tmp_path / "model.pt", weights_only=True)
    state = module.state_dict()
    assert list(file) == list(state) == [slot.name for slot in simulation.fed.model.layout]
    assert all(torch.equal(file[name], state[name]) for name in file)


def test_a_module_can_be_trained_further(tmp_path):
    *_, saved = kept(tmp_path, *CASES[0])
    module = saved.module()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    x, y = torch.rand(8, 1, 8, 8), torch.arange(8)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(module(x), y)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]


def test_clients_models_are_their_own(tmp_path):
    simulation, _, saved = kept(tmp_path, *CASES[2])
    own = simulation.state["z"][torch.arange(4)]
    for client in range(4):
        flat = torch.cat([p.flatten() for p in saved.module(client).parameters()])
        assert torch.equal(flat, own[client])
    with pytest.raises(UserError, match=r"^client is 4, but must be a client of 0 to 3$"):
        saved.module(4)


def test_what_a_method_has_not_is_said(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    *_, saved = kept(tmp_path / "a", *CASES[4])
    said = "^local_only has no server model: name one of its clients, 0 to 3$"
    with pytest.raises(UserError, match=said):
        saved.module()
    *_, saved = kept(tmp_path / "b", *CASES[0])
    with pytest.raises(UserError, match=r"^fedavg keeps no models of its clients$"):
        saved.module(0)


def test_a_fresh_process_gives_the_same_scores(tmp_path):
    simulation, *_ = kept(tmp_path, *CASES[1])
    script = (
        "import json; from pathlib import Path; from trials.run.saved_model import read; "
        f"print(json.dumps(read(Path({str(tmp_path)!r})).score()))"
    )
    found = json.loads(fresh_process(script))
    assert found == {key: simulation.history[-1][key] for key in found}


class Trap:
    def __reduce__(self):
        return Path.touch, (Path("trapped"),)


def bytes_of(content):
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


BAD = {
    "a pickle": pickle.dumps(Trap()),
    "code in torch's format": bytes_of({"out.weight": Trap()}),
    "no file of torch's": b"hello",
    "nothing": b"",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("saved")
    kept(made, *CASES[0])
    return made


@pytest.mark.parametrize("name", BAD)
def test_nothing_in_a_file_is_run(folder, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.json").write_bytes((folder / "model.json").read_bytes())
    (tmp_path / "model.pt").write_bytes(BAD[name])
    with pytest.raises(UserError) as refused:
        read(tmp_path)
    file = tmp_path / "model.pt"
    said = f"saved model {file} cannot be read: it is damaged, or holds more than tensors"
    assert str(refused.value) == said
    assert not (tmp_path / "trapped").exists()


def test_content_survives_a_checkpoint(folder):
    saved = read(folder)
    again = SavedModel.from_content(
        torch.load(io.BytesIO(bytes_of(saved.content)), weights_only=True)
    )
    assert again.card == saved.card
    np.testing.assert_array_equal(again.server, saved.server)
    assert again.clients is None


def test_a_folder_runs_no_code_that_the_caller_does_not_name(tmp_path):
    file = tmp_path / "net.py"
    file.write_text((ROOT / "tests" / "support" / "own_models.py").read_text())
    kept(tmp_path, "fedavg", f"{file}:mlp(width=8)", {})
    (tmp_path / "moved").mkdir()
    moved = file.rename(tmp_path / "moved" / "net.py")
    file.write_text("raise SystemExit('it ran')")
    with pytest.raises(UserError, match="needs code of others"):
        load_model(tmp_path)
    with pytest.raises(UserError, match="has changed since"):
        load_model(tmp_path, model=f"{file}:mlp(width=8)")
    x = torch.rand(3, 1, 8, 8)
    assert load_model(tmp_path, model=f"{moved}:mlp(width=8)")(x).shape == (3, 10)


def test_a_model_is_given_as_its_function():
    done = suite_run(model=own_models.mlp, rounds=1, clients=4)
    file = Path(own_models.__file__)
    assert done.spec.model in (f"{file}:mlp", "tests.support.own_models:mlp")
    assert load_model_of(done)(torch.rand(3, 1, 8, 8)).shape == (3, 10)
    with pytest.raises(UserError, match="must be defined at the top of a file"):
        suite_run(model=lambda shape, classes: None)


def load_model_of(done):
    return SavedModel.of(done.spec, done.simulation).module()
