"""Final models in a folder: plain state dicts that compute what the run computed."""

import io
import pickle
from pathlib import Path

import pytest
import torch

from suite import load_model
from suite import run as suite_run
from tests.support import own_models
from tests.support.simulations import ROOT
from trials.common.errors import UserError
from trials.run.saved_model import SavedModel, read
from trials.run.spec import Scenario, canonical
from trials.run.trial import run
from trials.settings import Settings

OWN = ROOT / "tests" / "support" / "own_models.py"
CASES = {
    "logreg": ("fedavg", "logreg", {}),
    "mlp": ("fedprox", "mlp(8,8)", {"dtype": "float64"}),
    "clients too": ("safl", "mlp(8,8)", {"dtype": "bf16"}),
    "devices": ("defed", "logreg", {}),
    "clients alone": ("local_only", "logreg", {}),
    "convolutions": ("fedavg", "mcmahan_cnn", {"execution": "sequential"}),
    "statistics": ("fedavg", f"{OWN}:Normalised", {}),
}
COMMON = {"rounds": 2, "clients": 4, "eval_every": 1}


def kept(folder, algorithm, model, given):
    """A run on digits and its saved models, written and read."""
    settings = Settings(**{**COMMON, **given})
    spec = canonical(algorithm, {}, Scenario("digits", model, "labels(3)"), settings, 3)
    simulation, data = run(spec)
    SavedModel.of(spec, simulation).files(folder)
    return simulation, data, read(folder, model)


def bytes_of(content):
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("case", CASES)
def test_a_saved_model_computes_what_its_run_did(tmp_path, case):
    """Its module has the run's outputs to the bit, and the file as its state dict; the card has the scores."""
    simulation, data, saved = kept(tmp_path, *CASES[case])
    last = simulation.history[-1]
    scores = saved.card.scores
    assert scores == {key: last[key] for key in scores}
    assert "test_accuracy_worst10" in scores
    if "w" not in simulation.state:
        return
    module, x = saved.module(), simulation.fed.x[data.test]
    with torch.no_grad():
        assert torch.equal(module(x), simulation.fed.model.logits(simulation.state["w"], x))
    file, state = torch.load(tmp_path / "model.pt", weights_only=True), module.state_dict()
    assert file.keys() == state.keys() >= {slot.name for slot in simulation.fed.model.layout}
    assert all(torch.equal(file[name], state[name]) for name in file)


def test_clients_models_are_their_own_and_what_a_method_has_not_is_said(tmp_path):
    simulation, _, saved = kept(tmp_path, *CASES["clients too"])
    own = simulation.state["z"][torch.arange(4)]
    for client in range(4):
        flat = torch.cat([p.flatten() for p in saved.module(client).parameters()])
        assert torch.equal(flat, own[client])
    with pytest.raises(UserError, match="client 4"):
        saved.module(4)
    *_, saved = kept(tmp_path, *CASES["clients alone"])
    with pytest.raises(UserError, match="local_only has no server model"):
        saved.module()
    *_, saved = kept(tmp_path, *CASES["logreg"])
    with pytest.raises(UserError, match="keeps 0 clients"):
        saved.module(0)


class Trap:
    def __reduce__(self):
        return Path.touch, (Path("trapped"),)


BAD = {
    "a pickle": pickle.dumps(Trap()),
    "code in torch's format": bytes_of({"out.weight": Trap()}),
    "no file of torch's": b"hello",
    "other weights": bytes_of({"out.weight": torch.zeros(2, 2)}),
}


def test_nothing_in_a_file_is_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kept(tmp_path, *CASES["logreg"])
    for content in BAD.values():
        (tmp_path / "model.pt").write_bytes(content)
        with pytest.raises(UserError, match=r"saved model .*model\.pt"):
            read(tmp_path)
    (tmp_path / "model.pt").unlink()
    with pytest.raises(UserError, match="missing"):
        read(tmp_path)
    assert not (tmp_path / "trapped").exists()


def test_a_folder_runs_no_code_that_the_caller_does_not_name(tmp_path):
    file = tmp_path / "net.py"
    file.write_text(OWN.read_text())
    kept(tmp_path, "fedavg", f"{file}:mlp(width=8)", {})
    (tmp_path / "moved").mkdir()
    moved = file.rename(tmp_path / "moved" / "net.py")
    file.write_text("raise SystemExit('it ran')")
    with pytest.raises(UserError, match="needs third-party code"):
        load_model(tmp_path)
    with pytest.raises(UserError, match="has changed since"):
        load_model(tmp_path, model=f"{file}:mlp(width=8)")
    x = torch.rand(3, 1, 8, 8)
    assert load_model(tmp_path, model=f"{moved}:mlp(width=8)")(x).shape == (3, 10)


def test_a_model_is_given_as_its_function():
    done = suite_run(model=own_models.mlp, rounds=1, clients=4)
    file = Path(own_models.__file__)
    assert done.spec.model in (f"{file}:mlp", "tests.support.own_models:mlp")
    for other in (lambda shape, classes: None, own_models.mlp((2,), 2)):
        with pytest.raises(UserError, match="defined at the top of a file"):
            suite_run(model=other)
