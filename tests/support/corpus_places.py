"""Stores, folders and tuned files that cannot be."""

from tests.support.corpus import Row, both, directory, fifo, loop, text, tuned


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
                f"{command}: a database that is a pipe",
                command,
                r"cannot read store \S+runs/mlflow.db: it is a pipe, not a file",
                both(directory("runs"), fifo("runs/mlflow.db")),
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
            "a database that is empty",
            "leaderboard",
            r"there is no store runs/mlflow.db yet: .*",
            both(directory("runs"), text("runs/mlflow.db", "")),
        ),
        Row(
            "run into a folder for a database",
            "run --rounds 1",
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
        Row("a storage that is a file", "run --rounds 1 --storage d", r".*", text("d", "")),
        Row(
            "a storage that is a file, of a plan",
            "sweep smoke --dry-run --storage d",
            r".*",
            text("d", ""),
        ),
        Row("a storage that is a loop", "run --rounds 1 --storage d", r".*", loop("d")),
        Row(
            "a storage that is a loop, of a plan",
            "sweep smoke --dry-run --storage d",
            r".*",
            loop("d"),
        ),
        Row("a storage that is a loop, of a board", "leaderboard --storage d", r".*", loop("d")),
        Row("a storage that is a loop, of tuned", "tuned list --storage d", r".*", loop("d")),
        Row("a storage with a long name", f"sweep smoke --dry-run --storage {'d' * 300}", r".*"),
        Row("a storage with a long name, of a run", f"run --rounds 1 --storage {'d' * 300}", r".*"),
        Row("a picture into a folder", "data describe digits --html d", r".*", directory("d")),
        Row("a picture into a pipe", "data describe digits --html d", r".*", fifo("d")),
        Row("a picture into a loop", "data describe digits --png d", r".*", loop("d")),
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
            odd,
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
            "import into a loop",
            "tuned import mine.yaml --storage d",
            r".*",
            both(tuned(), loop("d")),
        ),
        Row(
            "warm start of a pipe",
            "sweep smoke --dry-run --warm-start d",
            r".*it is a pipe, not a file",
            fifo("d"),
        ),
        Row(
            "warm start of a long name",
            f"sweep smoke --dry-run --warm-start {'d' * 300}",
            r".*File name too long",
        ),
    ]
    for name in ("algorithms", "datasets", "models", "heterogeneity"):
        rows.append(Row(f"{name} empty", f"sweep smoke --dry-run --{name} ''", r".*"))
        rows.append(Row(f"{name} of a comma", f"sweep smoke --dry-run --{name} ','", r".*"))
    there = both(
        directory("runs/imported"),
        tuned(),
        lambda folder: (folder / "mine.yaml").rename(folder / "runs/imported/mine.yaml"),
    )
    rows += [
        Row(
            "export to a file",
            "tuned export d",
            r"cannot write d/\S+: .*",
            both(there, text("d", "mine")),
        ),
        Row(
            "export to a pipe", "tuned export d", r"cannot write d/\S+: .*", both(there, fifo("d"))
        ),
        Row(
            "export to a loop", "tuned export d", r"cannot write d/\S+: .*", both(there, loop("d"))
        ),
        Row(
            "export to what cannot be written",
            "tuned export /proc/suite",
            r"cannot write /proc/suite/\S+: .*",
            there,
        ),
        Row(
            "export to a long name",
            f"tuned export {'d' * 300}",
            r"cannot write d+/\S+: File name too long",
            there,
        ),
        Row(
            "export over a pipe",
            "tuned export d",
            r"cannot write d/digits/iid/logreg/fedavg.yaml: it is neither a file nor a device",
            both(there, directory("d/digits/iid/logreg"), fifo("d/digits/iid/logreg/fedavg.yaml")),
        ),
    ]
    return rows


ROWS = _places()
