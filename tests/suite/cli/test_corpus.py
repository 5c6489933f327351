"""What cannot be is refused with one message that names it, before anything starts, and leaves nothing
behind. A row stands for a kind of fault, not for each key and command that may have it.
"""

import io
import json
import re
import shlex
import sqlite3
import struct
import zipfile
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest
import torch
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
--seed                      | run --seed {HUGE}
--clients {HUGE}            | data describe digits --clients {HUGE}
settings.rounds             | run --set rounds={HUGE}
trials                      | sweep quickstart --dry-run --trials {HUGE}
'{HUGE}'                    | run --heterogeneity 'labels({HUGE})'
memory_per_trial is inf     | sweep quickstart --dry-run --set memory_per_trial=inf
checkpoint_seconds is nan   | sweep quickstart --dry-run --set checkpoint_seconds=nan
--target                    | leaderboard --target nan
dirichlet(inf)              | run --heterogeneity 'dirichlet(inf)'
lr is '1_0'                 | run --set lr=1_0
'１０'                      | run --set rounds=１０
width1 is '1_0'             | run --model 'mlp(1_0,5)'
'０.3'                      | run --heterogeneity 'dirichlet(０.3)'
steps is '1..1_0'           | run --heterogeneity 'iid+system(steps=1..1_0)'
search.lr = '0.1..1_0'      | sweep quickstart --dry-run --set search.lr=0.1..1_0
search.lr                   | sweep quickstart --dry-run --set search.lr=1..2..3
'0.0_1@5' is no VALUE@ROUND | run --set lr=0.1@1,0.0_1@5
lr is 0, but                | run --set lr=0
lr is 0.0, but              | run --set lr=0.1@1,0@5
mu is -1                    | run --algorithm fedprox --set mu=-1
settings.batch_size = 0     | run --set batch_size=0
device 'meta'               | run --device meta
mlp(99999999999,200) has    | run --model 'mlp(99999999999)'
999999999999 clients        | run --dataset 'synthetic(1,1)' --heterogeneity natural --set clients=999999999999
--algorithm                 | run --algorithm ''
--dataset                   | tuned list --dataset ''
--tracking-uri              | leaderboard --tracking-uri ''
--data-root                 | data prepare digits --data-root ''
algorithms[0] = ''          | sweep smoke --dry-run --algorithms ''
datasets                    | sweep smoke --dry-run --datasets ','
--where a`b=c               | leaderboard --where 'a`b=c'
--where =x                  | leaderboard --where =x
a column's name has small letters | leaderboard --where suite.kind=search
named by --name             | leaderboard --where sweep=s
Did you mean 'npz:my.npz'?  | run --dataset my.npz
Did you mean 'csv:my.csv?target=COLUMN'? | run --dataset my.csv
Did you mean 'lr'?          | run --set learning_rate=0.1
unknown sampler 'bayes'. Known: FILE.py:make, gp, grid, random, tpe. | sweep quickstart --sampler bayes
--rounds needs a value      | run --rounds --json
No such option: --datset    | run --datset
configuration nofile.yaml: it does not exist | sweep smoke --set warm_start=nofile.yaml
File name too long          | sweep smoke --dry-run --set warm_start={LONG}
ftp://host/folder/smoke     | sweep smoke --dry-run --set checkpoints=ftp://host/folder
File name too long          | sweep smoke --dry-run --storage {LONG}
File name too long          | run --set rounds=1 --storage {LONG}
File name too long          | data describe digits --png {LONG}
File name too long          | run --save {LONG}
File name too long          | run --algorithm {LONG}.py:A
foo://bar                   | leaderboard --tracking-uri foo://bar
--port                      | ui --port 99999
name '../Mine'              | new algorithm ../Mine
nowhere.at cannot be imported | run --dataset nowhere.at:all
unknown algorithm 'fedporx'. Did you mean 'fedprox'? | sweep quickstart --algorithms fedporx
unknown dataset 'digit'. Did you mean 'digits'? | sweep quickstart --datasets digit
unknown model 'logregg'. Did you mean 'logreg'? | sweep quickstart --models logregg
Did you mean 'dirichlet'? (`suite list heterogeneity` says | data describe digits 'dirichlt(1)'
Did you mean 'momentum'?    | run --set momentun=0.5
unknown study 'quickstrat'. Did you mean 'quickstart'? | sweep quickstrat
trials = -3: must be greater than or equal to 1 | sweep quickstart --trials -3
settings.participation = 3: must be less | run --set participation=3
--clients            | tuned recommend --dataset digits --heterogeneity iid --clients 0
--clients 0: must be at least 1 | data describe digits iid --clients 0
1294 training samples cannot be partitioned | data describe digits iid --clients 5000
lr is 'fast', but must be a number | run --set lr=fast
mu                          | run --algorithm fedprox --set mu=nan
'0.1' is no VALUE@ROUND     | run --set lr=0.3@1,0.1
'both'                      | run --algorithm folb --set variant=both
psi exists only when variant=heterogeneity | run --algorithm folb --set psi=1
folb cannot run with init=own | run --algorithm folb --set init=own
5 faults                    | run --algorithm fedprox --dataset digit --model logrg --heterogeneity 'labels(0)' --set muu=1 --set rounds=0
--set mu: must be KEY=VALUE | run --set mu
lenet5 needs images (channels, height, width) of at least 16x16 | sweep quickstart --models lenet5
goes with iid and dirichlet(a) only | data describe digits 'shards(2)+sizes(lognormal(1))'
does not say which client   | data describe digits natural
cannot write none/a.html: No such file | data describe digits iid --html none/a.html
cannot read study .: it is a folder | sweep .
none.yaml: it does not exist | sweep none.yaml
nope.yaml: it does not exist | run nope.yaml
storage /proc/nope cannot be written | sweep quickstart --storage /proc/nope
fedavg is no configuration but an algorithm: --algorithm fedavg | run fedavg
there is no sweep in runs yet: run `suite sweep quickstart` | run --tuned
tracking store http://127.0.0.1:9 does not answer: | sweep quickstart --tracking-uri http://127.0.0.1:9
'json' has an option of its own, as in every command: --json | leaderboard --format json
--markdown is for algorithms and commands, not for models | list models --markdown
settings.local_steps = 999999999999999999: must be less | run --set local_steps=999999999999999999
local_steps: 1,000,000,000 minibatches | run --set local_steps=1000000000
fine_tune: 3,000,000,000 minibatches | run --set fine_tune=1000000000
system(epochs=1000000000..1000000000): 3,000,000,000 | run --heterogeneity 'iid+system(epochs=1000000000..1000000000)'
--set search.lr=[1: must be a list [A, B], or a mapping | sweep smoke --set 'search.lr=[1'
trials is given by --trials and by --set | sweep smoke --trials 3 --set trials=4
tunings = 'x': must be a valid integer | sweep smoke --set rounds=0 --set tunings=x
gpus_per_trial is 1.5, but must be less than or equal to 1 | sweep smoke --dry-run --set gpus_per_trial=1.5
gpus_per_trial is 2, but must be less than or equal to 1 | reproduce folb/table1 --set gpus_per_trial=2
cannot read algorithm file gone.py: it does not exist | check gone.py
ends with .npz              | data partition digits --output split.csv
"""
STUDIES = r"""
seed = 100000000000000000000 | seed: 100000000000000000000
trials = True                | trials: true
settings.rounds = True       | settings: {rounds: true}
target = nan                 | target: .nan
search.lr.low = nan          | search: {lr: {low: .nan}}
mlp(99999999999,200) has     | models: [mlp(99999999999)]
must be a list: [fedavg]     | algorithms: fedavg
models = []                  | models: []
settings = []                | settings: []
search.lr = 0.1              | search: {lr: 0.1}
algorithms[0]                | algorithms: ["a\0.py:A"]
embedded null byte           | datasets: ["npz:a\0b"]
null byte                    | datasets: ["a\0.py:load"]
datasets[0] = 'digit': unknown dataset 'digit'. Did you mean 'digits'? | {datasets: [digit], models: [logrg]}
2 faults                     | {datasets: [digit], models: [logrg]}
heterogeneity[0]             | heterogeneity: [dirichlet(x)]
algorithms[0]                | algorithms: [{fedavg: null}]
settings = 5                 | settings: 5
metric = 'personal': is a shared setting | metric: personal
unknown key 'joint'          | joint: {over: [models]}
scheduler = 'pbt'            | scheduler: pbt
target                       | constraints: {rounds_to_target: {max: 4}}
uploaded_byte                | constraints: {uploaded_byte: {max: 1}}
uploaded_bytes.max = 0       | constraints: {uploaded_bytes: {max: 0}}
Did you mean 'max'?          | constraints: {uploaded_bytes: {maxi: 1}}
confirm.best = 1             | confirm: {best: 1}
confirm.seed = 1: unknown key 'seed'. Did you mean 'seeds'? | confirm: {seed: 1}
only 10 labels               | heterogeneity: [iid, labels(20)]
3 faults                     | {models: [lenet5], heterogeneity: [labels(20), natural]}
datasets = 'npz:/none.npz'   | datasets: ["npz:/none.npz"]
init=own                     | {algorithms: [fedavg, folb], search: {init: {choices: [common, own]}}}
settings.val_fraction        | settings: {val_fraction: 0}
search.learning_rate         | {algorithms: [fedprx], search: {learning_rate: {low: 0.1}}}
Did you mean 'momentum'?     | {trials: 0, algorithms: [fedavg, fedavg], search: {momentun: {low: 0.1}}}
search.fedprox.mu            | search: {fedprox.mu: {low: 0.1}}
search.lr.lo                 | search: {lr: {lo: 0.1}}
low=5, high=1                | search: {lr: {low: 5.0}}
low is 0.0, but must be above 0 | search: {lr: {low: 0.0}}
low and high                 | search: {momentum: {low: 0.0}}
search                       | search: {1: {low: 0.1}}
mu: default 5.0 must lie in the range that is searched | {algorithms: [fedprox], search: {mu: {default: 5.0}}}
mu: default 5.0 must lie in  | {algorithms: [fedprox], search: {mu: {default: 5.0, choices: [0.1, 1.0]}}}
must have choices, or low and high: not both | search: {lr: {choices: [0.1, 1], high: 1}}
variant                      | {algorithms: [folb], search: {variant: {choices: [plain, nonsense]}}}
lr                           | search: {lr: {default: fast, choices: [fast, slow]}}
batch_size                   | search: {batch_size: {choices: [-1, 32]}}
local_epochs                 | search: {local_epochs: {default: 0, low: 0, high: 3}}
momentum                     | search: {momentum: {low: 0.0, high: 1.5}}
search.lr.high               | search: {lr: {high: .inf}}
low is 0.5, but must be a whole number | {algorithms: [astw], search: {astw.loop: {low: 0.5, high: 3}}}
high is 1e+300, but must be a whole number | {algorithms: [astw], search: {astw.loop: {low: 1, high: 1.0e+300}}}
rounds                       | search: {rounds: {low: 5, high: 100}}
clients                      | search: {clients: {default: 5, low: 5, high: 10}}
val_fraction                 | search: {val_fraction: {low: 0.05, high: 0.5}}
partition_seed               | search: {partition_seed: {low: 0, high: 9}}
data_seed                    | search: {data_seed: {low: 0, high: 9}}
"""
IMPORTS = rf"""
val_accuracy = 'high': is no score | scores: {{val_accuracy: high}}
val_accuracy = True          | scores: {{val_accuracy: true}}
test_interval_95             | scores: {{test_interval_95: [a, b]}}
test_accuracy                | scores: {{test_accuracy: {10**400}}}
params.lr                    | params: {{lr: {10**400}}}
settings.rounds              | settings: {{rounds: {10**400}}}
params.lr                    | params: {{lr: [1]}}
params                       | params: [1]
params                       | params: {{1: 2}}
dataset                      | dataset: "npz:a\0b"
unknown algorithm 'fedavgg'. Did you mean 'fedavg'? | algorithm: fedavgg
3 faults                     | {{dataset: digit, model: logrg, params: {{muh: 1}}}}
Did you mean 'labels'?       | heterogeneity: label(2)
5 faults                     | {{algoritm: fedavg, model: 3, algorithm: null, settings: {{roundz: 5, participation: 2}}}}
surprise = 1: unknown key 'surprise'. | surprise: 1
lr is 'big', but must be a number | params: {{lr: big}}
settings.rounds = 0          | settings: {{rounds: 0}}
folb cannot run with init=own | {{algorithm: folb, settings: {{init: own}}}}
embedded null byte           | algorithm: "a\0.py:A"
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
    "lacks init, round, scored": FINE + "class A(Algorithm):\n    pass\n",
    "its field mu has no range": FINE + "class A(FedAvg):\n    mu: float = 0.1\n",
    "a.py cannot be imported: SystemExit(0), line 2": "\nimport sys; sys.exit(0)\n",
    "SyntaxError: invalid syntax, line 2: class X(:": "x = 1\nclass X(:\n",
    "NameError(\"name 'y' is not defined\"), line 2": "\nx = y\n",
    "has no class 'A'": "A = 5",
    "a.py: it is a folder": None,
}
for where in ("init", "round", "scored", "check", "measured"):
    ALGORITHMS[f"ZeroDivisionError: division by zero File a.py, line 9, in {where}: 1 / 0"] = (
        f"{FINE}class A(FedAvg):\n    def {where}(self, *args, **more):\n        1 / 0\n"
    )
ALGORITHMS["ExitedError: it called sys.exit(0)"] = (
    FINE + "class A(FedAvg):\n    def init(self, *args, **more):\n        raise SystemExit(0)\n"
)
ARRAYS = "{'x_train': X, 'y_train': Y, 'x_test': X, 'y_test': Y"
FUNCTIONS = {
    "ExitedError: it called sys.exit(0)": "raise SystemExit(0)",
    "ZeroDivisionError: division by zero": "1 / 0",
    "one table or two with target=, not NoneType": "pass",
    "lacks x_test, x_train, y_test, y_train": "return {'x': X, 'y': Y}",
    "d.py:load": "return {1: X, 'y': Y}",
    "Did you mean 'client_train'?": f"return {ARRAYS}, 'clients_train': Y}}",
    "x_train is no array": f"return {ARRAYS.replace('X', '[[1], [2, 3]]', 1)}}}",
    "client_train must be finite numbers": f"return {ARRAYS}, 'client_train': ['a'] * 40}}",
    "must be an array, not list": "return Dataset([[1.0]], [0], [True], 1)",
    "two": "return Dataset(X, Y, Y > 0, 'two')",
    "must be an array, not": "return Dataset(X, Y, Y > 0, 2, [0] * 40)",
    "load raised TypeError": "pass\ndef load(a): pass",
}
LOAD = """import numpy as np
from trials.datasets import Dataset
X, Y = np.ones((40, 3), np.float32), np.arange(40) % 2
def load():
    """


CHECKS = """
--set mu: Mine has lr       | check mine.py --set mu=1
lr is -1, but must be above 0 | check mine.py --set lr=-1
Did you mean 'fedavg'?      | check mine.py --reduces-to fedavgg
mine.py has no class 'Yours' that is an algorithm; it has Mine | check mine.py:Yours
--dataset digits: is for a model only | check mine.py --dataset digits
name its class too: mine.py:Mine | run --algorithm mine.py
name its class too: mine.py:Mine | sweep smoke --algorithms mine.py
"""


def plugins() -> list[Row]:
    run = "run --algorithm a.py:A --set rounds=1 --set clients=4 --no-record"
    rows = [(f"algorithm: {says}", run, says, {"a.py": code}) for says, code in ALGORITHMS.items()]
    study = "sweep smoke --algorithms a.py:A --dry-run"
    rows.append(("algorithm of a study", study, "mu has no range", dict(rows[1][3])))
    run = "run --dataset d.py:load --set rounds=1"
    for says, code in FUNCTIONS.items():
        rows.append((f"function: {says}", run, says, {"d.py": LOAD + code}))
    rows.append(("data that exit", run, "SystemExit(0), line 1", {"d.py": "raise SystemExit(0)"}))
    plan = "sweep smoke --sampler own.py:make --dry-run"
    for code in ("return seed", "return seed / 0"):
        made = {"own.py": f"def make(seed): {code}"}
        rows.append((f"sampler: {code}", plan, "sampler own.py:make r", made))
    rows.append(("no sampler", plan, "own.py has no function 'make'", {"own.py": "A = 5"}))
    rows.append(("data in a folder", run, "d.py", {"d.py": None}))
    rows.append(
        ("check a constant", "check a.py", "a.py has no algorithm, data set", {"a.py": "A = 5"})
    )
    mine = {"mine.py": FINE + "class Mine(FedAvg):\n    pass\n"}
    rows += [(name, command, says, mine) for name, command, says, _ in listed(CHECKS)]
    return rows


ONES, TWO = np.arange(40) % 2, np.arange(8) % 2
SOUND = {"x_train": np.ones((40, 3), np.float32), "y_train": ONES}
SOUND |= {"x_test": np.ones((8, 3), np.float32), "y_test": TWO}
"""Data that train, until one of them is replaced."""


def npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def npz(**changes: Any) -> bytes:
    """An archive of sound arrays but for these: arrays, the bytes of a member, or None where one lacks."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, array in {**SOUND, **changes}.items():
            if array is not None:
                content = array if isinstance(array, bytes) else npy(array)
                archive.writestr(f"{name}.npy", content)
    return out.getvalue()


def with_value(value: float) -> np.ndarray:
    array = np.ones((40, 3))
    array[2, 1] = value
    return array


def liar(shape: tuple[int, ...]) -> bytes:
    """An array of four bytes whose header says it has this shape."""
    head = str({"descr": "<f8", "fortran_order": False, "shape": shape}).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + b"1234"


def patched(offset: int, value: bytes) -> bytes:
    """The archive with a field of each member's record replaced, after the record's signature."""
    data = bytearray(npz())
    for record in re.finditer(rb"PK\x01\x02", bytes(data)):
        data[record.start() + offset : record.start() + offset + len(value)] = value
    return bytes(data)


ARCHIVES = {
    "a label of 2^31": (f"the largest label is {2**31}", npz(y_train=ONES + 2**31 - 1)),
    "labels of 1e300": ("the largest label is 1e+300", npz(y_train=ONES * 1e300)),
    "labels from 1": ("subtract 1 from y_train", npz(y_train=ONES + 1, y_test=np.ones(8))),
    "labels below 0": ("y_train must be whole numbers", npz(y_train=ONES - 1)),
    "labels between": ("y_train must be whole numbers", npz(y_train=ONES / 2)),
    "no features": ("(40, 0)", npz(x_train=np.ones((40, 0)), x_test=np.ones((8, 0)))),
    "no samples": ("of shape (0, 3)", npz(x_train=np.ones((0, 3)), y_train=ONES[:0])),
    "beyond float32": ("x_train holds values beyond float32", npz(x_train=with_value(1e300))),
    "nan": ("x_train must be finite, but holds nan at [2, 1]", npz(x_train=with_value(np.nan))),
    "text": ("x_train must be finite numbers", npz(x_train=np.array([["a"] * 3] * 40))),
    "complex": ("x_train must be finite numbers", npz(x_train=np.ones((40, 3)) * 1j)),
    "a scalar": ("x_train must be finite numbers", npz(x_train=np.float32(1))),
    "no labels": ("lacks y_test; it has", npz(y_test=None)),
    "another shape": ("one of x_test (8, 2)", npz(x_test=np.ones((8, 8, 2)))),
    "one label": ("all labels are 0: two labels", npz(y_train=ONES * 0, y_test=TWO * 0)),
    "labels in words": ("number the labels, as numpy.unique", npz(y_train=np.array(["cat"] * 40))),
    "one-hot labels": ("y_train", npz(y_train=np.eye(2)[ONES])),
    "no test samples": ("x_test must be", npz(x_test=np.ones((0, 3)), y_test=TWO[:0])),
    "owners of half": ("40 rows, but client_train has 20", npz(client_train=ONES[:20])),
    "a header that lies": ("d.npz", npz(x_train=liar((10**12, 3)))),
    "a header that overflows": ("d.npz", npz(x_train=liar((2**62, 2**62)))),
    "a header below 0": ("d.npz", npz(x_train=liar((-5, 3)))),
    "a header of words": ("d.npz", npz(x_train=b"\x93NUMPY\x01\x00\x10\x00{'descr': [[[[[[")),
    "a member that is no array": ("d.npz", npz(x_train=b"hello")),
    "an empty member": ("d.npz", npz(x_train=b"")),
    "objects": ("d.npz", npz(x_train=npy(np.array([{}], object)))),
    "encrypted": ("d.npz", patched(8, b"\x01\x00")),
    "an unknown compression": ("d.npz", patched(10, struct.pack("<H", 77))),
    "deflated that is not": ("d.npz", patched(10, struct.pack("<H", 8))),
    "lzma that is not": ("d.npz", patched(10, struct.pack("<H", 14))),
    "bzip2 that is not": ("d.npz", patched(10, struct.pack("<H", 12))),
    "offsets beyond the end": ("d.npz", patched(42, b"\xff\xff\xff\x7f")),
    "no archive": ("d.npz", b"PK\x03\x04 and nothing"),
    "text alone": ("it is no .npz archive, as numpy.savez writes them", b"x,y\n1,2\n"),
    "empty": ("d.npz", b""),
    "an array alone": ("d.npz", npy(np.ones(3))),
    "a folder": ("d.npz", None),
}


def data() -> list[Row]:
    run = "run --dataset npz:d.npz --set rounds=1"
    rows = [(f"npz: {n}", run, says, {"d.npz": made}) for n, (says, made) in ARCHIVES.items()]
    return [*rows, ("absent data", "run --dataset npz:d.npz", "d.npz", {})]


CARD: dict[str, Any] = {
    "format": 1,
    "spec": {**TUNED, "settings": {"rounds": 1, "clients": 4}, "seed": 0},
    "shape": [64],
    "classes": 10,
    "metric": "accuracy",
    "fingerprint": "none",
    "weights": None,
    "scores": {},
}
"""What a saved model says of itself."""
STATE = {"out.weight": torch.zeros(10, 64), "out.bias": torch.zeros(10)}
OTHER = "d/model.pt does not hold the weights of the model in model.json"
NOT_READ = "d/model.json cannot be read"


def saved(content: Any = None, **changes: Any) -> Files:
    """A saved model in `d`, whose state dict is this, or a sound one."""
    out = io.BytesIO()
    torch.save(STATE if content is None else content, out)
    return {"d/model.json": json.dumps({**CARD, **changes}), "d/model.pt": out.getvalue()}


def of_model(name: str) -> dict[str, Any]:
    return {**CARD["spec"], "model": name}


MODELS = {
    "absent": ("d/model.json: it does not exist", {"d": None}),
    "no JSON": (NOT_READ, {"d/model.json": "{"}),
    "deep JSON": (NOT_READ, {"d/model.json": "[" * 100_000}),
    "another format": (NOT_READ, saved(format=2)),
    "samples below nothing": (NOT_READ, saved(shape=[-1])),
    "an unknown model": ("unknown model 'lenett'", saved(spec=of_model("lenett"))),
    "other classes": (OTHER, saved(classes=10**12)),
    "an absurd model": (OTHER, saved(spec=of_model("mlp(99999999999)"))),
    "other weights": (OTHER, saved({"w": torch.zeros(3)})),
    "whole numbers": (OTHER, saved({**STATE, "out.weight": torch.zeros(10, 64).long()})),
    "one too many": (OTHER, saved({name: torch.stack([of, of]) for name, of in STATE.items()})),
    "other shapes": (OTHER, saved({**STATE, "out.weight": torch.zeros(10, 63)})),
    "weights that lack": ("model.pt is missing", {"d/model.json": json.dumps(CARD)}),
    "no weights": (OTHER, saved({"out.weight": 1, "out.bias": 2})),
    "a list": (OTHER, saved([torch.zeros(3)])),
    "noise": ("it is damaged, or holds more than", {**saved(), "d/model.pt": b"soup"}),
    "code": ("holds more than tensors", saved({"out.weight": PurePosixPath("/")})),
    "other data": ("the data or their partition are not the model's", saved()),
    "weights of nobody": ("clients.pt is missing", saved(weights=[0.5])),
}
FOLB = '{"command": "suite reproduce folb/table1", '
DOCUMENTS = {
    "deep": "[" * 100_000,
    "no rows": FOLB + '"paper": "FOLB"}',
    "rows that are none": FOLB + '"paper": "FOLB", "rows": 7}',
    "a row that is none": FOLB + '"paper": "FOLB", "rows": [7]}',
    "numbers that are none": FOLB + '"paper": "FOLB", "made_with": [], "rows": '
    '[{"table": [], "row": 1, "numbers": [{"verdict": 1}], "claims": []}]}',
    "a paper that is none": FOLB + '"paper": ["FOLB"], "rows": []}',
}
DATABASE = "runs/mlflow.db"


def bare(path: Path) -> None:
    """Make a database that has had a table."""
    with closing(sqlite3.connect(path)) as made:
        made.executescript("create table t (a); drop table t")


def imported(**scores: Any) -> Files:
    """A configuration that was imported."""
    return {"runs/imported/mine.yaml": yaml.safe_dump({**TUNED, "scores": scores})}


def places() -> list[Row]:
    rows: list[Row] = []
    for command in ("replay x", "ui", "run --set rounds=1"):
        rows.append((f"{command}: a folder", command, "it is a folder", {DATABASE: None}))
    for command in ("tuned list", "tuned recommend --dataset digits --heterogeneity iid"):
        odd = imported(val_accuracy="high")
        rows.append((f"{command}: mixed kinds", command, "val_accuracy = 'high'", odd))
    for command in ("status s", "stop s", "ui s"):
        says = "unknown sweep in runs 's'. There is none yet."
        rows.append((f"{command}: a folder", command, says, {"runs/s/journal.jsonl": None}))
    for name, content in DOCUMENTS.items():
        command = "reproduce --summary d"
        rows.append((f"documents: {name}", command, "it has no documents", {"d/x.json": content}))
    for name, (says, files) in MODELS.items():
        rows.append((f"a saved model: {name}", "score d", says, files))
    begun = {"runs/s/journal.jsonl": None, "mine.yaml": yaml.safe_dump(SMALL)}
    store = {"runs": lambda path: Store(None, path)}
    link = {"mine.py": lambda path: path.symlink_to("elsewhere.py")}
    mine = {"mine.yaml": yaml.safe_dump(TUNED), "d": ""}
    there = imported(val_accuracy=0.9)
    plan = "sweep smoke --dry-run --storage d"
    return [
        *rows,
        ("words for a database", "replay x", DATABASE, {DATABASE: "hello" * 1000}),
        ("one byte", "replay x", "file is not a database", {DATABASE: b"\0"}),
        ("no tables", "replay x", f"there is no store {DATABASE} yet", {DATABASE: bare}),
        ("an empty database", "replay x", f"no store {DATABASE} yet", {DATABASE: ""}),
        ("a server", "leaderboard --tracking-uri sqlite:///d", "d: it is a folder", {"d": None}),
        ("a storage that is a file", "run --set rounds=1 --storage d", "d", {"d": ""}),
        ("a storage of a plan that is a file", plan, "d", {"d": ""}),
        ("a picture into a folder", "data describe digits --html d", "d", {"d": None}),
        ("import into a file", "tuned import mine.yaml --storage d", "d", mine),
        ("resume", "sweep mine.yaml --name s --resume", "journal.jsonl: it is a folder", begun),
        ("no host", "ui --host nowhere.invalid", "--host nowhere.invalid", store),
        ("a link away", "new algorithm Mine", "mine.py exists, and is kept", link),
        ("below a file", "new algorithm Mine --folder d/e", "d/e: Not a directory", {"d": ""}),
        ("export to a file", "tuned export d", "cannot write d/", {**there, "d": "mine"}),
        ("export to /proc", "tuned export /proc/suite", "cannot write /proc/suite/", there),
        ("export to a long name", f"tuned export {LONG}", "File name too long", there),
    ]


ROWS = [
    *listed(COMMANDS),
    *listed(STUDIES, "sweep mine.yaml --dry-run", SMALL),
    *listed(IMPORTS, "tuned import mine.yaml", TUNED),
    *plugins(),
    *data(),
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
