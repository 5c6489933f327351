"""`--log tensorboard|wandb`: runs in other tools as well, by their own libraries."""

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
from tensorboardX.proto.event_pb2 import Event

from suite.tracking.loggers import log_run
from tests.support.commands import SINGLY, document, fault, suite_here


def scalars(path):
    """(tag, step) -> value of an events file: records of 8 + 4 bytes of length, the event, 4 of a sum."""
    content, at, found = path.read_bytes(), 0, {}
    while at < len(content):
        length = int.from_bytes(content[at : at + 8], "little")
        event = Event.FromString(content[at + 12 : at + 12 + length])
        at += 16 + length
        for value in event.summary.value:
            if value.HasField("simple_value"):
                found[value.tag, event.step] = value.simple_value
    return found


def test_a_run_is_in_tensorboard_too(tmp_path):
    words = (
        "run",
        "--set",
        "rounds=2",
        "--set",
        "clients=3",
        "--no-record",
        "--log",
        "tensorboard",
        "--json",
    )
    history = document(suite_here(*words, cwd=tmp_path))["history"]
    (file,) = (tmp_path / "runs/runs/tensorboard").glob("fedavg-*-seed0/events.*")
    found = scalars(file)
    for entry in history:
        for metric in ("test_accuracy", "val_loss", "uploaded_bytes"):
            assert found[metric, entry["round"]] == pytest.approx(entry[metric], rel=1e-6)
    assert ("round", 0) not in found


def test_trials_of_a_sweep_are_in_tensorboard_too(tmp_path):
    few = ("--algorithms", "fedavg", "--heterogeneity", "iid", "--log", "tensorboard")
    done = document(suite_here("sweep", "smoke", "--smoke", *few, *SINGLY, "--json", cwd=tmp_path))
    folders = list((tmp_path / "runs/smoke-smoke/tensorboard").iterdir())
    ended = sum(done[f"trials_{status}"] for status in ("finished", "pruned", "diverged"))
    assert len(folders) == ended + done["final_runs"]


def test_weights_and_biases_gets_the_params_and_the_finite_metrics_by_round(tmp_path, monkeypatch):
    seen = []

    class Run:
        def __enter__(self):
            return self

        def __exit__(self, *error):
            seen.append("finished")

        def log(self, values, step):
            seen.append((step, values))

    def init(**given):
        seen.append(given)
        return Run()

    wandb = ModuleType("wandb")
    wandb.init, wandb.Settings = init, dict
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    folder = tmp_path / "mine" / "wandb"
    history = [{"round": 0, "a": 1.0, "b": float("nan")}, {"round": 5, "a": 2.0}]
    log_run("wandb", folder, "one", {"lr": 0.1}, history)
    assert seen == [
        {
            "project": "mine",
            "name": "one",
            "dir": str(folder),
            "config": {"lr": 0.1},
            "settings": {"silent": True, "console": "off"},
        },
        (0, {"round": 0, "a": 1.0}),
        (5, {"round": 5, "a": 2.0}),
        "finished",
    ]


def test_a_place_that_is_none_or_not_installed_is_refused(tmp_path, monkeypatch):
    said = fault(suite_here("run", "--log", "tensorbord", cwd=tmp_path, code=2))
    assert said == "unknown place to log to 'tensorbord'. Did you mean 'tensorboard'?"
    monkeypatch.setattr("suite.tracking.loggers.find_spec", lambda name: None)
    said = fault(suite_here("run", "--log", "wandb", cwd=tmp_path, code=2))
    assert said == "--log wandb: its library is not installed: pip install wandb"


def test_a_place_that_takes_nothing_costs_no_run(tmp_path, monkeypatch):
    def unsupported(**given):
        raise RuntimeError("no API key is configured")

    wandb = ModuleType("wandb")
    wandb.init, wandb.Settings, wandb.__spec__ = unsupported, dict, ModuleSpec("wandb", None)
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    words = (
        "run",
        "--set",
        "rounds=1",
        "--set",
        "clients=3",
        "--no-record",
        "--log",
        "wandb",
        "--json",
    )
    done = suite_here(*words, cwd=tmp_path)
    assert document(done)["status"] == "finished"
    said = "wandb did not accept the run: no API key is configured"
    assert done.stderr.splitlines()[-1] == said
