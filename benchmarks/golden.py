"""Record what this checkout computes as one flat table, before a change, and compare with it after the change.

    python benchmarks/golden.py record
    python benchmarks/golden.py compare                # --part trials|specified|boards|papers|kills, --within 1e-6

The table is `golden.csv` with columns part, scenario, method, quantity, value. It does not depend on the suite's file formats. `compare`
prints each difference, and exits with 1 if there is any. Numbers are equal to the last bit, or `--within` a relative difference.
"""

import argparse
import csv
import importlib.metadata
import json
import math
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # this checkout, whatever is installed
FILE = ROOT / "benchmarks" / "golden.csv"
Key = tuple[str, str, str]
Table = dict[Key, str]

MODELS = ("logreg", "mlp(16)", "mcmahan_cnn")  # compiled, batched, and a small convolution
SHORT = {"rounds": 4, "clients": 6, "participation": 0.5, "batch_size": 64, "eval_every": 1}
LEVEL = "labels(2)"

LONGER = {"rounds": 6, "clients": 8, "participation": 0.5, "batch_size": 16, "eval_every": 2}
SPECIFIED: list[dict[str, Any]] = [
    {"algorithm": "fedavg", "heterogeneity": "dirichlet(0.3)", "lr": 0.2, "momentum": 0.9, "weight_decay": 0.001},
    {"algorithm": "fedprox", "heterogeneity": "labels(2)+system(epochs=1..3)", "lr": 0.1, "mu": 0.05, "local_epochs": 2},
    {"algorithm": "scaffold", "model": "mlp(16)", "heterogeneity": "shards(2)", "lr": 0.05, "partition_seed": 3},
    {"algorithm": "folb", "dataset": "synthetic(1,1)", "heterogeneity": "natural+system(steps=1..9)", "lr": 0.05, "mu": 0.1, "variant": "heterogeneity", "psi": 0.3},
    {"algorithm": "safl", "heterogeneity": "iid+dropout(0.2)", "lr": 0.1, "L": 5.0, "epsilon": 0.02},
    {"algorithm": "fedagg", "model": "mlp(16)", "heterogeneity": "dirichlet_by_class(0.3)", "lr": 0.1, "alpha": 0.05},
    {"algorithm": "defed", "heterogeneity": "iid", "lr": 0.3, "topology": "ring(2)", "participation": 1.0},
    {"algorithm": "fedumf", "heterogeneity": "labels(2)", "lr": 0.1, "alpha": 0.4, "batch_size": "full"},
    {"algorithm": "fedadam", "model": "mcmahan_cnn", "heterogeneity": "iid+speed(0.5)+delay(mean=2,deadline=9)", "lr": 0.05},
    {"algorithm": "fedavg", "dataset": "synthetic(0.5,0.5)", "heterogeneity": "natural", "lr": 0.1, "execution": "sequential"},
]  # fmt: skip

SWEEP = {
    "algorithms": ["fedavg", "folb"],
    "datasets": ["digits"],
    "models": ["logreg"],
    "heterogeneity": ["dirichlet(0.3)"],
    "seeds": 2,
    "trials": 12,  # TPE models the last three
    "sampler": "tpe",
    "scheduler": "none",
    "settings": {"rounds": 10, "clients": 6, "participation": 0.5, "batch_size": 32, "eval_every": 2},
}  # fmt: skip
TUNINGS = {
    **SWEEP,
    "algorithms": ["fedavg", "fedprox", "folb"],
    "tunings": 3,
    "models": ["logreg", "mlp(16)"],
}
KILLED = {**SWEEP, "confirm": {"best": 2, "seeds": 1}, "partitions": 2, "pack": 4}
FIELDS = ("rank", "mean", "ci_low", "ci_high", "behind", "seeds", "uploaded_bytes")
PAPERS = (("folb/text", "2"), ("folb/table1", "2"), ("defed/regression", "2"))
PACKAGES = ("torch", "numpy", "scipy", "numba", "optuna", "ray", "scikit-learn")


def trials(folder: Path) -> Table:
    """Return the results of every algorithm on three models."""
    from trials.algorithms import ALGORITHMS

    table: Table = {}
    for model in MODELS:
        for name in sorted(ALGORITHMS):
            keywords = {"algorithm": name, "model": model, "heterogeneity": LEVEL, **SHORT}
            table |= _run(folder, keywords, f"digits {model} {LEVEL}", name)
    return table


def specified(folder: Path) -> Table:
    """Return the results of the ten trials of `SPECIFIED`, with their specifications."""
    table: Table = {}
    for number, keywords in enumerate(SPECIFIED):
        whole = {**LONGER, **keywords}
        scenario, method = f"trial {number}", keywords["algorithm"]
        table[scenario, method, "specification"] = json.dumps(whole)
        table |= _run(folder / str(number), whole, scenario, method)
    return table


def _run(folder: Path, keywords: dict[str, Any], scenario: str, method: str) -> Table:
    import suite

    run = suite.run(**keywords, seed=1)
    run.save(folder)
    last = run.history[-1]
    quantities = {
        "status": str(run.status),
        "val_score": run.val_score,
        "test_score": run.test_score,
        "weights": _norm(folder),
        **{key: last[key] for key in ("client_steps", "uploaded_bytes", "train_loss") if key in last},
    }  # fmt: skip
    say(f"{method} {scenario}: {run.val_score:.3f}")
    return {(scenario, method, key): _text(value) for key, value in quantities.items()}


def _norm(folder: Path) -> float:
    """Return the Euclidean norm of all tensors of a saved model, the server's and the clients'."""
    import torch

    squares = []
    for file in sorted(folder.glob("*.pt")):
        for tensor in torch.load(file, weights_only=True).values():
            squares.extend((tensor.double().flatten() ** 2).tolist())
        file.unlink()
    return math.sqrt(math.fsum(squares))


def boards(folder: Path) -> Table:
    """Return the leaderboards of quickstart, at equal rounds and at equal bytes, and of a study with three tunings."""
    import suite

    suite.sweep("quickstart", storage=folder)
    suite.sweep({**TUNINGS, "name": "tunings"}, storage=folder)
    return (
        _ranked(suite.leaderboard("quickstart", storage=folder), "quickstart")
        | _ranked(suite.leaderboard("quickstart", at="bytes", storage=folder), "quickstart at bytes")
        | _ranked(suite.leaderboard("tunings", storage=folder), "tunings")
    )  # fmt: skip


def _ranked(leaderboard: Any, name: str) -> Table:
    table: Table = {}
    for row in leaderboard.to_pandas().to_dict("records"):
        scenario = " ".join((name, row["dataset"], row["model"], row["heterogeneity"]))
        for field, value in row.items():
            if field in FIELDS or field.startswith("params."):
                table[scenario, row["algorithm"], field] = _text(value)
    return table


def papers(folder: Path) -> Table:
    """Return the reproductions of the papers' tables that take seconds, under their declared settings."""
    table: Table = {}
    for path, seeds in PAPERS:
        say(path)
        command = ["reproduce", path, "--seeds", seeds, "--json"]
        document = json.loads(_ended(started(folder, *command)))
        for row in document["rows"]:
            scenario = f"{path} {row['row']}"
            for number in row["numbers"]:
                method = f"{number['method']} {number['metric']}"
                for field in ("published", "measured", "verdict"):
                    table[scenario, method, field] = _text(number[field])
            for index, claim in enumerate(row["claims"]):
                table[scenario, f"claim {index}", "verdict"] = claim["verdict"]
    return table


def kills(folder: Path) -> Table:
    """Return the results of a sweep; exit if they differ from those of a sweep that was killed and resumed, at three moments."""
    journal = Path("runs", "killed", "journal.jsonl")
    study = folder / "killed.yaml"
    folder.mkdir(parents=True)
    study.write_text(json.dumps(KILLED))
    whole = _swept(folder / "whole", str(study))
    lines = _lines(folder / "whole" / journal)
    say(f"{lines} lines in the journal of the whole sweep")
    for part in (0.25, 0.5, 0.75):
        cut = folder / f"cut{part}"
        process = started(cut, "sweep", str(study))
        while _lines(cut / journal) < lines * part:
            if process.poll() is not None:
                sys.exit("the sweep was over before it could be killed")
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        say(f"killed at line {_lines(cut / journal)}")
        if changes := list(differences(whole, _swept(cut, str(study), "--resume"), None)):
            sys.exit("\n".join(["killed and resumed, the sweep has other results:", *changes]))
    return whole


def _swept(folder: Path, *arguments: str) -> Table:
    """Run a sweep to its end; return its leaderboard, and the hyperparameters and scores of its trials."""
    import suite

    _ended(started(folder, "sweep", *arguments))
    storage = folder / "runs"
    table = _ranked(suite.leaderboard("killed", storage=storage), "killed")
    scores: dict[Key, list[str]] = {}
    for trial in recorded(storage):
        params = " ".join(f"{key}={value!r}" for key, value in sorted(trial["params"].items()))
        place = ("killed", trial["algorithm"], f"{trial['kind']} {params}")
        scores.setdefault(place, []).append(repr(trial["val_score"]))
    return table | {place: " ".join(sorted(values)) for place, values in scores.items()}


def recorded(storage: Path) -> Iterator[dict[str, Any]]:
    """Yield algorithm, kind, hyperparameters and validation score of each trial in a storage; confirming trials count as search."""
    import suite

    for row in suite.load("killed", storage=storage).to_dict("records"):
        yield {
            "algorithm": row["algorithm"],
            "kind": "search" if row["kind"] == "confirm" else row["kind"],
            "params": json.loads(row["params"]),
            "val_score": row["val_score"],
        }


def started(folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    """Start a command of this checkout in a folder, as the leader of a process group."""
    folder.mkdir(parents=True, exist_ok=True)
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    for name in ("MLFLOW_TRACKING_URI", "SUITE_DATA"):
        env.pop(name, None)
    with (folder / "log").open("a") as log:
        return subprocess.Popen(
            [sys.executable, "-c", "from suite.cli.app import main; main()", *arguments],
            cwd=folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )


def _ended(process: "subprocess.Popen[str]") -> str:
    printed, _ = process.communicate()
    if process.returncode:
        sys.exit(f"{process.args!r} ended with {process.returncode}:\n{printed[-3000:]}")
    return printed


def _lines(journal: Path) -> int:
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


PARTS: dict[str, Callable[[Path], Table]] = {
    "trials": trials,
    "specified": specified,
    "boards": boards,
    "papers": papers,
    "kills": kills,
}


def machine() -> Table:
    """Return the processor and the versions of Python and packages, on which numbers depend besides the code."""
    info = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*: (.+)", info.read_text(), re.M) if info.exists() else []
    parts = {
        "processor": names[0] if names else platform.processor(),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in PACKAGES},
    }
    return {("machine", "", key): value for key, value in parts.items()}


def differences(before: Table, now: Table, within: float | None) -> Iterator[str]:
    """Yield each difference as text. Numbers may differ by the relative difference `within`; None: not even in the last bit."""
    for key in before | now:
        place = " / ".join(filter(None, key))
        if key not in now:
            yield f"{place}: is missing now"
        elif key not in before:
            yield f"{place}: was not recorded before"
        elif not _equal(before[key], now[key], within):
            yield f"{place}: recorded {before[key]}, now {now[key]}"


def _equal(before: str, now: str, within: float | None) -> bool:
    if before == now or within is None:
        return before == now
    numbers = r"-?\d[\d.]*(?:e[-+]?\d+)?"
    if re.sub(numbers, "", before) != re.sub(numbers, "", now):
        return False
    pairs = zip(re.findall(numbers, before), re.findall(numbers, now), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=within, abs_tol=within) for a, b in pairs)


def _text(value: Any) -> str:
    """Return a value as text: floats exactly, whole floats as integers, and "" for None and NaN."""
    if value is None or value != value:
        return ""
    if isinstance(value, dict):
        return json.dumps(value, sort_keys=True)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(float(value))
    return str(value)


def say(text: str) -> None:
    """Print a line of progress to standard error."""
    print(text, file=sys.stderr, flush=True)


def read() -> dict[str, Table]:
    """Return the tables in `golden.csv`, by the name of the part."""
    tables: dict[str, Table] = {}
    with FILE.open(newline="") as file:
        for row in csv.DictReader(file):
            key = row["scenario"], row["method"], row["quantity"]
            tables.setdefault(row["part"], {})[key] = row["value"]
    return tables


def write(tables: dict[str, Table]) -> None:
    """Write the tables of all parts to `golden.csv`."""
    with FILE.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("part", "scenario", "method", "quantity", "value"))
        for part, table in tables.items():
            writer.writerows((part, *key, value) for key, value in table.items())


def main() -> None:
    """Record the table of results, or compare this checkout with the recorded table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument(
        "--part", choices=PARTS, action="append", help="only this part; may be repeated"
    )
    parser.add_argument("--within", type=float, metavar="X", help="accept this relative difference")
    args = parser.parse_args()
    before = read() if FILE.exists() else {}
    names = args.part or list(PARTS)
    with tempfile.TemporaryDirectory(prefix="suite-golden-") as scratch:
        now = {name: PARTS[name](Path(scratch) / name) for name in names}
    if args.action == "record":
        write({**before, "machine": machine(), **now})
        return
    for line in differences(before["machine"], machine(), None):
        print(f"another machine, where last bits may differ: {line}")
    lines = [line for name in names for line in differences(before[name], now[name], args.within)]
    print("\n".join([*lines, f"{len(lines) or 'no'} differences"]))
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
