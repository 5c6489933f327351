"""Golden runs: the numbers of this checkout, recorded before a large change and compared after it.

    python benchmarks/golden.py record benchmarks/golden.json
    python benchmarks/golden.py compare benchmarks/golden.json

runs every algorithm on three models, a sweep that is killed and resumed, another one, and the
readings of a paper's table, offline, in a few minutes on two cores. `compare` says each difference in words and exits with 1 where
there is one. Numbers are compared to the last bit; times, ids of runs, paths and sentences are left out.
"""

import argparse
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # this checkout, whatever is installed

RENAMED = {
    "cell": "entry_id",
    "cells": "entries",
    "scenarios": "entries",
    "deal": "partition",
    "deals": "partitions",
    "place": "scenario",
}
"""Words of names in documents that change on purpose: what is recorded, what it is called later.

A recorded name and a name of today are equal when they are after this. It changes no number.
"""
DROPPED = re.compile(
    r".*seconds|runs?|at|page|chosen|storage|tracking_uri|experiment_id|command|why|note"
)
"""Keys of documents whose values are times, ids of runs, places or remarks."""

MODELS = ("logreg", "mlp(16)", "mcmahan_cnn")  # compiled, batched, and a small convolution
LEVEL = "labels(2)+system(epochs=1..2)"
SETTINGS = {"rounds": 4, "clients": 6, "participation": 0.5, "batch_size": 64, "eval_every": 1}
SHORT = {"rounds": 10, "clients": 6, "participation": 0.5, "batch_size": 32, "eval_every": 2}
DIGITS = {"algorithms": ["fedavg", "folb"], "datasets": ["digits"], "settings": SHORT}
KILLED = "deals"
SWEEPS: dict[str, dict[str, Any]] = {
    KILLED: {
        **DIGITS,
        "models": ["logreg", "mlp(16)"],
        "heterogeneity": [LEVEL],
        "trials": 10,
        "seeds": 2,
        "partitions": 2,
        "confirm": {"best": 2, "seeds": 1},
        "pack": 4,
        "target": 0.3,
    },
    "gp": {
        **DIGITS,
        "models": ["logreg"],
        "heterogeneity": ["iid"],
        "trials": 10,
        "seeds": 1,
        "sampler": "gp",
        "confirm": {"best": 2, "seeds": 1},
    },
}
READINGS = ("folb/text", "--readings", "--seeds", "2", "--rounds", "20")
LONG = 12
"""Of longer lists of objects each has a digest of its numbers instead."""
PACKAGES = ("torch", "numpy", "scipy", "numba", "optuna", "ray", "scikit-learn")


def digest(numbers: Any) -> str:
    """A digest of the numbers in a document, whatever its names are."""
    return hashlib.sha256(_canonical(numbers).encode()).hexdigest()[:8]


def _canonical(value: Any) -> str:
    if isinstance(value, dict):
        return f"({' '.join(sorted(map(_canonical, value.values())))})"
    if isinstance(value, list | tuple):
        return f"[{' '.join(map(_canonical, value))}]"
    if isinstance(value, str):
        return "text"
    return value.hex() if isinstance(value, float) else repr(value)


def timeless(entry: dict[str, Any]) -> dict[str, Any]:
    """An evaluation without its times."""
    return {name: value for name, value in entry.items() if not name.endswith("_seconds")}


def algorithms(folder: Path) -> dict[str, Any]:
    """Histories and final models of every algorithm, by `model algorithm`."""
    import suite
    from trials.algorithms import ALGORITHMS

    found = {}
    for model in MODELS:
        for name in sorted(ALGORITHMS):
            run = suite.run(name, model=model, heterogeneity="labels(2)", settings=SETTINGS, seed=1)
            kept = folder / f"{model} {name}"
            run.save(kept)
            entries = [timeless(entry) for entry in run.history]
            metrics = sorted(set().union(*entries))
            found[kept.name] = {
                "status": str(run.status),
                "val_score": run.val_score,
                "test_score": run.test_score,
                "history": {
                    m: digest([entry[m] for entry in entries if m in entry]) for m in metrics
                },
                "weights": _weights(kept),
            }
            say(f"{kept.name}: {run.val_score:.3f}")
    return found


def _weights(folder: Path) -> str:
    """The SHA-256 of a saved model's tensors, the server's and then the clients'."""
    import torch

    said = hashlib.sha256()
    for file in sorted(folder.glob("*.pt"), reverse=True):
        for tensor in torch.load(file, weights_only=True).values():
            said.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            said.update(tensor.contiguous().numpy().tobytes())
    return said.hexdigest()


def started(folder: Path, *args: str) -> "subprocess.Popen[str]":
    """A command of this checkout that runs in a folder; what it says goes to a log beside that."""
    folder.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    env.pop("MLFLOW_TRACKING_URI", None)
    with _log(folder).open("a") as log:
        return subprocess.Popen(
            [sys.executable, "-c", "from suite.cli.app import main; main()", *args],
            cwd=folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )


def _log(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.log")


def document(folder: Path, *args: str) -> dict[str, Any]:
    """What a command prints with `--json`; ends the script where it fails."""
    process = started(folder, *args, "--json")
    out, _ = process.communicate()
    if process.returncode:
        said = _log(folder).read_text()[-3000:]
        sys.exit(f"suite {' '.join(args)} ended with {process.returncode}:\n{said}")
    made: dict[str, Any] = json.loads(out)
    return made


def sweep(folder: Path, name: str, *options: str) -> dict[str, Any]:
    """A sweep's summary, leaderboard and trials."""
    say(f"sweep {name}{' again' if options else ''}")
    summary = document(folder, "sweep", _study(folder, name), *options)
    return {
        "summary": kept(summary),
        "leaderboard": kept(document(folder, "leaderboard", name)),
        "trials": trials(folder),
    }


def _study(folder: Path, name: str) -> str:
    """The file of a study, beside the folder of its sweep."""
    file = folder.with_name(f"{name}.yaml")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"sampler": "tpe", "scheduler": "none", **SWEEPS[name]}))
    return str(file)


def killed(folder: Path, whole: int) -> dict[str, Any]:
    """The same sweep, ended with SIGKILL when its journal has half of its `whole` lines, then resumed."""
    journal = folder / "runs" / KILLED / "journal.jsonl"
    say(f"sweep {KILLED}, to be killed")
    process = started(folder, "sweep", _study(folder, KILLED))
    while lines(journal) < whole // 2:
        if process.poll() is not None:
            sys.exit(f"the sweep ended with {process.returncode} before it could be killed")
        time.sleep(0.02)
    process.kill()
    process.communicate()
    say(f"killed at line {lines(journal)} of {whole}")
    if lines(journal) >= whole:
        sys.exit("the sweep was over when it was killed")
    return sweep(folder, KILLED, "--resume")


def lines(journal: Path) -> int:
    """Whole lines of a journal."""
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def trials(folder: Path) -> dict[str, Any]:
    """All recorded trials of a store: the id, what was tried, and digests of what came out."""
    from mlflow import MlflowClient

    from suite.tracking.store import open_existing

    client = MlflowClient(f"sqlite:///{folder / 'runs' / 'mlflow.db'}")
    store = open_existing(None, folder / "runs")
    found = {}
    for experiment in client.search_experiments():
        for run in client.search_runs([experiment.experiment_id], max_results=10_000):
            tags, metrics = run.data.tags, run.data.metrics
            if "suite.trial_id" in tags:
                found[_called(tags)] = {
                    "id": tags["suite.trial_id"],
                    "kind": tags["suite.kind"],
                    "status": tags["suite.status"],
                    "seed": store.get(run.info.run_id).tags.seed,  # which its entry's run may have
                    "params": json.loads(tags["suite.params"]),
                    "val_score": metrics["val/score"],
                    "history": digest(
                        {
                            metric: [
                                (point.step, point.value)
                                for point in client.get_metric_history(run.info.run_id, metric)
                            ]
                            for metric in metrics
                            if not metric.endswith("_seconds")
                        }
                    ),
                }
    return dict(sorted(found.items()))


def _called(tags: dict[str, str]) -> str:
    """What a trial is called here: by what it ran, and by its id without its entry's hash."""
    names = (tags[f"suite.{part}"] for part in ("algorithm", "model", "heterogeneity"))
    return " ".join((*names, tags["suite.trial_id"].partition("-")[2]))


def readings(folder: Path) -> dict[str, Any]:
    """The document of the readings page."""
    say("readings")
    return {" ".join(READINGS): kept(document(folder, "reproduce", *READINGS))}


def kept(value: Any) -> Any:
    """A document without times, ids of runs, places and sentences; long lists as digests."""
    if isinstance(value, dict):
        parts = {k: kept(v) for k, v in value.items() if not DROPPED.fullmatch(k)}
        return {k: v for k, v in parts.items() if not _sentence(v)}
    if isinstance(value, list):
        parts = [kept(item) for item in value if not _sentence(item)]
        rows = len(parts) > LONG and isinstance(parts[0], dict)
        return [digest(item) for item in parts] if rows else parts
    return value


def _sentence(value: Any) -> bool:
    return isinstance(value, str) and len(value.split()) > 4


def sweeps(folder: Path) -> dict[str, Any]:
    """The sweeps; ends the script where the one that was killed is not as the one that was not."""
    found = {name: sweep(folder / name, name) for name in SWEEPS}
    whole = lines(folder / KILLED / "runs" / KILLED / "journal.jsonl")
    again = killed(folder / "killed", whole)
    told = list(differences(found[KILLED], again))
    if told:
        sys.exit("\n".join([f"killed and resumed, {KILLED} is another sweep:", *told]))
    return found


PARTS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "algorithms": algorithms,
    "sweeps": sweeps,
    "readings": readings,
}


def machine() -> dict[str, str]:
    """What numbers depend on besides the code."""
    info = Path("/proc/cpuinfo")
    models = (
        re.findall(r"^model name\s*: (.+)", info.read_text(), re.MULTILINE) if info.exists() else []
    )
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    return {
        "processor": models[0] if models else platform.processor(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **versions,
    }


def commit() -> str:
    """The commit that is checked out."""
    asked = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def renamed(name: str) -> str:
    """A name with each of its words as it is called later."""
    return re.sub("[a-z]+", lambda word: RENAMED.get(word[0], word[0]), name)


def differences(before: Any, now: Any, place: str = "") -> Iterator[str]:
    """Each difference of two documents, in words."""
    if isinstance(before, dict) and isinstance(now, dict):
        before = {renamed(k): v for k, v in before.items()}
        now = {renamed(k): v for k, v in now.items()}
        for key in before | now:
            there = f"{place} / {key}" if place else key
            if key not in now:
                yield f"{there}: is missing now"
            elif key not in before:
                yield f"{there}: was not recorded before"
            else:
                yield from differences(before[key], now[key], there)
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for index, (old, new) in enumerate(zip(before, now, strict=True)):
            yield from differences(old, new, f"{place} [{index}]")
    elif isinstance(before, str) and isinstance(now, str):
        if renamed(before) != renamed(now):
            yield f"{place}: recorded {before}, now {now}"
    elif before != now:
        yield f"{place}: recorded {before!r}, now {now!r}"


def say(text: str) -> None:
    """Tell how far it is."""
    print(text, file=sys.stderr, flush=True)


def written(found: Any, depth: int = 0) -> str:
    """A document as JSON, a line for each run, trial and leaderboard. Numbers are as exact as they are."""
    if not isinstance(found, dict) or depth > 3:
        return json.dumps(found)
    inner = [f"{json.dumps(key)}: {written(value, depth + 1)}" for key, value in found.items()]
    return "{\n" + ",\n".join(inner) + "\n}" if depth < 3 else "{" + ", ".join(inner) + "}"


def main() -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument(
        "--part", choices=PARTS, help="this part alone; of a record, the others stay"
    )
    args = parser.parse_args()
    kept = args.action == "compare" or args.part
    before = json.loads(args.file.read_text()) if kept else {}
    names = [args.part] if args.part else list(PARTS)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="suite-golden-") as scratch:
        found = {name: PARTS[name](Path(scratch) / name) for name in names}
    say(f"{time.monotonic() - began:.0f} s")
    if args.action == "record":
        made = {**before, "commit": commit(), "machine": machine(), **found}
        args.file.write_text(written(made) + "\n")
        return
    for told in differences(before["machine"], machine()):
        print(f"another machine, where last bits may be others: {told}")
    told_all = list(differences({name: before[name] for name in names}, found))
    print("\n".join([*told_all, f"{len(told_all) or 'no'} differences"]))
    sys.exit(1 if told_all else 0)


if __name__ == "__main__":
    main()
