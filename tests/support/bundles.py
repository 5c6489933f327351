"""A small bundle made by hand, and what of it may be changed: no run is behind it."""

import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from suite.boards.bundle import BOARD, LISTING
from suite.boards.folders import listed
from suite.configurations.configuration import Tuned
from trials.run.scenario import Scenario
from trials.run.spec import canonical
from trials.settings import Settings

Content = dict[str, Any]
Change = Callable[[Content], object]
"""What makes a bundle's content another one."""

PLACE = {"dataset": "digits", "model": "logreg", "heterogeneity": "iid"}
SETTINGS = Settings(rounds=1, clients=4, participation=1.0)
RECORDS, SEARCHES, FINALS = (f"sweeps/s/{part}.json" for part in ("records", "searches", "finals"))
TUNED = "tuned/s/digits/iid/logreg/fedavg.yaml"
FACTS = {
    "made_by": "a bundle of suite publish",
    "format": 2,
    "date": "2026-01-01",
    "versions": {"version": "0.1.0"},
    "machine": {"processor": "an abacus"},
    "sweeps": ["s"],
    "code": {},
}
COMMON = {"sweep": "s", "study": "s", "run_status": "FINISHED", "experiment_id": "1"}
ENTRY = {
    **COMMON, **PLACE, "entry_id": "c", "entry_name": "fedavg · digits · logreg · iid",
    "algorithm": "fedavg", "paper": "McMahan et al. 2017", "reference": "false",
}  # fmt: skip
TRIAL = {
    **ENTRY, "status": "finished", "metric": "accuracy", "origin": "sampled",
    "params": '{"lr":0.1}',
}  # fmt: skip
STUDY = {"sampler": "random", "scheduler": "none", "trials": 1, "seeds": 2}


def kept(number: int, kind: str, tags: Mapping[str, str], **more: Any) -> Content:
    """A recorded run."""
    of = {"run_id": f"r{number}", "tags": {**tags, "kind": kind}, "metrics": {}}
    return {**of, "began": 1.0, "ended": 2.0, **more}


def final(number: int, score: float) -> Content:
    """A final run of one round."""
    spec = canonical("fedavg", {"lr": 0.1}, Scenario(**PLACE), SETTINGS, number).model_dump()
    tags = {
        **TRIAL, "seed": f"{number}", "spec": json.dumps(spec), "partition_fingerprint": "f",
        "trial_id": f"c-f0000-{number - 1}", "source": "c-s0000",
    }  # fmt: skip
    course = [{"rounds": [0, 1], "values": {"test_accuracy": [0.1, score]}}]
    metrics = {"test_accuracy": score, "test_score": score}
    return kept(10 + number, "final", tags, metrics=metrics, curve=course)


def content() -> Content:
    """The files of a sound bundle as what they hold, by their paths; its facts as those of its list."""
    tuned = Tuned(algorithm="fedavg", **PLACE, params={"lr": 0.1}, settings=SETTINGS).text()
    space = json.dumps({"lr": {"type": "float", "low": 0.01, "high": 1.0, "log": True}})
    search = {**TRIAL, "seed": "0", "trial_id": "c-s0000"}
    return {
        LISTING: dict(FACTS),
        BOARD: {"rows": []},
        RECORDS: [
            kept(1, "sweep", {**COMMON, "study_json": json.dumps(STUDY)}),
            kept(2, "entry_id", {**ENTRY, "space": space}),
            kept(3, "leaderboard", {**ENTRY, "tuned": tuned}),
        ],
        SEARCHES: [kept(4, "search", search, metrics={"val_score": 0.5, "test_accuracy": 0.5})],
        FINALS: [final(1, 0.6), final(2, 0.7)],
        TUNED: tuned,
    }


def packed(change: Change = lambda content: None) -> dict[str, bytes]:
    """The files of a bundle that was changed before its list was made; of its content text stays as it is."""
    found = content()
    change(found)
    facts = found.pop(LISTING)
    files = {
        path: (inner if isinstance(inner, str) else json.dumps(inner)).encode()
        for path, inner in found.items()
    }
    return {**files, LISTING: listed(facts, files)}


def written(folder: Path, files: Mapping[str, bytes]) -> Path:
    """These files below a folder."""
    for path, inner in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(inner)
    return folder


def a_zip(members: Mapping[str, bytes], form: int = zipfile.ZIP_STORED) -> bytes:
    """A zip of these."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", form) as archive:
        for name, inner in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = form
            archive.writestr(info, inner)
    return out.getvalue()


def tag(path: str, number: int, name: str, text: str | None) -> Change:
    """Another text of a run's tag, or none."""

    def change(found: Content) -> None:
        tags = found[path][number]["tags"]
        tags.pop(name, None)
        if text is not None:
            tags[name] = text

    return change
