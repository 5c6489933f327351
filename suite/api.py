"""The Python interface: what the commands do, for scripts and notebooks, with typed results.

Bad input raises `trials.common.errors.UserError`, with the text that the command shows. Without a `tracking_uri`
that of MLFLOW_TRACKING_URI counts, as with the commands. See docs/python.md.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.configurations.configuration import Tuned
from suite.configurations.library import TunedList, known, select_tuned
from suite.runs.request import Request
from suite.studies.study import Study
from suite.tracking import usual
from trials.common.errors import UserError
from trials.datasets.own.samples import given as given_name
from trials.models.own import located
from trials.settings import Settings

if TYPE_CHECKING:
    from ray import tune

    from reports.leaderboard.leaderboard import Leaderboard
    from suite.runs.single import Finished
    from suite.sweeps.result import Result
    from trials.models.torch_module import TrainedModel

NAMED = {
    "study": "a shipped study's name, a path to a YAML file, or its content as a mapping",
    "name": "a name",
    "sweep": "the name of a sweep or a study",
    "path": "a path",
    "algorithm": "a name that `suite list algorithms` shows, FILE.py:Class or, to run, a tuned configuration",
    "dataset": "a name that `suite list datasets` shows, such as npz:PATH, folder:PATH or module:function",
    "model": "a name that `suite list models` shows, FILE.py:function, or a function that makes a torch.nn.Module",
    "heterogeneity": "a level as `suite list heterogeneity` shows them",
}
"""What is given by name, and what that may be."""


def sweep(
    study: str | Path | Mapping[str, Any] | Study,
    *,
    name: str | None = None,
    storage: str | Path = "runs",
    tracking_uri: str | None = None,
    data_root: str | None = None,
    address: str | None = None,
    resume: bool = False,
    smoke: bool = False,
    **values: Any,
) -> "Result":
    """Tune every algorithm of a study fairly, run the best again with fresh seeds, rank them.

    `study` is a shipped study's name, a path to a YAML file, or its content, which needs a `name`: a key of
    a mapping, or the argument.
    `values` are the keys that `suite sweep --set` takes, as in `algorithms=["fedavg", "folb"], trials=8,
    rounds=20, max_concurrent=2`; of a mapping, as in `search={"lr": "0.01..1"}`, only the keys that it has
    are replaced. `address` is a running Ray cluster's. `resume` continues, or extends, a sweep
    of this name; `smoke` makes it a matter of seconds. Where this process already runs Ray, that Ray
    is used and left alone.

    Raises `UserError` before anything is started, and `HaltedError` when a fault around the sweep (a
    full disk, say) ends it, with its state kept. Ctrl-C ends it in order: see `Result.ending`.
    """
    from suite.sweeps.journal.paths import SweepPaths
    from suite.sweeps.keys import changes
    from suite.sweeps.request import SweepRequest

    given: str | Mapping[str, Any]
    if isinstance(study, str | Path):
        given = str(study)
        name = Path(study).stem if name is None else name
    elif isinstance(study, Study):
        given = study.model_dump(mode="json")
    elif isinstance(study, Mapping):
        given = {key: value for key, value in study.items() if key != "name"}
        name = _one("name", study.get("name"), "in the study", name)
    else:
        raise _no_name("study", study)
    _by_name({"name": name})
    if name is None:
        raise UserError(
            "name: a study that is no file needs one, as its key or as in sweep(study, name='mine')"
        )
    changed = changes(values, Path(storage), address)
    paths = SweepPaths(Path(storage), name, usual(tracking_uri), data_root, changed.checkpoints)
    return SweepRequest(given, paths, changed.study, resume, smoke).run(changed.resources)


def run(
    algorithm: str | Tuned = "fedavg",
    *,
    dataset: str | None = None,
    data: Any = None,
    target: str | None = None,
    client: str | None = None,
    task: str | None = None,
    model: str | Callable[..., Any] | None = None,
    heterogeneity: str | None = None,
    settings: Mapping[str, Any] | Settings | None = None,
    seed: int = 0,
    data_root: str | None = None,
    device: str = "cpu",
    **values: Any,
) -> "Finished":
    """Run one configuration to its end in this process; nothing is recorded but by `Finished.record`.

    What is not given is the tuned configuration's where there is one in the place of an algorithm's
    name, else the command's default (digits, logreg, iid). `values` are hyperparameters or settings: the
    same names as in the config of a `trainable`, and `memory_budget` (GB for the clients that are computed
    at once). A setting is given once, in `settings` or beside them. `model` may be the function that makes a
    model of your own (docs/own-model.md), defined in a file.

    `data`, in the place of a `dataset`'s name, is what the program holds: two `torch.utils.data.Dataset`s (train,
    test), or one table or two of pandas, pyarrow or Hugging Face, with the column `target` and, for `natural`, the column
    `client`; `task` is "classification" or "regression" (docs/data.md).
    """
    from suite.execution.resources import Resources
    from suite.runs.single import execute

    budget = Resources(memory_budget=values.pop("memory_budget", None)).budget_bytes
    given = dict(_settings(settings))
    for key in values.keys() & given:
        _one(key, given[key], "in settings", values[key])
    columns = {"target": target, "client": client, "task": task}
    if data is not None:
        if dataset is not None:
            raise UserError(
                f"dataset is {dataset!r}, and data are given beside it: give one of them"
            )
        dataset = given_name(data, columns)
    elif any(columns.values()):
        raise UserError("target, client and task are of a table that is given as data=")
    names = {"dataset": dataset, "model": model, "heterogeneity": heterogeneity}
    request = _request(algorithm, names, settings, seed=seed, values=values)
    return execute(request.spec(), data_root, device, lambda entry: None, budget)


def load_model(
    path: str | Path, client: int | None = None, *, model: str | Callable[..., Any] | None = None
) -> "TrainedModel":
    """The final model that `suite run --save DIR`, `Finished.save` or a study's `save: best` kept in a
    folder, as a `torch.nn.Module`: samples (b, *shape) to logits (b, C). `client` names one of the
    clients' own models, where the method keeps such.

    Nothing in the folder is run. A model of your own needs `model`, the function that makes it, as `run` takes
    it. Raises `UserError` where the folder holds no such model.
    """
    from trials.run.saved_model import read_named

    if not isinstance(path, str | Path):
        raise _no_name("path", path)
    named = located(model) if callable(model) else model
    _by_name({"model": named})
    return read_named(Path(path), named).module(client)


def trainable(
    algorithm: str | Tuned = "fedavg",
    *,
    dataset: str | None = None,
    model: str | Callable[..., Any] | None = None,
    heterogeneity: str | None = None,
    settings: Mapping[str, Any] | Settings | None = None,
    data_root: str | None = None,
    device: str = "cpu",
) -> "type[tune.Trainable]":
    """An algorithm as a Ray Tune trainable, for `tune.Tuner` with any of its searchers and schedulers.

    The keys of `param_space` are hyperparameters or settings by name, and `seed`. Results are flat:
    `round` (a scheduler's `time_attr`), `val_score`, metrics and counters. Trials write and continue
    from Tune's checkpoints, `CheckpointConfig(checkpoint_frequency=1)`, to the last bit.
    """
    from suite.runs import trainable as tunable

    names = {"dataset": dataset, "model": model, "heterogeneity": heterogeneity}
    return tunable.trainable(_request(algorithm, names, settings), data_root, device)


def leaderboard(
    sweep: str | None = None,
    *,
    studies: str | Sequence[str] = (),
    where: Mapping[str, Any] | None = None,
    metric: str = "score",
    at: str = "rounds",
    target: float | None = None,
    storage: str | Path = "runs",
    tracking_uri: str | None = None,
) -> "Leaderboard":
    """Rank algorithms by the final runs of a sweep, of studies, or of all that the store holds.

    `where` are tags that runs must have, as in `{"dataset": "digits"}`; `metric` is score, best,
    worst_clients, client_spread, personal, fine_tuned, loss or top5; `at` compares at equal rounds, steps,
    bytes or simulated seconds; `target` is the test score for rounds to target.
    """
    from suite.results.leaderboards import read_leaderboard
    from suite.results.query import Query
    from suite.tracking.store import open_existing

    _by_name({"sweep": sweep})
    names = (studies,) if isinstance(studies, str) else tuple(studies)
    tags = {key.removeprefix("suite."): str(value) for key, value in (where or {}).items()}
    query = Query(sweep, names, tags, metric, target, at)
    return read_leaderboard(open_existing(usual(tracking_uri), Path(storage)), query)


def tuned(
    algorithm: str | None = None,
    dataset: str | None = None,
    model: str | None = None,
    heterogeneity: str | None = None,
    *,
    storage: str | Path = "runs",
    tracking_uri: str | None = None,
) -> TunedList:
    """The tuned configurations that match, recorded and imported ones: those of a data set and level together,
    of each the best validation score first.
    """
    names = {"algorithm": algorithm, "dataset": dataset, "model": model}
    _by_name({**names, "heterogeneity": heterogeneity})
    found = known(Path(storage), usual(tracking_uri))
    return select_tuned(found, algorithm, dataset, model, heterogeneity)


def _request(
    algorithm: str | Tuned,
    given: Mapping[str, Any],
    settings: Mapping[str, Any] | Settings | None,
    **more: Any,
) -> Request:
    model = given["model"]
    names = {**given, "model": located(model) if callable(model) else model}
    _by_name(names)
    if isinstance(algorithm, Tuned):
        algorithm.refuse_changed(f"the tuned configuration of {algorithm.algorithm}")
        base = algorithm.model_dump()
    else:
        _by_name({"algorithm": algorithm})
        base = {"algorithm": algorithm}
    return Request.over(base, names, dict(_settings(settings)), **more)


def _settings(given: Mapping[str, Any] | Settings | None) -> Mapping[str, Any] | Settings:
    """The settings that are given; raises `UserError` for what holds none."""
    if given is None:
        return {}
    if not isinstance(given, Mapping | Settings):
        raise UserError(f"settings: must be a mapping, as in {{'rounds': 20}}, not {_said(given)}")
    return given


def _one(key: str, one: Any, where: str, other: Any) -> Any:
    """Of a value that can be given in two places the one that is; raises `UserError` where they differ."""
    if one is not None and other is not None and one != other:
        raise UserError(f"{key} is {one!r} {where} and {other!r} beside it: give one of them")
    return other if one is None else one


def _by_name(given: Mapping[str, Any]) -> None:
    """Raise `UserError` for what is no name where one is expected."""
    for key, value in given.items():
        if value is not None and not isinstance(value, str):
            raise _no_name(key, value)


def _no_name(key: str, value: Any) -> UserError:
    hint = ""
    if key == "algorithm" and isinstance(value, type):
        hint = f": put the class into a file and name it, as in mine.py:{value.__name__}"
    return UserError(f"{key}: must be {NAMED[key]}, not {_said(value)}{hint}")


def _said(value: Any) -> str:
    """What an object is, in words; what it holds may be long."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    return f"an object of the class {type(value).__name__}"
