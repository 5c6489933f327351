"""The Python interface: what the commands do, for scripts and notebooks, with typed results.

Bad input raises `trials.errors.UserError`, with the text that the command shows. See docs/python.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.configurations.configuration import Tuned
from suite.configurations.library import TunedList, known, select_tuned
from suite.runs.request import Request
from suite.studies.study import Study
from trials.errors import UserError
from trials.settings import Settings

if TYPE_CHECKING:
    from ray import tune

    from reports.leaderboard.leaderboard import Leaderboard
    from suite.execution.cluster import Resources
    from suite.runs.single import Finished
    from suite.sweeps.result import Result
    from trials.torch_module import TrainedModel


def sweep(
    study: str | Path | Mapping[str, Any] | Study,
    *,
    name: str | None = None,
    storage: str | Path = "runs",
    tracking_uri: str | None = None,
    data_root: str | None = None,
    resources: "Resources | None" = None,
    resume: bool = False,
    smoke: bool = False,
    **changes: Any,
) -> "Result":
    """Tune every algorithm of a study fairly, run the best again with fresh seeds, rank them.

    `study` is a shipped study's name, a path to a YAML file, or its content, which needs a `name`.
    `changes` replace the study's keys, as in `algorithms=["fedavg", "folb"], trials=8`; of a mapping,
    as in `settings={"rounds": 20}`, only the keys that it has. `resume` continues, or extends, a sweep
    of this name; `smoke` makes it a matter of seconds. Where this process already runs Ray, that Ray
    is used and left alone.

    Raises `UserError` before anything is started, and `HaltedError` when a fault around the sweep (a
    full disk, say) ends it, with its state kept. Ctrl-C ends it in order: see `Result.ending`.
    """
    from suite.execution.cluster import Resources
    from suite.sweeps.paths import SweepPaths
    from suite.sweeps.request import SweepRequest

    given: str | Mapping[str, Any]
    if isinstance(study, str | Path):
        given = str(study)
        name = Path(study).stem if name is None else name
    elif name is None:
        raise UserError("name: a study that is no file needs one, as in sweep(study, name='mine')")
    else:
        given = study.model_dump(mode="json") if isinstance(study, Study) else study
    paths = SweepPaths(Path(storage), name, tracking_uri, data_root)
    request = SweepRequest(given, paths, dict(_keys(changes)), resume, smoke)
    return request.run(resources or Resources())


def run(
    algorithm: str | Tuned = "fedavg",
    *,
    dataset: str | None = None,
    model: str | None = None,
    heterogeneity: str | None = None,
    settings: Mapping[str, Any] | Settings | None = None,
    seed: int = 0,
    data_root: str | None = None,
    device: str = "cpu",
    **values: Any,
) -> "Finished":
    """Run one configuration to its end in this process; nothing is recorded but by `Finished.record`.

    What is not given is the tuned configuration's where there is one in the place of an algorithm's
    name, else the command's default (digits, logreg, iid). `values` are hyperparameters, or settings
    that replace those in `settings`: the same names as in the config of a `trainable`.
    """
    from suite.runs.single import execute

    names = {"dataset": dataset, "model": model, "heterogeneity": heterogeneity}
    request = _request(algorithm, names, settings, seed=seed, values=values)
    return execute(request.spec(), data_root, device, lambda entry: None)


def load_model(path: str | Path, client: int | None = None) -> "TrainedModel":
    """The final model that `suite run --save DIR`, `Finished.save` or a study's `save: best` kept in a
    folder, as a `torch.nn.Module`: samples (b, *shape) to logits (b, C). `client` names one of the
    clients' own models, where the method keeps such.

    Nothing in the folder is run. Raises `UserError` where it holds no such model.
    """
    from trials.saved_model import read

    return read(Path(path)).module(client)


def trainable(
    algorithm: str | Tuned = "fedavg",
    *,
    dataset: str | None = None,
    model: str | None = None,
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
    worst_clients, client_spread, fine_tuned, loss or top5; `at` compares at equal rounds, steps or bytes; `target`
    is the test score for rounds to target.
    """
    from suite.results.leaderboards import read_leaderboard
    from suite.results.query import Query
    from suite.tracking.store import open_existing

    names = (studies,) if isinstance(studies, str) else tuple(studies)
    tags = {key.removeprefix("suite."): str(value) for key, value in (where or {}).items()}
    query = Query(sweep, names, tags, metric, target, at)
    return read_leaderboard(open_existing(tracking_uri, Path(storage)), query)


def tuned(
    algorithm: str | None = None,
    dataset: str | None = None,
    model: str | None = None,
    heterogeneity: str | None = None,
    *,
    storage: str | Path = "runs",
    tracking_uri: str | None = None,
) -> TunedList:
    """The tuned configurations that match, best validation score first: recorded and imported ones."""
    found = known(Path(storage), tracking_uri)
    return select_tuned(found, algorithm, dataset, model, heterogeneity)


def _keys(changes: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """A study's keys to replace; those of a mapping one by one, as `settings.rounds`."""
    for key, value in changes.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{inner}", each) for inner, each in value.items())
        else:
            yield key, list(value) if isinstance(value, tuple) else value


def _request(
    algorithm: str | Tuned,
    names: Mapping[str, str | None],
    settings: Mapping[str, Any] | Settings | None,
    **more: Any,
) -> Request:
    if isinstance(algorithm, Tuned):
        algorithm.refuse_changed(f"the tuned configuration of {algorithm.algorithm}")
    base = algorithm.model_dump() if isinstance(algorithm, Tuned) else {"algorithm": algorithm}
    return Request.over(base, names, dict(settings or {}), **more)
