"""`suite run` and `replay`: one configuration, and a recorded run again."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from suite import api
from suite.cli.options import PLAIN, RUNS, Assign, DataRoot, Json, Storage, Tracking
from suite.console import READING, emit, out, say
from suite.yaml_files import assignments
from trials.common.errors import UserError
from trials.scoring.metrics import LAST, TASKS

if TYPE_CHECKING:
    from suite.configurations.configuration import Tuned
    from suite.runs.single import Finished

Name = Annotated[str | None, typer.Option(help="A name of `suite list`. The default is above.")]
SCORES = {f"{part}_{task}" for part in ("val", "test") for task in TASKS}


def run(
    config: Annotated[
        Path | None, typer.Argument(help="A tuned or hand-written YAML file to start from.")
    ] = None,
    algorithm: Name = None,
    dataset: Name = None,
    model: Name = None,
    heterogeneity: Name = None,
    assign: Assign = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Run seed.")] = 0,
    tuned: Annotated[
        bool, typer.Option("--tuned", help="Start from the best known configuration.")
    ] = False,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    record: Annotated[bool, typer.Option(help="Record the run in MLflow.")] = True,
    save: Annotated[
        Path | None, typer.Option(help="Folder for the final model: `suite.load_model` reads it.")
    ] = None,
    storage: Storage = RUNS,
    data_root: DataRoot = None,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Run one configuration and show its curve.

    The defaults are fedavg, digits, logreg and iid. --set takes a hyperparameter of the
    algorithm (--set mu=0.1), a shared setting (--set rounds=100, --set clients=50), and memory_budget, the
    GB for the clients that are computed at once. Each key is an option, too: --mu 0.1 --rounds 100.
    docs/reference.md lists the settings.
    """
    from suite.runs import single
    from suite.runs.saving import check_folder
    from suite.tracking.faults import StoreError
    from trials import algorithms
    from trials.run.spec import outside

    if save is not None:
        check_folder(save)
    names = (algorithm, dataset, model, heterogeneity)
    base = _base(config, names, storage, tracking_uri) if config or tuned else None
    values = assignments(assign or ())
    memory = api.taken_memory(values)
    spec = api.run_request(base or algorithm, *names[1:], None, seed, values).spec()
    if reason := outside(algorithms.resolve(spec.algorithm), spec.settings):
        say(f"{spec.algorithm} runs outside its paper's setting: {reason}")
    recording = single.Recording(tracking_uri, storage) if record else None

    def evaluated(entry: dict[str, float]) -> None:
        if recording is not None:  # what is refused for its data leaves no store
            recording.begin()
        show_evaluation(entry)

    say(f"loading {spec.dataset}")
    done = single.execute(spec, data_root, device, evaluated, memory)
    if note := done.result.model_note:
        say(f"{spec.model} computes {note}")
    if save is not None:
        done.save(save)
    run_id = None
    try:
        run_id = recording.record(done, save) if recording else None
    except StoreError as error:
        say(f"the run is not recorded: {error}")
    finally:  # what was computed is shown, whatever the store says
        if as_json:
            emit(done.document() | ({"run_id": run_id} if run_id else {}))
        else:
            for line in _summary(done, run_id, base, seed):
                out().print(line, **PLAIN)


def _base(
    path: Path | None, names: tuple[str | None, ...], storage: Path, tracking_uri: str | None
) -> "Tuned":
    """Return the configuration that a run starts from: a file's, or the best known one of the scenario."""
    from suite.configurations.configuration import read
    from suite.configurations.library import best_of
    from trials import algorithms

    if path is None:
        say(READING)
        matching = api.tuned(*names, storage=storage, tracking_uri=tracking_uri)
        if not matching:
            raise UserError(
                f"no tuned configuration matches {' '.join(filter(None, names)) or 'anything'}: "
                "see `suite tuned list`, or make one with `suite sweep`"
            )
        return best_of(matching)
    if str(path) in algorithms.known() and not path.exists():
        raise UserError(f"{path} is no configuration but an algorithm: --algorithm {path}")
    base, algorithm = read(path), names[0]
    if algorithm and not algorithms.is_named(base.algorithm, algorithms.canonical(algorithm)):
        raise UserError(f"--algorithm {algorithm}: {path} configures {base.algorithm}")
    return base


def _summary(done: "Finished", run_id: str | None, base: "Tuned | None", seed: int) -> list[str]:
    """Return what came out in words, and beside it what the configuration's file says of the same statistic."""
    spec, document, data = done.spec, done.document(), done.data
    metric = done.simulation.task.metric
    name, last = f"test_{metric}", done.history[-1]
    shown = name.replace("_", " ")
    params = " ".join(f"{key}={value}" for key, value in spec.params.items())
    lines = [
        f"{spec.algorithm} {params} on {spec.scenario}, seed {spec.seed}: {done.ended}, {shown} "
        f"{done.test_score:.4f} (mean of the last {LAST} evaluations), {last[name]:.4f} at the end",
        f"{data.clients} clients with {len(data.train)} training samples, {len(data.val)} for validation, "
        f"{len(data.test)} for testing; {document['seconds']} s ({document['evaluation_share']:.0%} of it evaluating)"
        + (f"; run {run_id}" if run_id else ""),
    ]
    mean = base.scores.get(name) if base else None
    if base and isinstance(mean, float):
        by_seed: Any = base.scores.get("test_by_seed") or {}
        own = f"; with seed {seed}: {by_seed[seed]:.4f}" if seed in by_seed else ""
        seeds = f"mean of {len(by_seed)} seeds"
        lines.append(f"The configuration's {shown}, {seeds}: {mean:.4f}{own}")
    return lines


def show_evaluation(entry: dict[str, float]) -> None:
    """Say what an evaluation found, in a line."""
    shown = SCORES | {"train_loss"}
    scores = [f"{name} {value:.4f}" for name, value in entry.items() if name in shown]
    say(f"round {entry['round']:4d}  " + "  ".join(scores))


def replay(
    run_id: Annotated[
        str,
        typer.Argument(
            metavar="RUN_ID|FILE",
            help="A run's id in MLflow, whose beginning is enough; or a table (.parquet).",
        ),
    ],
    sample: Annotated[
        int, typer.Option(min=1, help="Of a table: so many trials, drawn at random.")
    ] = 1,
    storage: Storage = RUNS,
    data_root: DataRoot = None,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Train a recorded run again, and compare every metric.

    Exit code 1 if a metric differs in any bit. On another device than the recorded one, metrics agree up to rounding.
    """
    say(READING)
    from suite.runs import single

    documents = []
    for recorded in api.recorded_runs(run_id, sample, storage, tracking_uri):
        again = single.replay(recorded, data_root, show_evaluation)
        differences, near = again.differences, again.near
        if not as_json and differences:
            out().print(f"different: {len(differences)} values of {recorded.name} differ:", **PLAIN)
            out().print("\n".join(differences[:20]), **PLAIN)
        elif not as_json:
            answer = "equal up to rounding" if near else "identical to the last bit"
            out().print(f"{answer}: every recorded metric of {recorded.name}", **PLAIN)
        if near:
            say(near)
        compared = {"differences": differences, "compared_to": "rounding" if near else "bit"}
        same = not (differences or near)
        documents.append({"identical": same, **compared, **again.run.document()})
    if as_json:
        emit(documents if run_id.endswith(api.TABLE) else documents[0])
    raise typer.Exit(1 if any(document["differences"] for document in documents) else 0)
