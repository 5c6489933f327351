"""Stores, folders, tuned files and saved models that cannot be."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path, PurePosixPath

import torch

from suite.tracking.store import Store
from tests.support.corpus import Make, Row, both, directory, study, text, tuned

CARD = {
    "format": 1,
    "spec": {
        "algorithm": "fedavg",
        "params": {"lr": 0.1},
        "dataset": "digits",
        "model": "logreg",
        "heterogeneity": "iid",
        "settings": {"rounds": 1, "clients": 4},
        "seed": 0,
    },
    "shape": [64],
    "classes": 10,
    "metric": "accuracy",
    "fingerprint": "none",
    "weights": None,
    "scores": {},
}
"""What a saved model says of itself."""


DOCUMENTS = {
    "deep": "[" * 100_000,
    "no rows": '{"command": "suite reproduce folb/table1"}',
    "rows that are none": '{"command": "suite reproduce x", "paper": "FOLB", "rows": 7}',
    "a row that is none": '{"command": "suite reproduce x", "paper": "FOLB", "rows": [7]}',
    "numbers that are none": (
        '{"command": "suite reproduce x", "paper": "FOLB", "made_with": [], "rows": '
        '[{"table": [], "row": 1, "numbers": [{"verdict": 1}], "claims": []}]}'
    ),
    "a paper that is none": '{"command": "suite reproduce x", "paper": ["FOLB"], "rows": []}',
}
"""What is no document of a reproduction."""


def bare(path: Path) -> None:
    """A database that has had a table."""
    with closing(sqlite3.connect(path)) as made:
        made.executescript("create table t (a); drop table t")


def moved(name: str) -> Make:
    """`mine.yaml` among the imported configurations."""
    return lambda folder: (folder / "mine.yaml").rename(folder / "runs/imported" / name)


def there() -> Make:
    """A configuration that was imported."""
    scores = {"val_accuracy": 0.9}
    return both(directory("runs/imported"), tuned(scores=scores), moved("mine.yaml"))


def store(folder: Path) -> None:
    """A store with nothing in it."""
    Store(None, folder / "runs")


def saved(content: object = None, **changes: object) -> Make:
    """A saved model in `d`, whose state dict is this, or zeros."""

    def make(folder: Path) -> None:
        (folder / "d").mkdir()
        (folder / "d/model.json").write_text(json.dumps({**CARD, **changes}))
        sound = {"out.weight": torch.zeros(10, 64), "out.bias": torch.zeros(10)}
        if isinstance(content, bytes):
            (folder / "d/model.pt").write_bytes(content)
        else:
            torch.save(sound if content is None else content, folder / "d/model.pt")

    return make


def _models() -> list[Row]:
    """Saved models."""
    other = r"saved model d/model.pt does not hold the weights of the model in model.json"
    damaged = r"saved model d/model.pt cannot be read: it is damaged, or holds more than tensors"
    card = r"saved model d/model.json cannot be read: .*"
    spec = CARD["spec"]
    assert isinstance(spec, dict)
    rows = [
        ("absent", r"cannot read saved model d/model.json: it does not exist", directory("d")),
        ("no JSON", card, both(directory("d"), text("d/model.json", "{"))),
        ("deep JSON", card, both(directory("d"), text("d/model.json", "[" * 100_000))),
        ("another format", card, saved(format=2)),
        ("samples below nothing", card, saved(shape=[-1])),
        ("no classes", card, saved(classes=0)),
        ("an unknown model", r"unknown model 'lenett'.*", saved(spec={**spec, "model": "lenett"})),
        ("other classes", other, saved(classes=10**12)),
        ("an absurd model", other, saved(spec={**spec, "model": "mlp(99999999999)"})),
        ("other weights", other, saved({"w": torch.zeros(3)})),
        ("no weights", other, saved({"out.weight": 1, "out.bias": 2})),
        ("a list", other, saved([torch.zeros(3)])),
        ("noise", damaged, saved(b"soup")),
        ("code", damaged, saved({"out.weight": PurePosixPath("/")})),
        ("other data", r"the data or their partition are not the model's: .*", saved()),
        ("weights of nobody", r".*clients.pt is missing", saved(weights=[0.5])),
    ]
    return [Row(f"a saved model: {name}", "score d", says, make) for name, says, make in rows]


def _places() -> list[Row]:
    rows = []
    for command in ("leaderboard", "tuned list", "report", "replay x", "ui"):
        rows.append(
            Row(
                f"{command}: a database that is a folder",
                command,
                r"cannot read store \S+runs/mlflow.db: it is a folder, not a file",
                directory("runs/mlflow.db"),
            )
        )
        rows.append(
            Row(
                f"{command}: a database that is none",
                command,
                r".*",
                both(directory("runs"), text("runs/mlflow.db", "hello" * 1000)),
            )
        )
    rows += [
        Row(
            "a database of one byte",
            "leaderboard",
            r"cannot read store \S*runs/mlflow.db: file is not a database",
            both(directory("runs"), text("runs/mlflow.db", b"\0")),
        ),
        Row(
            "a database without tables",
            "leaderboard",
            r"there is no store runs/mlflow.db yet: .*",
            both(directory("runs"), lambda folder: bare(folder / "runs/mlflow.db")),
        ),
        Row(
            "a database that is empty",
            "leaderboard",
            r"there is no store runs/mlflow.db yet: .*",
            both(directory("runs"), text("runs/mlflow.db", "")),
        ),
        Row(
            "run into a folder for a database",
            "run --set rounds=1",
            r".*it is a folder, not a file",
            directory("runs/mlflow.db"),
        ),
        Row(
            "a server that is a folder",
            "leaderboard --tracking-uri sqlite:///d",
            r".*",
            directory("d"),
        ),
        Row("a server of no scheme", "leaderboard --tracking-uri foo://bar", r".*"),
        Row("a storage that is a file", "run --set rounds=1 --storage d", r".*", text("d", "")),
        Row(
            "a storage that is a file, of a plan",
            "sweep smoke --dry-run --storage d",
            r".*",
            text("d", ""),
        ),
        Row("a storage with a long name", f"sweep smoke --dry-run --storage {'d' * 300}", r".*"),
        Row(
            "a storage with a long name, of a run",
            f"run --set rounds=1 --storage {'d' * 300}",
            r".*",
        ),
        Row("a picture into a folder", "data describe digits --html d", r".*", directory("d")),
        Row("a picture with a long name", f"data describe digits --png {'d' * 300}", r".*"),
    ]
    imported = [
        ("scores as text", {"val_accuracy": "high"}),
        ("seeds as a number", {"test_by_seed": 5}),
        ("an interval of a number", {"test_interval_95": 1}),
        ("an interval of text", {"test_interval_95": ["a", "b"]}),
        ("a huge score", {"test_accuracy": 10**400}),
        ("a score that is true", {"val_accuracy": True}),
    ]
    for name, scores in imported:
        says = r"1 of 1 files cannot be imported; nothing was mine.yaml: 1 fault, nothing was started scores = .*: \w+ is .*, which is no score that the suite writes"
        rows.append(Row(f"import: {name}", "tuned import mine.yaml", says, tuned(scores=scores)))
    mixed = both(there(), tuned(scores={"val_accuracy": "high"}), moved("b.yaml"))
    for command in ("tuned list", "tuned recommend --dataset digits --heterogeneity iid"):
        says = r"\S*runs/imported/b.yaml: 1 fault, nothing was started scores = .*: val_accuracy is 'high', which is no score that the suite writes"
        rows.append(Row(f"{command}: imported scores of mixed kinds", command, says, mixed))
    odd = r"1 of 1 files cannot be imported; nothing was mine.yaml: \d faults?, nothing was started .*"
    rows += [
        Row("import: a huge number", "tuned import mine.yaml", odd, tuned(params={"lr": 10**400})),
        Row(
            "import: a huge setting",
            "tuned import mine.yaml",
            odd,
            tuned(settings={"rounds": 10**400}),
        ),
        Row("import: a NUL", "tuned import mine.yaml", odd, tuned(dataset="npz:a\0b")),
        Row(
            "import: a NUL in an algorithm",
            "tuned import mine.yaml",
            r".* mine.yaml: cannot read file of code .*: embedded null byte",
            tuned(algorithm="a\0.py:A"),
        ),
        Row("import: params that are none", "tuned import mine.yaml", odd, tuned(params=[1])),
        Row("import: params of lists", "tuned import mine.yaml", odd, tuned(params={"lr": [1]})),
        Row("import: params by number", "tuned import mine.yaml", odd, tuned(params={1: 2})),
        Row(
            "import into a file",
            "tuned import mine.yaml --storage d",
            r".*",
            both(tuned(), text("d", "")),
        ),
        Row(
            "warm start of a long name",
            f"sweep smoke --dry-run --set warm_start={'d' * 300}",
            r".*File name too long",
        ),
    ]
    for name in ("algorithms", "datasets", "models", "heterogeneity"):
        rows.append(Row(f"{name} empty", f"sweep smoke --dry-run --{name} ''", r".*"))
        rows.append(Row(f"{name} of a comma", f"sweep smoke --dry-run --{name} ','", r".*"))
    begun = directory("runs/s/journal.jsonl")
    for command in ("status s", "stop s", "ui s"):
        says = r"unknown sweep in runs 's'. There is none yet."
        rows.append(Row(f"{command}: a journal that is a folder", command, says, begun))
    rows.append(
        Row(
            "a sweep whose journal is a folder",
            "sweep mine.yaml --name s --resume",
            r".*cannot read journal runs/s/journal.jsonl: it is a folder, not a file",
            both(begun, study()),
        )
    )
    rows += [
        Row(
            "a host that is none",
            "ui --host nowhere.invalid",
            r"--host nowhere.invalid: cannot serve pages at nowhere.invalid:5000: .*",
            store,
        ),
        Row("a port that is none", "ui --port 99999", r"Invalid value for '--port': .*"),
        Row("a model saved in a long name", f"run --save {'d' * 300}", r"cannot write d+: .*"),
        Row("a new algorithm elsewhere", "new algorithm ../Mine", r"name '../Mine': must be .*"),
        Row(
            "a new algorithm where a link leads away",
            "new algorithm Mine",
            r"mine.py exists, and is kept: choose another name or --folder",
            lambda folder: (folder / "mine.py").symlink_to(folder / "elsewhere.py"),
        ),
        Row(
            "a new algorithm below a file",
            "new algorithm Mine --folder d/e",
            r".*d/e: Not a directory",
            text("d", ""),
        ),
    ]
    for name, content in DOCUMENTS.items():
        rows.append(
            Row(
                f"a summary of documents: {name}",
                "reproduce --summary d",
                r"d: it has no documents of suite reproduce --output",
                both(directory("d"), text("d/x.json", content)),
            )
        )
    rows += _models()
    rows += [
        Row(
            "export to a file",
            "tuned export d",
            r"cannot write d/\S+: .*",
            both(there(), text("d", "mine")),
        ),
        Row(
            "export to what cannot be written",
            "tuned export /proc/suite",
            r"cannot write /proc/suite/\S+: .*",
            there(),
        ),
        Row(
            "export to a long name",
            f"tuned export {'d' * 300}",
            r"cannot write d+/\S+: File name too long",
            there(),
        ),
    ]
    return rows


ROWS = _places()
