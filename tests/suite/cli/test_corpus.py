"""What cannot be is refused with one message that names it, before anything starts, and leaves nothing
behind. A row stands for a kind of fault, not for each key and command that may have it.
"""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from suite.tracking.store import Store
from tests.support.commands import suite_here, whole
from tests.support.small import SMALL, TUNED

HUGE, LONG = 10**20, "d" * 300
"""A whole number that 64 bits do not hold, and a name that no file has."""
Files = dict[str, Any]
"""Text or bytes by path; None is a folder, and a function makes what is at a path."""
Row = tuple[str, str, str, Files]
"""Name, command, what its message contains, and the files that are there."""

COMMANDS = f"""
seed                        | run --seed {HUGE}
lr is '1_0'                 | run --set lr=1_0
lr is 0, but                | run --set lr=0
lr is 'fast', but           | run --lr fast
device 'meta'               | run --device meta
--tracking-uri              | leaderboard --tracking-uri ''
Did you mean 'algorithm'?   | tuned list --where algoritm=fedavg
npz:PATH                    | run --dataset my.npz
d.npz                       | run --dataset npz:d.npz
Did you mean 'lr'?          | run --set learning_rate=0.1
--rounds needs a value      | run --rounds --json
unknown option --algoritms. Did you mean --algorithms? | sweep quickstart --algoritms fedavg
unknown format 'json'       | leaderboard --format json
unknown listing 'modells'. Did you mean 'models'? | list modells
File name too long          | sweep smoke --dry-run --storage {LONG}
--port                      | ui --port 99999
No module named 'nowhere'   | run --dataset nowhere.at:all
Did you mean 'fedprox'?     | sweep quickstart --algorithms fedporx
unknown study 'quickstrat'. Did you mean 'quickstart'? | sweep quickstrat
minutes is 0.0              | sweep smoke --minutes 0
1294 training samples cannot be partitioned | data describe digits iid --clients 5000
'both'                      | run --algorithm folb --set variant=both
5 faults                    | run --algorithm fedprox --dataset digit --model logrg --heterogeneity 'labels(0)' --set muu=1 --set rounds=0
--set mu: must be KEY=VALUE | run --set mu
does not say which client   | data describe digits natural
must end with .npz          | data describe digits --output split.csv
cannot write /proc/nope     | sweep quickstart --storage /proc/nope
has a ? or %                | sweep quickstart --storage r?x
--algorithm fedavg          | run fedavg
tracking store http://127.0.0.1:9 does not answer: | sweep quickstart --tracking-uri http://127.0.0.1:9
minibatches of a round take | run --set local_steps=1000000000
--set search.lr=[1: must be a list [A, B], or a mapping | sweep smoke --set 'search.lr=[1'
cannot read algorithm file gone.py: it does not exist | check gone.py
be the name of one folder   | sweep smoke --dry-run --name ..
be the name of one folder   | sweep smoke --set checkpoints=ck --resume --name a/b
unknown sweep in runs '..'  | stop --now ..
max_concurrent              | sweep smoke --set max_concurrent=1.5
memory_budget               | sweep smoke --set memory_budget=-1
"""
STUDIES = r"""
target = nan                 | target: .nan
search.lr = 0.1              | search: {lr: 0.1}
Did you mean 'digits'?       | {datasets: [digit], models: [logrg]}
heterogeneity[0]             | heterogeneity: [dirichlet(x)]
Did you mean 'max'?          | constraints: {uploaded_bytes: {maxi: 1}}
3 faults                     | {models: [lenet5], heterogeneity: [labels(20), natural]}
7 faults                     | heterogeneity: [iid(3), dirichlet(nan), "shards(2, strikt)", "iid+system(steps=5..2)", iid+dropout(1), iid+sizes(powerlaw), iid+dropout(0.1)+dropout(0.2)]
init=own                     | {algorithms: [fedavg, folb], search: {init: {choices: [common, own]}}}
settings.val_fraction        | settings: {val_fraction: 0}
optimizer=adam               | {algorithms: [scaffold], settings: {optimizer: adam}}
momentum needs optimizer sgd  | settings: {optimizer: adam, momentum: 0.5}
Did you mean 'momentum'?     | {trials: 0, algorithms: [fedavg, fedavg], search: {momentun: {low: 0.1}}}
low=5, high=1                | search: {lr: {low: 5.0}}
low is 0.0, but must be above 0 | search: {lr: {low: 0.0}}
high is 2.0, but must be at most 1 | {algorithms: [fedumf], search: {alpha: {high: 2.0}}}
must differ                  | search: {lr: {choices: [0.1, 0.1]}}
must have choices, or low and high: not both | search: {lr: {choices: [0.1, 1], high: 1}}
variant                      | {algorithms: [folb], search: {variant: {choices: [plain, nonsense]}}}
low                          | {algorithms: [astw], search: {astw.loop: {low: 0.5, high: 3}}}
"""
IMPORTS = r"""
scores.val_accuracy | scores: {val_accuracy: high}
unknown algorithm 'fedavgg'. Did you mean 'fedavg'? | algorithm: fedavgg
3 faults                     | {dataset: digit, model: logrg, params: {muh: 1}}
5 faults                     | {algoritm: fedavg, model: 3, algorithm: null, settings: {roundz: 5, participation: 2}}
"""


def listed(table: str, command: str = "", base: Any = None) -> list[Row]:
    """The rows of a table whose last column is a command, or what a file has in place of `base`."""
    rows: list[Row] = []
    for line in table.strip().splitlines():
        token, last = (column.strip() for column in line.split(" | "))
        files = {"mine.yaml": yaml.safe_dump({**base, **yaml.safe_load(last)})} if base else {}
        rows.append((last[:80], command or last, token, files))
    return rows


FINE = """
from dataclasses import dataclass
from trials.algorithm import Algorithm
from trials.algorithms.fedavg import FedAvg

@dataclass(frozen=True)
"""
ALGORITHMS = {
    "its field mu has no range": FINE + "class A(FedAvg):\n    mu: float = 0.1\n",
    "a.py raised RuntimeError: it raised SystemExit(0), line 2": "\nimport sys; sys.exit(0)\n",
    "has no class 'A'": "A = 5",
    'ZeroDivisionError: division by zero File "a.py", line 9, in round 1 / 0': (
        FINE + "class A(FedAvg):\n    def round(self, *args, **more):\n        1 / 0\n"
    ),
}
ARRAYS = "{'x_train': X, 'y_train': Y, 'x_test': X, 'y_test': Y"
FUNCTIONS = {
    "ZeroDivisionError: division by zero": "1 / 0",
    "a Dataset, arrays, tables, or two of torch, not NoneType": "pass",
    "must hold x_train, y_train, x_test, y_test": "return {'x': X, 'y': Y}",
    "clients_train": f"return {ARRAYS}, 'clients_train': Y}}",
}
LOAD = """import numpy as np
from trials.datasets import Dataset
X, Y = np.ones((40, 3), np.float32), np.arange(40) % 2
def load():
    """
CHECKS = """
unknown hyperparameter 'mu'  | check mine.py --set mu=1
lr is -1, but must be above 0 | check mine.py --set lr=-1
mine.py has no class 'Yours' that derives from | check mine.py:Yours
name its class too: mine.py:Mine | sweep smoke --algorithms mine.py
"""


def plugins() -> list[Row]:
    run = "run --algorithm a.py:A --set rounds=1 --set clients=4 --no-record"
    rows = [(f"algorithm: {says}", run, says, {"a.py": code}) for says, code in ALGORITHMS.items()]
    study = "sweep smoke --algorithms a.py:A --dry-run"
    rows.append(("algorithm of a study", study, "mu has no range", dict(rows[0][3])))
    run = "run --dataset d.py:load --set rounds=1"
    for says, code in FUNCTIONS.items():
        rows.append((f"function: {says}", run, says, {"d.py": LOAD + code}))
    plan = "sweep smoke --sampler own.py:make --dry-run"
    for code in ("return seed", "return seed / 0"):
        made = {"own.py": f"def make(seed): {code}"}
        rows.append((f"sampler: {code}", plan, "sampler own.py:make r", made))
    rows.append(("no sampler", plan, "own.py has no function 'make'", {"own.py": "A = 5"}))
    rows.append(("data in a folder", run, "d.py", {"d.py": None}))
    mine = {"mine.py": FINE + "class Mine(FedAvg):\n    pass\n"}
    rows += [(name, command, says, mine) for name, command, says, _ in listed(CHECKS)]
    return rows


DATABASE = "runs/mlflow.db"


def imported(**scores: Any) -> Files:
    """A configuration that was imported."""
    return {"runs/imported/mine.yaml": yaml.safe_dump({**TUNED, "scores": scores})}


def places() -> list[Row]:
    rows: list[Row] = []
    for command in ("status s", "stop s", "ui s"):
        says = "unknown sweep in runs 's'. There is none yet."
        rows.append((f"{command}: a folder", command, says, {"runs/s/journal.jsonl": None}))
    store = {"runs": lambda path: Store(None, path)}
    link = {"mine.py": lambda path: path.symlink_to("elsewhere.py")}
    lost = {"runs": lambda path: path.symlink_to("scratch/gone")}
    there = imported(val_accuracy=0.9)
    return [
        *rows,
        ("a folder for a store", "run --set rounds=1", "it is a folder", {DATABASE: None}),
        ("words for a database", "replay x", DATABASE, {DATABASE: "hello" * 1000}),
        ("a storage that is a file", "run --set rounds=1 --storage d", "d", {"d": ""}),
        ("a storage that is a link to nothing", "run --set rounds=1", "scratch/gone", lost),
        ("no host", "ui --host nowhere.invalid", "nowhere.invalid", store),
        ("a link away", "new algorithm Mine", "mine.py exists, and is kept", link),
        ("a folder of others", "run --set rounds=1 --save mine", "mine", {"mine/thesis.tex": "x"}),
        ("export to a file", "tuned export d", "cannot write d/", {**there, "d": "mine"}),
    ]


ROWS = [
    *listed(COMMANDS),
    *listed(STUDIES, "sweep mine.yaml --dry-run", SMALL),
    *listed(IMPORTS, "tuned import mine.yaml", TUNED),
    *plugins(),
    *places(),
]


def make(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is None:
        path.mkdir(exist_ok=True)
    elif callable(content):
        content(path)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("command", "says", "files"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS]
)
def test_what_cannot_be_is_refused(tmp_path: Path, command: str, says: str, files: Files):
    for name, content in files.items():
        make(tmp_path / name, content)
    before = whole(tmp_path)
    done = suite_here(*shlex.split(command), cwd=tmp_path, code=2)
    assert whole(tmp_path) == before
    assert not done.stdout
    assert "Traceback" not in done.stderr
    assert len(re.findall(r"^(?:error: |╭─ Error)", done.stderr, re.MULTILINE)) == 1
    _, error, message = done.stderr.partition("error: ")
    words = " ".join(re.sub(r"[╭─╮│╰╯]", " ", message if error else done.stderr).split())
    assert says in words.replace(f"{tmp_path}/", ""), words
