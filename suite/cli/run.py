"""The commands `suite run` and `suite replay`: run one configuration, or a recorded run again."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from suite import api
from suite.cli.options import PLAIN, RUNS, Assign, DataRoot, Json, Storage, Tracking
from suite.cli.tuned import matching
from suite.console import READING, emit, out, say
from suite.yaml_files import assignments
from trials.common.errors import UserError

if TYPE_CHECKING:
    from suite.configurations.configuration import Tuned
    from suite.runs.single import Finished
    from suite.tracking.store import Store


def run(
    config: Path | None = typer.Argument(None, help="A tuned or hand-written YAML file."),
    algorithm: str | None = typer.Option(None, help="As in `suite list algorithms`."),
    dataset: str | None = typer.Option(None, help="As in `suite list datasets`."),
    model: str | None = typer.Option(None, help="As in `suite list models`."),
    heterogeneity: str | None = typer.Option(None, help="As in `suite list heterogeneity`."),
    assign: Assign = None,
    seed: int = typer.Option(0, min=0, max=2**63 - 1, help="Run seed."),
    tuned: bool = typer.Option(False, "--tuned", help="Start from the best tuned configuration."),
    device: str = typer.Option("cpu", help="cpu or cuda."),
    record: bool = typer.Option(True, help="Record the run in MLflow."),
    save: Path | None = typer.Option(None, help="Save the trained model in this folder."),
    storage: Storage = RUNS,
    data_root: DataRoot = None,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Run one configuration and show its curve.

    The defaults are fedavg, digits, logreg and iid. --set takes a hyperparameter of the algorithm (--set mu=0.1), a
    shared setting (--set rounds=100, --set clients=50), and memory_budget, the memory in GB for the clients that are
    computed at once. Each key is an option, too: --mu 0.1 --rounds 100. `suite list settings` shows the settings.
    """
    from suite.execution.stop_signal import HaltedError
    from suite.runs import single
    from suite.tracking import StoreError
    from trials import algorithms
    from trials.run.spec import outside

    if save is not None:
        single.check_folder(save)
    names = {"dataset": dataset, "model": model, "heterogeneity": heterogeneity}
    options = {key: name for key, name in {"algorithm": algorithm, **names}.items() if name}
    base = _base(config, options, storage, tracking_uri) if config or tuned else None
    values = assignments(assign or ())
    memory = api.taken_memory(values)
    spec = api.run_request(base or algorithm, names, None, seed, values).spec()
    if reason := outside(algorithms.resolve(spec.algorithm), spec.settings):
        say(f"{spec.algorithm} runs outside its paper's setting: {reason}")
    stores: list[Store] = []

    def evaluated(entry: dict[str, float]) -> None:
        if record and not stores:  # opened late: a run whose data are refused leaves no store
            from suite.tracking.store import Store

            stores.append(Store(tracking_uri, storage))
        show_evaluation(spec.task.metric, entry)

    # All arguments are checked by now, and what follows takes time.
    say(f"loading {spec.dataset}")
    finished = single.execute(spec, data_root, device, evaluated, memory)
    if note := finished.result.model_note:
        say(f"{spec.model} computes {note}")
    if save is not None:
        finished.save(save)
    run_id = None
    try:
        run_id = finished.record(storage, tracking_uri, save) if record else None
    except StoreError as error:
        if error.passes:  # such as a server that is away
            fault = f"tracking store {stores[0].uri} did not accept the run: {error.reason}"
            raise HaltedError(fault, "Run it again once the store works.") from None
        say(f"the run is not recorded: {error}")
    finally:  # results are shown even if they were not recorded
        if as_json:
            emit(_document(finished) | ({"run_id": run_id} if run_id else {}))
        else:
            for line in _summary(finished, run_id, base):
                out().print(line, **PLAIN)


def _base(
    path: Path | None, names: dict[str, str], storage: Path, tracking_uri: str | None
) -> "Tuned":
    """Return the configuration in the file `path`, or else the best tuned one for `names`. Raise `UserError` if there is none."""
    from suite.configurations.configuration import read
    from suite.configurations.library import best_of
    from trials import algorithms

    if path is None:
        return best_of(matching(names, storage, tracking_uri))
    if str(path) in algorithms.known() and not path.exists():
        raise UserError(f"{path} is an algorithm, not a file: --algorithm {path}")
    base, algorithm = read(path), names.get("algorithm")
    if algorithm and not algorithms.is_named(base.algorithm, algorithms.canonical(algorithm)):
        raise UserError(f"--algorithm {algorithm}: {path} configures {base.algorithm}")
    return base


def _summary(finished: "Finished", run_id: str | None, base: "Tuned | None") -> list[str]:
    """Return lines on a run's test score, data and time. With `base`, add the score that the tuned configuration recorded."""
    data, seed = finished.simulation.fed.data, finished.spec.seed
    score = f"test_{finished.simulation.task.metric}"
    samples = f"{len(data.train)} training samples, {len(data.val)} for validation, {len(data.test)} for testing"
    recorded = f"; run {run_id}" if run_id else ""
    lines = [
        f"{finished!r}, {finished.history[-1][score]:.4f} at the end",
        f"{data.clients} clients with {samples}; {finished.result.seconds:.1f} s{recorded}",
    ]
    if base is not None and isinstance(mean := base.scores.get(score), float):
        by_seed: Any = base.scores.get("test_by_seed") or {}
        same = f"; with this seed: {by_seed[seed]:.4f}" if seed in by_seed else ""
        lines.append(f"The configuration's mean of {len(by_seed)} seeds: {mean:.4f}{same}")
    return lines


def _document(finished: "Finished") -> dict[str, Any]:
    """Return the JSON document of a run: its specification, its history and how it was computed."""
    return {
        **finished.spec.model_dump(mode="json"),
        "rounds": finished.spec.settings.rounds,
        "status": finished.status,
        "partition_fingerprint": finished.result.fingerprint,
        "history": finished.history,
        "seconds": round(finished.result.seconds, 3),
        **{name: getattr(finished.result, name) for name in ("execution", "chunk", "device")},
    }


def show_evaluation(metric: str, entry: dict[str, float]) -> None:
    """Print an evaluation in one line: round, test and validation scores by `metric`, and training loss."""
    line = f"round {entry['round']:4d}"
    for name in (f"test_{metric}", f"val_{metric}", "train_loss"):
        line += f"  {name} {entry[name]:.4f}" if name in entry else ""
    say(line)


def replay(
    run_id: str = typer.Argument(metavar="RUN_ID|FILE", help="A run id (or its start) or table."),
    sample: int = typer.Option(1, min=1, help="How many random trials of a table to replay."),
    storage: Storage = RUNS,
    data_root: DataRoot = None,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Train a recorded run again, and compare every metric.

    Exit with code 1 if a metric differs in any bit. On another device, rounding errors are accepted.
    """
    say(READING)
    from suite.runs import single

    documents: list[dict[str, Any]] = []
    for recorded in api.recorded_runs(run_id, sample, storage, tracking_uri):
        shown = partial(show_evaluation, recorded.spec.task.metric)
        again = single.replay(recorded, data_root, shown)
        differing, near = again.differences, again.near
        answer = "equal up to rounding" if near else "identical to the last bit"
        answer = f"different: {len(differing)} values" if differing else answer
        if not as_json:
            lines = [f"{answer}: {recorded.name}, every recorded metric", *differing[:20]]
            out().print("\n".join(lines), **PLAIN)
        if near:
            say(near)
        document = {"identical": not (differing or near), "differences": differing}
        document |= {"compared_to": "rounding" if near else "bit", **_document(again.run)}
        documents.append(document)
    if as_json:
        emit(documents if run_id.endswith(api.TABLE) else documents[0])
    raise typer.Exit(1 if any(document["differences"] for document in documents) else 0)
