"""The Python interface: what the commands do, for scripts and notebooks, with typed results.

Wrong input raises `trials.common.errors.UserError` with the text that the command shows. The default `tracking_uri` is
MLFLOW_TRACKING_URI. `suite/__init__.py` lists the public names; docs/python.md shows their use.
"""

# Functions import what they need when they are called: what only reads starts without PyTorch and Ray.
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trials.common.errors import UserError, unknown
from trials.common.files import look

if TYPE_CHECKING:
    import optuna
    import pandas as pd
    from ray import tune

    from reports.page.notebook import ShownBoard
    from suite.configurations.configuration import Tuned
    from suite.configurations.library import TunedList
    from suite.execution.resources import Resources
    from suite.results.report import WrittenReport
    from suite.results.table import Tables
    from suite.runs.request import Request
    from suite.runs.single import Finished, RecordedRun, Replay
    from suite.studies.study import Study
    from suite.sweeps.request import SweepRequest
    from suite.sweeps.sweep import Result
    from trials.models.torch_modules import TrainedModel
    from trials.settings import Settings

    Source = str | Path | Result
    """The name of a sweep or a study, the path of a table, or what `sweep` returned."""

TABLE = ".parquet"
"""How the name of a table ends."""
OPTIONS = ("name", "smoke", "resume", "address", "storage", "tracking_uri", "data_root")
"""The arguments of `sweep` that are not keys of a study."""


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
) -> Result:
    """Tune every algorithm of a study fairly, run the best again with fresh seeds, rank them.

    `study` is a shipped study's name, a path to a YAML file, or its content, which needs a `name`. `values` are the
    keys that `suite sweep --set` takes, as in `algorithms=["fedavg", "folb"], trials=8, rounds=20`; of a mapping, as in
    `search={"lr": "0.01..1"}`, only the keys that it has are replaced. The others are the command's options.

    Raise `UserError` before anything is started, and `HaltedError` when a fault around the sweep (a
    full disk, say) ends it, with its state kept. Ctrl-C ends it in order: see `Result.ending`.
    """
    if minutes is not None and not 0.1 <= minutes < inf:
        raise UserError(f"minutes is {minutes}, but must be at least 0.1")
    options = name, smoke, resume, address, storage, tracking_uri, data_root
    request, resources = sweep_request(study, **dict(zip(OPTIONS, options, strict=True)), **values)
    return request.run(resources, minutes)


def sweep_request(study: Any, **options: Any) -> tuple[SweepRequest, Resources]:
    """Return the sweep that `sweep` is asked for, and what its trials get."""
    from suite.sweeps.journal.paths import SweepPaths
    from suite.tracking import usual

    name, smoke, resume, address, storage, uri, data_root = map(options.pop, OPTIONS)
    if isinstance(study, str | Path):
        study, stem = str(study), Path(study).resolve().stem  # `.` has no name of its own
        name = stem + "-smoke" * smoke if name is None else name
    else:
        study = dict(study if isinstance(study, Mapping) else study.model_dump(mode="json"))
        name = study.pop("name", None) if name is None else name
    if not isinstance(name, str):
        raise UserError("name: a study that is no file needs one: sweep(study, name='mine')")
    paths = SweepPaths(folder_of(storage), name, usual(uri), data_root)
    paths.check(resume)  # said before the libraries come, which takes seconds
    from suite.sweeps.request import SweepRequest, changes

    changed, resources, paths.checkpoints = changes(_models_by_name(options), address)
    study = study if isinstance(study, str) else _models_by_name(study)
    return SweepRequest(study, paths, changed, resume, smoke), resources


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
) -> Finished:
    """Run one configuration to its end in this process. Only `Finished.record` records it.

    Values left out come from `algorithm`, if that is a tuned configuration. Else they are the command's defaults (digits,
    logreg, iid). `values` are hyperparameters or settings, and `memory_budget` in GB. `model` may be the
    function that makes it. `data` takes the place of a `dataset`'s name: two `torch.utils.data.Dataset`s (train, test),
    or one table or two of pandas, pyarrow or Hugging Face, with the column `target` and, for `natural`, the column
    `client`; `task` is "classification" or "regression" (docs/data.md).
    """
    from suite.runs.single import execute
    from trials.datasets.own import given

    columns = {"target": target, "client": client, "task": task}
    if data is None and any(columns.values()):
        raise UserError("target, client and task are of a table that is given as data=")
    if data is not None and dataset is not None:
        raise UserError(f"dataset is {dataset!r}, and data are given, too: give one of them")
    memory, dataset = taken_memory(values), dataset if data is None else given(data, columns)
    names = {"dataset": dataset, "model": model, "heterogeneity": heterogeneity}
    spec = run_request(algorithm, names, settings, seed, values).spec()
    return execute(spec, data_root, device, lambda entry: None, memory)


def taken_memory(values: dict[str, Any]) -> int | None:
    """Take `memory_budget` out of the values, and return it in bytes."""
    from suite.execution.resources import Resources

    return Resources(memory_budget=values.pop("memory_budget", None)).budget_bytes


def run_request(
    algorithm: str | Tuned | None,
    names: Mapping[str, Any],
    settings: Mapping[str, Any] | Settings | None = None,
    seed: int = 0,
    values: Mapping[str, Any] | None = None,
) -> Request:
    """Return the request for a run. If `algorithm` is a tuned configuration, `values` replace its values."""
    from suite.configurations.configuration import Tuned
    from suite.runs.request import Request

    base: dict[str, Any] = {}
    if isinstance(algorithm, Tuned):
        algorithm.refuse_changed(f"the tuned configuration of {algorithm.algorithm}")
        base, algorithm = algorithm.model_dump(), None
    names = {**names, "algorithm": algorithm, "model": _model_name(names.get("model"))}
    # A class or a data set is easily passed in the place of its name.
    for key, name in names.items():
        if name is not None and not isinstance(name, str):
            raise UserError(f"{key} is {name!r}, but must be a name, as of your file: mine.py:Name")
    return Request(base, names, seed, {**dict(settings or {}), **(values or {})})


def replay(
    run_id: str,
    *,
    storage: str | Path = "runs",
    data_root: str | None = None,
    tracking_uri: str | None = None,
) -> Replay:
    """Train a recorded run again, and compare every metric: `suite replay`. `exact` says whether all bits are the same."""
    from suite.runs import single

    (recorded,) = recorded_runs(run_id, 1, storage, tracking_uri)
    return single.replay(recorded, data_root, lambda entry: None)


def recorded_runs(
    source: str, sample: int, storage: str | Path, tracking_uri: str | None
) -> list[RecordedRun]:
    """Return a run by its id, or a random sample of the trials of a table."""
    from suite.runs import single
    from suite.sweeps.tables import open_tables
    from suite.tracking import usual
    from suite.tracking.store import open_existing

    folder = folder_of(storage)
    if source.endswith(TABLE):
        return [*single.sample(open_tables(folder, None, [source]), sample)]
    return [single.recorded_run(open_existing(usual(tracking_uri), folder), source)]


def load_model(
    path: str | Path, client: int | None = None, *, model: str | Callable[..., Any] | None = None
) -> TrainedModel:
    """Return a saved model as a `torch.nn.Module`: samples (b, *shape) to logits (b, C); or a `client`'s own one. No code
    in the folder runs: your own model needs `model`, the function that makes it.
    """
    from trials.run.saved_model import read

    return read(Path(path), _model_name(model)).module(client)


def trainable(
    algorithm: str | Tuned = "fedavg",
    *,
    dataset: str | None = None,
    model: str | Callable[..., Any] | None = None,
    heterogeneity: str | None = None,
    settings: Mapping[str, Any] | Settings | None = None,
    data_root: str | None = None,
    device: str = "cpu",
) -> type[tune.Trainable]:
    """Return an algorithm as a Ray Tune trainable, for `tune.Tuner` with any of its searchers and schedulers.

    The keys of `param_space` are hyperparameters or settings by name, and `seed`. Results are flat: `round` (a
    scheduler's `time_attr`), `val_score`, metrics and counters. Trials continue from Tune's checkpoints to the last bit.
    """
    from suite.runs import request

    names = {"dataset": dataset, "model": model, "heterogeneity": heterogeneity}
    return request.trainable(run_request(algorithm, names, settings), data_root, device)


def load(
    *sources: Source,
    curves: bool = False,
    storage: str | Path = "runs",
    tracking_uri: str | None = None,
) -> pd.DataFrame:
    """Load the trials of sweeps (default: all), a row each, with the columns of docs/table.md; `curves` adds their curves."""
    from suite.results.table import CURVES, PLAIN

    columns = [*PLAIN, *(CURVES if curves else ())]
    return tables_at(sources, storage, tracking_uri).frame(columns)


def leaderboard(
    *sources: Source,
    where: Mapping[str, Any] | None = None,
    metric: str = "score",
    at: str = "rounds",
    target: float | None = None,
    storage: str | Path = "runs",
    tracking_uri: str | None = None,
) -> ShownBoard:
    """Rank algorithms by the final runs of sweeps, studies or tables (default: all sweeps), as `suite leaderboard` does.

    `where` are values of columns, as in `{"dataset": "digits"}`; `metric` is score, best, worst_clients, client_spread,
    personal, fine_tuned, unseen, loss or top5; `at` compares at equal rounds, steps, bytes or simulated seconds.
    """
    from reports.page.notebook import ShownBoard
    from suite.results.leaderboards import Query, read_leaderboard

    query = Query(where=where or {}, metric=metric, target=target, at=at)
    return ShownBoard.of(read_leaderboard(tables_at(sources, storage, tracking_uri), query))


def report(
    *sources: Source,
    where: Mapping[str, Any] | None = None,
    output: str | Path | None = None,
    figures: Sequence[str] = (),
    storage: str | Path = "runs",
    tracking_uri: str | None = None,
) -> WrittenReport:
    """Write one self-contained HTML page of the same `sources`, and its `figures` as files ("svg", "png", "pdf")."""
    from reports.charts.drawing import FORMS
    from suite.results.leaderboards import Query
    from suite.results.report import write
    from suite.sweeps.journal.paths import check_name
    from suite.tracking import pages_at, usual

    forms = (figures,) if isinstance(figures, str) else tuple(figures)
    for form in forms:
        if form not in FORMS:
            raise unknown("form of figures", form, FORMS)
    tables = tables_at(sources, storage, tracking_uri)
    if output is None:
        names, place = _places(sources, storage)
        stems = [Path(name).stem if name.endswith(TABLE) else name for name in names]
        check_name(name := "-".join(stems) or "all", "report of")
        output = place / "report" / name
    query, server = Query(where=where or {}), pages_at(usual(tracking_uri))
    return write(tables, query, Path(output), server, forms)


def tables_at(sources: Sequence[Source], storage: str | Path, tracking_uri: str | None) -> Tables:
    """Return the tables of `sources`: paths of tables, names of sweeps or studies. The default is all tables of the place."""
    from suite.sweeps.tables import open_tables
    from suite.tracking import usual

    names, folder = _places(sources, storage)
    return open_tables(folder, usual(tracking_uri), names)


def _places(sources: Sequence[Any], storage: str | Path) -> tuple[list[str], Path]:
    """Return the names of sources and the folder of their storage. A `Result` of `sweep` brings its own folder."""
    names, folder = [], folder_of(storage)
    for source in sources:
        summary = getattr(source, "summary", None)
        names.append(str(summary.name if summary else source))
        folder = Path(summary.storage).parent if summary else folder
    return names, folder


def study(
    sweep: Source,
    entry: str,
    *,
    storage: str | Path = "runs",
    tracking_uri: str | None = None,
) -> optuna.Study:
    """Return the search of an entry of a sweep as an `optuna.Study`, for `optuna.visualization` and `optuna.importance`.

    `entry` is an entry's name; ` · t1` at its end selects a replicate. Values are validation scores.
    """
    from suite.results.study import study_of

    return study_of(tables_at([sweep], storage, tracking_uri).tables[0], entry)


def status(
    sweep: str | Result | None = None, *, storage: str | Path = "runs"
) -> dict[str, Any] | list[dict[str, Any]]:
    """Return a sweep's progress and its leading methods. A study's name gives a list of its sweeps, no name a list of all
    sweeps. Sweeps with an unreadable journal are named on standard error.
    """
    from suite.console import say
    from suite.sweeps.status import status as read
    from suite.sweeps.status import sweeps

    (called,), folder = _places([sweep], storage)
    names = sweeps(folder)
    # A sweep may have the name of its study, and then it is meant.
    if called in names:
        return read(folder, called)
    standings = []
    for name in names:
        try:
            standings.append(read(folder, name))
        except UserError as error:
            say(f"sweep {name} is left out: {error}")
    if sweep is None:
        return standings
    standings = [standing for standing in standings if standing["study"] == called]
    if not standings:
        return read(folder, called)
    say(f"{called} is a study; its sweeps: {', '.join(standing['name'] for standing in standings)}")
    return standings


def stop(sweep: str | Result, *, now: bool = False, storage: str | Path = "runs") -> bool:
    """End a sweep that another process runs; return whether that process is on this machine. Running trials finish first;
    with `now` the sweep ends within seconds.
    """
    from suite.sweeps.status import ask

    (name,), folder = _places([sweep], storage)
    return ask(folder, name, "cancel" if now else "stop")


def tuned(
    algorithm: str | None = None,
    dataset: str | None = None,
    model: str | None = None,
    heterogeneity: str | None = None,
    *,
    storage: str | Path = "runs",
    tracking_uri: str | None = None,
) -> TunedList:
    """Return the tuned configurations that match, by data set and level, the best validation score first."""
    from suite.configurations.library import list_tuned, select_tuned
    from suite.tracking import usual

    configurations = list_tuned(folder_of(storage), usual(tracking_uri))
    scenario = {"dataset": dataset, "model": model, "heterogeneity": heterogeneity}
    return select_tuned(configurations, algorithm, **scenario)


def folder_of(storage: str | Path) -> Path:
    """Return a storage's folder, which need not exist yet. Raises `UserError` where it cannot exist."""
    path, there = look(storage, "storage")
    if there not in ("", "folder"):
        raise UserError(f"storage {path} is a {there}, not a folder")
    return path


def _models_by_name(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a study's keys, each function that makes a model replaced by its name."""
    models = values.get("models")
    if callable(models) or isinstance(models, list | tuple):
        each = models if isinstance(models, list | tuple) else [models]
        return {**values, "models": [*map(_model_name, each)]}
    return dict(values)


def _model_name(model: Any) -> Any:
    """Return the name of a function that makes a model; a name is returned as it is."""
    if not callable(model):
        return model
    from trials.models.own import located

    return located(model)
