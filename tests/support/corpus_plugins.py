"""Plug-ins that cannot be: algorithm files, and functions that return data."""

from tests.support.corpus import ONE_FAULT, PLAN, RUN_FAULT, Row, directory, study, text

FINE = """
from dataclasses import dataclass
from trials.algorithm import Algorithm, real
from trials.algorithms.fedavg import FedAvg

"""


def _plugins() -> list[Row]:
    def algorithm(
        name: str, code: str, says: str, command: str = "run --algorithm a.py:A --set rounds=1"
    ) -> Row:
        return Row(f"algorithm: {name}", command, says, text("a.py", FINE + code))

    hurt = (
        "@dataclass(frozen=True)\nclass A(FedAvg):\n    def {}(self, *args, **more):\n        {}\n"
    )
    rows = [
        algorithm(
            "no round",
            "@dataclass(frozen=True)\nclass A(Algorithm):\n    pass\n",
            rf"{RUN_FAULT}algorithm = 'a.py:A': \S+a.py:A lacks init, round, scored, .*",
        ),
        algorithm(
            "a field without a range",
            "@dataclass(frozen=True)\nclass A(FedAvg):\n    mu: float = 0.1\n",
            rf"{RUN_FAULT}algorithm = 'a.py:A': \S+a.py:A: its field mu has no range: .*",
        ),
        algorithm(
            "of a study without a range",
            "@dataclass(frozen=True)\nclass A(FedAvg):\n    mu: float = 0.1\n",
            r".*its field mu has no range: .*",
            "sweep smoke --algorithms a.py:A --dry-run",
        ),
        algorithm(
            "exits",
            "import sys\nsys.exit(0)\n",
            rf"{RUN_FAULT}algorithm = 'a.py:A': algorithm file \S+a.py cannot be imported: SystemExit\(0\), line 7",
        ),
        algorithm(
            "is no Python",
            "class (",
            rf"{RUN_FAULT}algorithm = .*cannot be imported: SyntaxError.*",
        ),
        algorithm("has no such class", "", rf"{RUN_FAULT}algorithm = .* has no class 'A' .*"),
        algorithm("no class", "A = 5", rf"{RUN_FAULT}algorithm = .* has no class 'A' .*"),
        Row(
            "algorithm: a folder",
            "run --algorithm a.py:A",
            rf"{RUN_FAULT}algorithm = .*a.py: it is a folder, not a file",
            directory("a.py"),
        ),
        Row(
            "algorithm: NUL",
            PLAN,
            rf"{ONE_FAULT}algorithms\[0\] = .*",
            study(algorithms=["a\0.py:A"]),
        ),
        Row(
            "algorithm: a long name",
            f"run --algorithm {'a' * 300}.py:A",
            rf"{RUN_FAULT}algorithm = .*File name too long",
        ),
    ]
    for where in ("init", "round", "scored", "check", "measured"):
        for what, says in (
            ("1 / 0", r"ZeroDivisionError: division by zero"),
            ("raise SystemExit(0)", r"ExitedError: it called sys.exit\(0\)"),
        ):
            rows.append(
                algorithm(
                    f"{where}: {what}",
                    hurt.format(where, what),
                    rf"(round .*)?\S+a.py failed: {says} File \S*a.py, line 9, in {where}: {what.replace('(', '.').replace(')', '.')}",
                    "run --algorithm a.py:A --set rounds=1 --no-record --set clients=4",
                )
            )

    def function(name: str, code: str, says: str) -> Row:
        code = (
            "import numpy as np\nX, Y = np.ones((40, 3)), np.arange(40) % 2\ndef load():\n    "
            + code
        )
        return Row(
            f"function: {name}", "run --dataset d.py:load --set rounds=1", says, text("d.py", code)
        )

    rows += [
        function(
            "exits",
            "raise SystemExit(0)",
            r"data set \S+d.py:load raised ExitedError: it called sys.exit\(0\)",
        ),
        function(
            "raises", "1 / 0", r"data set \S+d.py:load raised ZeroDivisionError: division by zero"
        ),
        function("returns None", "pass", r"data set \S+d.py:load returned NoneType; .*"),
        function(
            "wrong keys",
            "return {'x': X, 'y': Y}",
            r"\S+d.py:load lacks x_test, x_train, y_test, y_train; it has x, y",
        ),
        function("a key that is no name", "return {1: X, 'y': Y}", r".*"),
        function(
            "extra",
            "return {'x_train': X, 'y_train': Y, 'x_test': X, 'y_test': Y, 'clients_train': Y}",
            r"\S+d.py:load: unknown array 'clients_train'. Did you mean 'client_train'\?",
        ),
        function(
            "lists",
            "return {'x_train': [[1], [2, 3]], 'y_train': Y, 'x_test': X, 'y_test': Y}",
            r"data set \S+d.py:load: x_train is no array: .*",
        ),
        function(
            "a client column of text",
            "return {'x_train': X, 'y_train': Y, 'x_test': X, 'y_test': Y, 'client_train': ['a'] * 40}",
            r".*client_train must be finite numbers of shape .*",
        ),
        function(
            "a dataset of lists",
            "from trials.datasets import Dataset; return Dataset([[1.0]], [0], [True], 1)",
            r".*must be an array, not list",
        ),
        function(
            "a dataset without classes",
            "from trials.datasets import Dataset; return Dataset(X.astype(np.float32), Y, Y > 0, 'two')",
            r".*",
        ),
        function(
            "a client column of lists",
            "from trials.datasets import Dataset; return Dataset(X.astype(np.float32), Y, Y > 0, 2, [0] * 40)",
            r".*",
        ),
        function(
            "takes arguments",
            "pass\ndef load(a): pass",
            r"data set \S+d.py:load raised TypeError: .*",
        ),
        Row(
            "function file: exits",
            "run --dataset d.py:load",
            r"data set file .*d.py cannot be imported: SystemExit\(0\), line 1",
            text("d.py", "raise SystemExit(0)"),
        ),
        Row(
            "function: a module that is none",
            "run --dataset nowhere.at:all",
            r"data set nowhere.at:all: nowhere.at cannot be imported: .*",
        ),
        Row("function: NUL", PLAN, r".*", study(datasets=["a\0.py:load"])),
        Row("function: a folder", "run --dataset d.py:load", r".*", directory("d.py")),
    ]
    return rows


ROWS = _plugins()
