"""From Python: what trains."""

from collections.abc import Callable, Mapping
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.api.given import by_name, lists_by_name, no_name, one, place, settings_of, store_of
from suite.configurations.configuration import Tuned
from suite.runs.request import Request
from suite.studies.study import Study
from suite.tracking import usual
from trials.common.errors import UserError
from trials.datasets.own import given as given_name
from trials.models.own import located
from trials.settings import Settings

if TYPE_CHECKING:
    from ray import tune

    from suite.runs.single import Finished, Replay
    from suite.sweeps.result import Result
    from trials.models.torch_modules import TrainedModel


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
    minutes: float | None = None,
    **values: Any,
) -> "Result":
    """Tune every algorithm of a study fairly, run the best again with fresh seeds, rank them.

    `study` is a shipped study's name, a path to a YAML file, or its content, which needs a `name`: a key of
    a mapping, or the argument.
    `values` are the keys that `suite sweep --set` takes, as in `algorithms=["fedavg", "folb"], trials=8,
    rounds=20, max_concurrent=2`; of a mapping, as in `search={"lr": "0.01..1"}`, only the keys that it has
    are replaced. `address` is a running Ray cluster's. `resume` continues, or extends, a sweep
    of this name; `smoke` makes it a matter of seconds, named `STUDY-smoke`. By `minutes` from now it is over: the search is
    cut after the same number of trials of each entry, and final runs are not. Where this process already runs Ray, that Ray
    is used and left alone.

    Raises `UserError` before anything is started, and `HaltedError` when a fault around the sweep (a
    full disk, say) ends it, with its state kept. Ctrl-C ends it in order: see `Result.ending`.
    """
    from suite.sweeps.journal.paths import SweepPaths
    from suite.sweeps.request import SweepRequest, changes, usual_name

    given: str | Mapping[str, Any]
    if isinstance(study, str | Path):
        given = str(study)
        name = usual_name(study, smoke) if name is None else name
    elif isinstance(study, Study):
        given = study.model_dump(mode="json")
    elif isinstance(study, Mapping):
        given = {key: value for key, value in lists_by_name(study).items() if key != "name"}
        name = one("name", study.get("name"), "in the study", name)
    else:
        raise no_name("study", study)
    by_name({"name": name})
    if minutes is not None and not (isinstance(minutes, int | float) and 0.1 <= minutes < inf):
        raise UserError(f"minutes: must be at least 0.1, not {minutes!r}")
    if name is None:
        raise UserError(
            "name: a study that is no file needs one, as its key or as in sweep(study, name='mine')"
        )
    folder = place(storage)
    changed = changes(lists_by_name(values), address)
    paths = SweepPaths(folder, name, usual(tracking_uri), data_root, changed.checkpoints)
    return SweepRequest(given, paths, changed.study, resume, smoke).run(changed.resources, minutes)


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
    given = dict(settings_of(settings))
    for key in values.keys() & given:
        one(key, given[key], "in settings", values[key])
    columns = {"target": target, "client": client, "task": task}
    names = {
        "dataset": _dataset(dataset, data, columns),
        "model": model,
        "heterogeneity": heterogeneity,
    }
    request = _request(algorithm, names, settings, seed=seed, values=values)
    return execute(request.spec(), data_root, device, lambda entry: None, budget)


def replay(
    run_id: str,
    *,
    storage: str | Path = "runs",
    data_root: str | None = None,
    tracking_uri: str | None = None,
) -> "Replay":
    """Train a recorded run again, and compare every metric: `suite replay`. `exact` says whether all bits are the same."""
    from suite.runs import single

    if not isinstance(run_id, str):
        raise no_name("run_id", run_id)
    recorded = single.RecordedRun.run(store_of(storage, tracking_uri), run_id)
    return single.replay(recorded, data_root, lambda entry: None)


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
        raise no_name("path", path)
    named = located(model) if callable(model) else model
    by_name({"model": named})
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


def _dataset(dataset: str | None, data: Any, columns: Mapping[str, str | None]) -> str | None:
    """The name of a data set, which data that the program holds are given in the place of."""
    if data is None:
        if any(columns.values()):
            raise UserError("target, client and task are of a table that is given as data=")
        return dataset
    if dataset is not None:
        raise UserError(f"dataset is {dataset!r}, and data are given beside it: give one of them")
    return given_name(data, columns)


def _request(
    algorithm: str | Tuned,
    given: Mapping[str, Any],
    settings: Mapping[str, Any] | Settings | None,
    **more: Any,
) -> Request:
    model = given["model"]
    names = {**given, "model": located(model) if callable(model) else model}
    by_name(names)
    if isinstance(algorithm, Tuned):
        algorithm.refuse_changed(f"the tuned configuration of {algorithm.algorithm}")
        base = algorithm.model_dump()
    else:
        by_name({"algorithm": algorithm})
        base = {"algorithm": algorithm}
    return Request.over(base, names, dict(settings_of(settings)), **more)
