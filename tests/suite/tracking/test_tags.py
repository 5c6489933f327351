"""Tags: recorded as they always were, read as what they stand for."""

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from suite.runs.single import Finished, Recording
from suite.search.sweep_search import SweepSearch
from suite.search.trial import InitialConfiguration, ValidationResult
from suite.sweeps.recording.finish import Finish
from suite.sweeps.recording.runs import SweepRecording
from suite.tracking.schema.forms import SPAN
from suite.tracking.schema.tags import RunKind, Tags, _commit, versions, written
from suite.tracking.store import Store
from tests.support.searches import a_study, entries_of
from tests.support.simulations import ROOT
from trials.common.errors import UserError
from trials.run.outcome import Status
from trials.run.result import TrialResult
from trials.run.spec import TrialSpec
from trials.settings import Settings

PLACE = {"dataset": "digits", "model": "logreg", "heterogeneity": "labels(2)"}
SETTINGS = {"rounds": 5, "eval_every": 5, "participation": 0.5}
STUDY = {
    "algorithms": ["defed"],
    "heterogeneity": ["labels(2)"],
    "trials": 1,
    "seeds": 1,
    "target": 0.5,
    "constraints": {"uploaded_bytes": {"max": 1e9}},
    "settings": SETTINGS,
}
SPEC = TrialSpec(
    algorithm="fedprox",
    params={"lr": 0.1, "mu": 0.01},
    settings=Settings(rounds=5),
    seed=3,
    **PLACE,
)
ENTRY = {
    "entry_id": "c928f7f0",
    "entry_name": "defed · digits · logreg · labels(2)",
    "algorithm": "defed",
    "paper": "DeFed",
    "reference": "true",
    "outside": "participation is 0.5, its paper's 1.0: ",
    **PLACE,
}
TRIAL = {
    "study": "tagged",
    "sweep": "tagged",
    "status": "finished",
    "partition_fingerprint": "abc",
    "execution": "batched",
    "chunk": "7",
    "not_finite": "val_loss",
    "metric": "accuracy",
    "target": "0.5",
    "sampler": "tpe",
    "scheduler": "none",
    "warm_start": "elsewhere",
    "feasible": "true",
}


TOPOLOGIES = ["ring(2)", "ring(4)", "ring(6)", "ring(8)", "complete", "star"]


def plain(value: Any) -> str:
    """As JSON is recorded."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def outcome() -> TrialResult:
    """Of a trial that reached 0.75, and has a validation loss that is not finite."""
    start = {"round": 0, "test_accuracy": 0.1, "val_accuracy": 0.1, "val_loss": 1.0}
    end = {"round": 5, "test_accuracy": 0.75, "val_accuracy": 0.7, "val_loss": float("nan")}
    counted = {"uploaded_bytes": 10.0, "downloaded_bytes": 10.0, "client_steps": 3.0}
    return TrialResult(
        Status.FINISHED, [start, {**end, **counted}], {5: 0.7}, "abc", "", 1.0, "batched", 7
    )


def recorded(store: Store, **tags: str) -> dict[str, str]:
    """The texts of the one run with these tags, less what this machine or MLflow says."""
    (run,) = store.find(**tags)
    here = {"run_status", "experiment_id", "format", *versions()}
    return {name: text for name, text in run.tags.items() if name not in here}


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    return Store(None, tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def swept(store, tmp_path_factory) -> SimpleNamespace:
    """A sweep of one trial and one final run, recorded to its leaderboard."""
    study, cells = a_study(**STUDY), entries_of(**STUDY)
    warm = {
        cell.id: [InitialConfiguration("warm", cell.space.default(), "elsewhere")] for cell in cells
    }
    search = SweepSearch(cells, study, 1, {})
    recording = SweepRecording(store, "tagged", "tagged", study, search, warm, {}, "id", None)
    recording.open()
    asks, ended = [], {}
    for _ in range(2):
        ask, _ = search.next()
        asks.append(ask)
        ended[ask.trial_id] = outcome()
        recording.record(ask, outcome())
        search.end(ask.trial_id, ValidationResult.of(outcome()))
    scores = {trial_id: one.tested("accuracy") for trial_id, one in ended.items()}
    finish = Finish(recording, tmp_path_factory.mktemp("tuned"))
    finish.bring_in(ended, scores, {asks[1].trial_id})
    return SimpleNamespace(study=study, requests=asks, search=search)


def as_cell(found: dict[str, str]) -> dict[str, str]:
    """Without the reason why its settings are outside the paper's, which is the algorithm's to word."""
    return {**found, "outside": found["outside"][: len(ENTRY["outside"])]}


def test_what_a_sweep_and_its_cells_record(store, swept):
    of_sweep = {"kind": "sweep", "study": "tagged", "sweep": "tagged"}
    study = plain(swept.study.model_dump(mode="json"))
    assert recorded(store, kind="sweep") == {**of_sweep, "study_json": study, "sweep_id": "id"}
    written = as_cell(recorded(store, kind="entry"))
    assert json.loads(written.pop("space")) == {
        "lr": {"type": "float", "low": 0.001, "high": 1.0, "log": True, "above": 0},
        "topology": {"type": "choice", "choices": TOPOLOGIES},
        "grad_scale": {"type": "choice", "choices": ["one", "samples"]},
    }
    assert {"metric", "sampler", "spec", "study", "version"} <= json.loads(
        written.pop("trials")
    ).keys()
    (trial,) = json.loads(written.pop("searched"))
    assert trial == [
        "",
        0,
        False,
        "finished",
        0.7,
        0.75,
        "default",
        swept.requests[0].params,
        True,
        "",
    ]
    assert written == {**of_sweep, **ENTRY, "kind": "entry"}


def test_the_space_of_an_entry_is_read_back(store, swept):
    (entry,) = entries_of(**STUDY)
    (run,) = store.find(kind="entry")
    for name, spec in entry.space.searched.items():
        read = run.tags.space[name]
        assert all(getattr(read, key) == getattr(spec, key) for key in ("type", *SPAN))


@pytest.mark.parametrize(
    ("number", "own"),
    [
        (0, {"kind": "search", "seed": "0", "trial_id": "-s0000", "origin": "default"}),
        (1, {"kind": "final", "seed": "1", "trial_id": "-f0000-0", "reached": "true"}),
    ],
)
def test_what_a_trial_records(store, swept, number, own):
    ask = swept.requests[number]
    own = {"origin": "default", **own, "trial_id": ENTRY["entry_id"] + own["trial_id"]}
    if number:
        own["source"] = f"{ENTRY['entry_id']}-s0000"
    spec = plain(swept.search.spec(ask).model_dump(mode="json"))
    expected = {**ENTRY, **TRIAL, **own, "spec": spec, "params": plain(ask.params)}
    assert as_cell(recorded(store, kind=own["kind"])) == expected


def test_what_a_leaderboard_s_row_records(store, swept):
    found = as_cell(recorded(store, kind="leaderboard"))
    assert found.pop("tuned").startswith(
        "# suite run THIS_FILE --seed 1\nformat: 3\nalgorithm: defed\n"
    )
    row = {"kind": "leaderboard", "study": "tagged", "sweep": "tagged", "status": "finished"}
    row["importance"] = "{}"  # of one trial nothing is said
    assert found == {**ENTRY, **row, "row": "tagged 0000", "score": "0.7500"}


def of_trial(spec: TrialSpec) -> dict[str, str]:
    """What every run outside a sweep records."""
    place = {"dataset": spec.dataset, "model": spec.model, "heterogeneity": spec.heterogeneity}
    return {
        "algorithm": spec.algorithm,
        "seed": str(spec.seed),
        "spec": plain(spec.model_dump(mode="json")),
        **place,
        "status": "finished",
        "partition_fingerprint": "abc",
        "execution": "batched",
        "chunk": "7",
    }


def test_what_a_run_records(store, tmp_path):
    simulation = SimpleNamespace(
        diverged=False,
        finished=True,
        history=[{"round": 0, "test_accuracy": 0.1}],
        fed=SimpleNamespace(
            data=SimpleNamespace(fingerprint="abc", dataset=SimpleNamespace(note="standardised")),
            execution="batched",
            chunk=7,
            halved={"round": 2, "chunk": 3},
            device=torch.device("cpu"),
            model=SimpleNamespace(architecture=SimpleNamespace(note="at once")),
        ),
    )
    run = Finished(SPEC, simulation, 1.0)
    recording = Recording(store.uri, tmp_path)
    recording.record(run)
    more = {
        "paper": "Li et al. 2020",
        "halved": '{"chunk":3,"round":2}',
        "model_note": "at once",
        "data_note": "standardised",
        "device": "cpu",
        "kind": "run",
    }
    assert recorded(store, kind="run") == {**of_trial(SPEC), **more}


VALUES = {
    "kind": RunKind.SUPERSEDED,
    "seed": 3,
    "status": Status.PRUNED,
    "spec": SPEC,
    "params": {"lr": 0.1, "batch_size": "full"},
    "target": 0.1 + 0.2,
    "not_finite": ("a", "b"),
    "feasible": False,
    "chunk": 12,
    "study_json": {"target": None},
}


def test_what_is_written_is_read():
    texts = written(**VALUES, error=None)
    assert "error" not in texts
    tags = Tags(texts, "r1")
    assert {name: getattr(tags, name) for name in VALUES} == VALUES
    assert tags.error is None
    assert tags == texts, "and they are the texts, to whoever asks by name"


@pytest.mark.parametrize("name", ["kind", "spec", "sweep"])
def test_a_tag_that_is_missing_is_named_with_its_run(name):
    with pytest.raises(UserError, match=rf"^run r1: tag suite\.{name} is missing$"):
        getattr(Tags({"foreign": "tag"}, "r1"), name)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("kind", "soup"),
        ("seed", "three"),
        ("params", "[0.1]"),
        ("feasible", "yes"),
        ("chunk", "1.5"),
    ],
)
def test_a_tag_that_cannot_be_read_is_shown_with_its_run(name, text):
    with pytest.raises(UserError) as error:
        getattr(Tags({name: text}, "r1"), name)
    assert str(error.value) == f"run r1: tag suite.{name} cannot be read: {text!r}"


def git(folder: Path, *words: str) -> str:
    by = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    done = subprocess.run(
        ["git", "-C", folder, *by, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_the_commit_is_the_suite_s_own(tmp_path, monkeypatch):
    """Not that of the repository that an environment lies in, nor that of whose hook runs the command."""
    own, theirs = tmp_path / "theirs" / "suite", tmp_path / "theirs"
    own.mkdir(parents=True)
    for folder in (theirs, own):
        git(folder, "init", "-q")
        (folder / "pyproject.toml").touch()
        git(folder, "add", "pyproject.toml")
        git(folder, "commit", "-qm", folder.name)
    installed = theirs / ".venv/lib/python3/site-packages"
    installed.mkdir(parents=True)
    monkeypatch.setenv("GIT_DIR", str(theirs / ".git"))
    assert _commit(installed) is None
    found = _commit(own)
    monkeypatch.delenv("GIT_DIR")
    assert found == git(own, "rev-parse", "HEAD")
    assert found != git(theirs, "rev-parse", "HEAD")


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="the tests lie in no repository")
def test_a_checkout_of_the_suite_records_its_commit():
    assert versions()["git_commit"] == git(ROOT, "rev-parse", "HEAD")
