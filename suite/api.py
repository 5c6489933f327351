"""The Python interface: each command as a function with a typed result, for scripts and notebooks.

Wrong input raises `trials.common.errors.UserError` with the message that the command prints. The environment variable
MLFLOW_TRACKING_URI is the default `tracking_uri`. docs/python.md has examples.
"""

# Functions import their modules when they are called, so that those that only read start without PyTorch and Ray.
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
    """The name of a sweep or a study, the path of a table of trials, or the `Result` of `sweep`."""

TABLE = ".parquet"
"""The file extension of a sweep's table of trials."""
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
    """Tune every algorithm of a study by the same rules, run each winner again with fresh seeds, and rank the algorithms.

    `study` is the name of a shipped study, the path of a YAML file, or a study's content, which needs a `name`. `values`
    replace keys of the study, as in `algorithms=["fedavg", "folb"], trials=8, rounds=20`. A mapping such as
    `search={"lr": "0.01..1"}` replaces only the keys that it has. The other arguments are options of `suite sweep`.

    Raise `UserError` for bad input before anything starts. Raise `HaltedError` when a fault such as a full disk ends the
    sweep; the results so far are kept. After Ctrl-C, `Result.ending` is "interrupted".
    """
    if minutes is not None and not 0.1 <= minutes < inf:
        raise UserError(f"minutes is {minutes}, but must be at least 0.1")
    options = name, smoke, resume, address, storage, tracking_uri, data_root
    request, resources = sweep_request(study, **dict(zip(OPTIONS, options, strict=True)), **values)
    return request.run(resources, minutes)


def sweep_request(study: Any, **options: Any) -> tuple[SweepRequest, Resources]:
    """Return a sweep's request, and the resources of its trials. `options` are keyword arguments of `sweep`."""
    from suite.sweeps.journal.paths import SweepPaths
    from suite.tracking import usual

    name, smoke, resume, address, storage, uri, data_root = map(options.pop, OPTIONS)
    if isinstance(study, str | Path):
        study, stem = str(study), Path(study).resolve().stem  # `.` alone has no stem
        name = stem + "-smoke" * smoke if name is None else name
    else:
        study = dict(study if isinstance(study, Mapping) else study.model_dump(mode="json"))
        name = study.pop("name", None) if name is None else name
    if not isinstance(name, str):
        raise UserError("name: a study that is not a file needs one, as in name='mine'")
    paths = SweepPaths(folder_of(storage), name, usual(uri), data_root)
    paths.check(resume)  # before the libraries are loaded, which takes seconds
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
    """Run one configuration to its end in this process, and return the run. Only `Finished.record` writes the run to MLflow.

    `algorithm` is a name or a tuned configuration, which provides the arguments left out. Otherwise the defaults are digits,
    logreg and iid. `values` are hyperparameters, settings, or `memory_budget` in GB. `model` may be a function that builds
    the model. `data` replaces `dataset`: two `torch.utils.data.Dataset`s (train, test), or one or two tables of pandas,
    pyarrow or Hugging Face. `target` names the table's column of labels, and `client` the column of clients for the level
    `natural`. `task` is "classification" or "regression" (docs/data.md).
    """
    from suite.runs.single import execute
    from trials.datasets.own import given

    columns = {"target": target, "client": client, "task": task}
    if data is None and any(columns.values()):
        raise UserError("target, client and task describe a table: pass it as data=")
    if data is not None and dataset is not None:
        raise UserError(f"dataset is {dataset!r}, but data= is passed, too: leave one of them out")
    memory, dataset = taken_memory(values), dataset if data is None else given(data, columns)
    names = {"dataset": dataset, "model": model, "heterogeneity": heterogeneity}
    spec = run_request(algorithm, names, settings, seed, values).spec()
    return execute(spec, data_root, device, lambda entry: None, memory)


def taken_memory(values: dict[str, Any]) -> int | None:
    """Remove `memory_budget` (in GB) from `values`, and return the budget in bytes, or None if there is none."""
    from suite.execution.resources import Resources

    return Resources(memory_budget=values.pop("memory_budget", None)).budget_bytes


def run_request(
    algorithm: str | Tuned | None,
    names: Mapping[str, Any],
    settings: Mapping[str, Any] | Settings | None = None,
    seed: int = 0,
    values: Mapping[str, Any] | None = None,
) -> Request:
    """Return the request for a run. If `algorithm` is a tuned configuration, it provides all values that are left out."""
    from suite.configurations.configuration import Tuned
    from suite.runs.request import Request

    base: dict[str, Any] = {}
    if isinstance(algorithm, Tuned):
        algorithm.refuse_changed(f"the tuned configuration of {algorithm.algorithm}")
        base, algorithm = algorithm.model_dump(), None
    names = {**names, "algorithm": algorithm, "model": _model_name(names.get("model"))}
    # People pass a class or a data set where its name is expected.
    for key, name in names.items():
        if name is not None and not isinstance(name, str):
            raise UserError(f"{key} is {name!r}, but must be a name (your own code: mine.py:Name)")
    return Request(base, names, seed, {**dict(settings or {}), **(values or {})})


def replay(
    run_id: str,
    *,
    storage: str | Path = "runs",
    data_root: str | None = None,
    tracking_uri: str | None = None,
) -> Replay:
    """Train a recorded run again, and compare every recorded metric. `Replay.exact` is True if all metrics agree bit for bit."""
    from suite.runs import single

    (recorded,) = recorded_runs(run_id, 1, storage, tracking_uri)
    return single.replay(recorded, data_root, lambda entry: None)


def recorded_runs(
    source: str, sample: int, storage: str | Path, tracking_uri: str | None
) -> list[RecordedRun]:
    """Return the run with the id `source`. If `source` is a table's path, return at most `sample` random finished trials of the table."""
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
    """Return a saved model as a `torch.nn.Module`: the server's model, or the personal model of `client`. The module maps
    samples (b, *shape) to logits (b, C). No code in the folder runs: pass the function that builds your own model as `model`.
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
    """Return a Ray Tune trainable of an algorithm, for `tune.Tuner` with any searcher and scheduler of Tune.

    The Tuner's `param_space` may contain hyperparameters, settings, and `seed`. Each result is a flat dict: `round` (for a
    scheduler's `time_attr`), `val_score`, metrics and counters. A trial continued from a checkpoint gives identical results.
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
    """Return the trials of sweeps (default: all), one row each. docs/table.md lists the columns; `curves` adds metrics by round."""
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

    `where` selects runs by the values of columns, as in `{"dataset": "digits"}`. `metric` is score, best, worst_clients,
    client_spread, personal, fine_tuned, unseen, loss or top5. `at` is the cost at which runs are compared: rounds, steps,
    bytes or seconds. With a `target` (a test score), the board counts the rounds that runs need to reach this score.
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
    """Write one self-contained HTML page with a leaderboard and charts. `figures` ("svg", "png", "pdf") also writes charts as files."""
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
        names, folder = _places(sources, storage)
        stems = [Path(name).stem if name.endswith(TABLE) else name for name in names]
        check_name(name := "-".join(stems) or "all", "report of")
        output = folder / "report" / name
    query, server = Query(where=where or {}), pages_at(usual(tracking_uri))
    return write(tables, query, Path(output), server, forms)


def tables_at(sources: Sequence[Source], storage: str | Path, tracking_uri: str | None) -> Tables:
    """Return the trial tables of `sources` (default: all sweeps). Read from the tracking server if there is one, else from `storage`."""
    from suite.sweeps.tables import open_tables
    from suite.tracking import usual

    names, folder = _places(sources, storage)
    return open_tables(folder, usual(tracking_uri), names)


def _places(sources: Sequence[Any], storage: str | Path) -> tuple[list[str], Path]:
    """Return the names of `sources`, and their storage folder: the folder of a `Result` among the sources, else `storage`."""
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
    """Return the search of one algorithm in one scenario as an `optuna.Study`, whose values are validation scores.

    `entry` is a name such as `folb · digits · logreg · iid`. Append ` · t1` for the repeated search (replicate) `t1`.
    """
    from suite.results.study import study_of

    return study_of(tables_at([sweep], storage, tracking_uri).tables[0], entry)


def status(
    sweep: str | Result | None = None, *, storage: str | Path = "runs"
) -> dict[str, Any] | list[dict[str, Any]]:
    """Return the progress of a sweep, with the best trial of each search. Return a list if `sweep` is None (all sweeps) or
    the name of a study (its sweeps). Leave unreadable sweeps out of this list, and print their names to standard error.
    """
    from suite.console import say
    from suite.sweeps.status import status as read
    from suite.sweeps.status import sweeps

    (name,), folder = _places([sweep], storage)
    names = sweeps(folder)
    # A sweep often has the name of its study: the sweep goes first.
    if sweep is not None and name in names:
        return read(folder, name)
    statuses = []
    for each in names:
        try:
            statuses.append(read(folder, each))
        except UserError as error:
            say(f"sweep {each} is left out: {error}")
    if sweep is None:
        return statuses
    statuses = [each for each in statuses if each["study"] == name]
    if not statuses:
        return read(folder, name)  # raises the error for an unknown name
    say(f"{name} is a study; its sweeps: {', '.join(each['name'] for each in statuses)}")
    return statuses


def stop(sweep: str | Result, *, now: bool = False, storage: str | Path = "runs") -> bool:
    """Ask a sweep to end after its running trials. If `now` is true, the trials are interrupted, too, and the sweep ends within
    seconds. Return whether a process on this machine runs the sweep.
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
    """Return the tuned configurations with these names (None: any). For each data set and heterogeneity level, the best come first."""
    from suite.configurations.library import list_tuned, select_tuned
    from suite.tracking import usual

    configurations = list_tuned(folder_of(storage), usual(tracking_uri))
    scenario = {"dataset": dataset, "model": model, "heterogeneity": heterogeneity}
    return select_tuned(configurations, algorithm, **scenario)


def folder_of(storage: str | Path) -> Path:
    """Return the path of a storage folder, which need not exist yet. Raise `UserError` if something else is at that path."""
    path, kind = look(storage, "storage")
    if kind not in ("", "folder"):
        raise UserError(f"storage {path} is a {kind}, not a folder")
    return path


def _models_by_name(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a study's content, with the name `FILE:NAME` in place of each function that builds a model."""
    models = values.get("models")
    if callable(models) or isinstance(models, list | tuple):
        makers = models if isinstance(models, list | tuple) else [models]
        return {**values, "models": [*map(_model_name, makers)]}
    return dict(values)


def _model_name(model: Any) -> Any:
    """Return the name `FILE:NAME` of a function that builds a model. Return any other value unchanged."""
    if not callable(model):
        return model
    from trials.models.own import located

    return located(model)
