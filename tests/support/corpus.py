"""Inputs that cannot be, and the whole message with which each is refused.

A row makes its files in an empty folder and runs one command there. Its message is a regular expression
of all that the command says, with runs of white space as one space.
"""

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Make = Callable[[Path], object]

HUGE = 10**20
"""A whole number that 64 bits do not hold."""
SMALL: dict[str, Any] = {
    "algorithms": ["fedavg"],
    "datasets": ["digits"],
    "models": ["logreg"],
    "heterogeneity": ["iid"],
    "trials": 2,
    "seeds": 1,
    "settings": {"rounds": 2, "clients": 4, "participation": 1.0},
}
TUNED = {
    "algorithm": "fedavg",
    "dataset": "digits",
    "model": "logreg",
    "heterogeneity": "iid",
    "params": {"lr": 0.1},
    "settings": {"rounds": 2, "clients": 4},
}


@dataclass(frozen=True)
class Row:
    """`says` comes after `error: `, or after what the command line says of its usage."""

    name: str
    command: str
    says: str
    make: Make = lambda folder: None

    @property
    def args(self) -> list[str]:
        return shlex.split(self.command)


def text(name: str, content: str | bytes) -> Make:
    """A file."""
    data = content if isinstance(content, bytes) else content.encode()
    return lambda folder: (folder / name).write_bytes(data)


def study(**changes: Any) -> Make:
    """`mine.yaml`: a small study with keys replaced."""
    return text("mine.yaml", yaml.safe_dump({**SMALL, **changes}))


def tuned(**changes: Any) -> Make:
    """`mine.yaml`: a configuration with keys replaced."""
    return text("mine.yaml", yaml.safe_dump({**TUNED, **changes}))


def directory(name: str) -> Make:
    return lambda folder: (folder / name).mkdir(parents=True)


def both(*makes: Make) -> Make:
    return lambda folder: [make(folder) for make in makes]


PLAN = "sweep mine.yaml --dry-run"
WHOLE = r"must be a whole number below 2\^63"
ONE_FAULT = r"mine.yaml: 1 fault, nothing was started "
RUN_FAULT = r"run: 1 fault, nothing was started "
FINITE = r"must be a finite number"


def _numbers() -> list[Row]:
    seed = r"Invalid value for '--seed': .* less than or equal to \d+"
    rows = [
        Row("seed of a run", f"run --seed {HUGE}", seed),
        Row("seed of a partition", f"data describe digits --seed {HUGE}", seed),
        Row(
            "clients of a partition",
            f"data describe digits --clients {HUGE}",
            rf"--clients {HUGE}: must be at least 1, and below 2\^63",
        ),
        Row(
            "rounds of a run",
            f"run --set rounds={HUGE}",
            rf"{RUN_FAULT}settings.rounds = 1e\+20: {WHOLE}",
        ),
        Row(
            "clients of a run",
            f"run --set clients={HUGE}",
            rf"{RUN_FAULT}settings.clients = 1e\+20: {WHOLE}",
        ),
        Row(
            "trials option",
            f"sweep quickstart --dry-run --trials {HUGE}",
            rf"study quickstart: 1 fault, nothing was started trials = 1e\+20: {WHOLE}",
        ),
    ]
    for key in ("batch_size", "local_epochs", "local_steps", "chunk", "eval_every"):
        says = rf"run: \d faults?, nothing was started settings.{key}\S* = 1e\+20: {WHOLE}.*"
        rows.append(Row(f"{key} of a run", f"run --set {key}={HUGE}", says))
    for key in ("seed", "trials", "seeds", "retries", "grid_points"):
        says = rf"{ONE_FAULT}{key} = {HUGE}: {WHOLE}"
        rows.append(Row(f"{key} of a study", PLAN, says, study(**{key: HUGE})))
    for option in (
        "memory_per_trial",
        "memory_budget",
        "cpus_per_trial",
        "gpus_per_trial",
        "checkpoint_seconds",
    ):
        for value in ("inf", "nan"):
            rows.append(
                Row(
                    f"{option} {value}",
                    f"sweep quickstart --dry-run --set {option}={value}",
                    rf"{option} is {value}, but must be .*",
                )
            )
    rows += [
        Row(
            "target option",
            "leaderboard --target nan",
            rf"Invalid value for '--target': {FINITE}, not nan",
        ),
        Row(
            "trials true",
            PLAN,
            rf"{ONE_FAULT}trials = True: must be a number, not true or false",
            study(trials=True),
        ),
        Row(
            "rounds true",
            PLAN,
            rf"{ONE_FAULT}settings.rounds = True: must be a number, not true or false",
            study(settings={"rounds": True}),
        ),
        Row(
            "target nan",
            PLAN,
            rf"{ONE_FAULT}target = nan: must be a finite number",
            study(target=float("nan")),
        ),
        Row(
            "target infinite",
            PLAN,
            rf"{ONE_FAULT}target = inf: must be a finite number",
            study(target=float("inf")),
        ),
        Row(
            "low nan",
            PLAN,
            rf"{ONE_FAULT}search.lr.low = nan: must be a finite number",
            study(search={"lr": {"low": float("nan")}}),
        ),
        Row(
            "underscored digits",
            "run --set lr=1_0",
            rf"{RUN_FAULT}params.lr = '1_0': lr is '1_0', but must be a number",
        ),
        Row(
            "full-width digits",
            "run --set rounds=１０",
            rf"{RUN_FAULT}settings.rounds = '１０': .*",
        ),
        Row(
            "underscored argument",
            "run --model 'mlp(1_0,5)'",
            rf"{RUN_FAULT}model = .*: width1 is '1_0', but must be a whole number",
        ),
        Row(
            "full-width argument",
            "run --heterogeneity 'dirichlet(０.3)'",
            rf"{RUN_FAULT}heterogeneity = .*: \w+ is '０.3', but must be a number.*",
        ),
        Row(
            "underscored range",
            "run --heterogeneity 'iid+system(steps=1..1_0)'",
            rf"{RUN_FAULT}heterogeneity = .*: steps is '1..1_0', but must be LOW..HIGH.*",
        ),
        Row(
            "huge argument",
            f"run --heterogeneity 'labels({HUGE})'",
            rf"{RUN_FAULT}heterogeneity = .*: \w+ is '{HUGE}', but must be a whole number.*",
        ),
        Row(
            "underscored schedule",
            "run --set lr=0.1@1,0.0_1@5",
            rf"{RUN_FAULT}params.lr = .*: '0.0_1@5' is no VALUE@ROUND; a schedule is .*",
        ),
        Row(
            "lr zero", "run --set lr=0", rf"{RUN_FAULT}params.lr = 0: lr is 0, but must be above 0"
        ),
        Row(
            "lr negative",
            "run --set lr=-1",
            rf"{RUN_FAULT}params.lr = -1: lr is -1, but must be above 0",
        ),
        Row(
            "lr falls to zero",
            "run --set lr=0.1@1,0@5",
            rf"{RUN_FAULT}params.lr = .*: lr is 0.0, but must be above 0",
        ),
        Row(
            "infinite level",
            "run --heterogeneity 'dirichlet(inf)'",
            rf"{RUN_FAULT}heterogeneity = .*",
        ),
        Row(
            "schedule with other digits",
            "run --set lr=0.1@１",
            rf"{RUN_FAULT}params.lr = .*: '0.1@１' is no VALUE@ROUND; a schedule is .*",
        ),
        Row(
            "underscored end of a range",
            "sweep quickstart --dry-run --set search.lr=0.1..1_0",
            r"sweep: 1 fault, nothing was started search.lr = '0.1..1_0': must be LOW..HIGH, as in .*",
        ),
        Row(
            "device meta", "run --device meta", r"device 'meta' cannot be used: must be cpu or cuda"
        ),
        Row(
            "absurd model",
            "run --model 'mlp(99999999999)'",
            r".*model mlp\(99999999999,200\) has [\d.e+]+ weights, .*",
        ),
        Row(
            "absurd model of a study",
            PLAN,
            r"study mine: 1 fault, nothing was started models = .*: model mlp\(99999999999,200\) has [\d.e+]+ weights, .*",
            study(models=["mlp(99999999999)"]),
        ),
        Row(
            "absurd clients",
            "run --dataset 'synthetic(1,1)' --heterogeneity natural --set clients=999999999999",
            r"data set synthetic\(1,1\) of 999999999999 clients is more than memory holds",
        ),
    ]
    return rows


def _names() -> list[Row]:
    empty = r"must not be empty"
    rows = []
    for key in ("algorithm", "dataset", "model", "heterogeneity"):
        rows.append(
            Row(f"run --{key} ''", f"run --{key} ''", rf"Invalid value for '--{key}': {empty}")
        )
        rows.append(
            Row(
                f"tuned list --{key} ''",
                f"tuned list --{key} ''",
                rf"Invalid value for '--{key}': {empty}",
            )
        )
    for command in ("leaderboard", "sweep smoke --dry-run", "run", "tuned list"):
        rows.append(
            Row(
                f"{command} --tracking-uri ''",
                f"{command} --tracking-uri ''",
                rf"Invalid value for '--tracking-uri' \(env var: 'MLFLOW_TRACKING_URI'\): {empty}",
            )
        )
    rows += [
        Row(
            "data root ''",
            "data prepare digits --data-root ''",
            rf"Invalid value for '--data-root': {empty}",
        ),
        Row("where with a backquote", "leaderboard --where 'a`b=c'", r"--where a`b=c: .*"),
        *(
            Row(
                f"where {tag}", f"leaderboard --where {tag}=search", rf"--where {tag}=search: {why}"
            )
            for tag, why in {
                "kind": "only final runs are compared",
                "suite.kind": "only final runs are compared",
                "sweep": "a sweep is named by --name",
                "study": "a study is named before the options, or by --study",
            }.items()
        ),
        Row("where self", "leaderboard --where self=x", r".*"),
        Row("where store", "leaderboard --where store=x", r".*"),
        Row("where without a name", "leaderboard --where =x", r"--where =x: .*"),
    ]
    return rows


ROWS = _numbers() + _names()
