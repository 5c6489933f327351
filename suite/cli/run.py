"""`suite run`, `replay` and `score`: one configuration, a recorded run again, a saved model again."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from suite.cli.options import (
    PLAIN,
    RUNS,
    Assign,
    DataRoot,
    Json,
    Storage,
    Text,
    Tracking,
    ask_where_bare,
)
from suite.console import READING, emit, out, say
from suite.yaml_files import assignments
from trials.common.errors import UserError
from trials.scoring.metrics import LAST, TASKS

if TYPE_CHECKING:
    from suite.execution.stop_signal import HaltedError
    from suite.runs.single import Finished, OnEvaluation, Recording
    from trials.run.spec import TrialSpec

Device = Annotated[str, typer.Option(help="cpu or cuda.")]


def run(
    config: Annotated[
        Path | None, typer.Argument(help="A tuned or hand-written YAML file to start from.")
    ] = None,
    algorithm: Text = None,
    dataset: Text = None,
    model: Text = None,
    heterogeneity: Text = None,
    assign: Assign = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Run seed.")] = 0,
    tuned: Annotated[
        bool, typer.Option("--tuned", help="Start from the best known configuration.")
    ] = False,
    device: Device = "cpu",
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
    GB for the clients that are computed at once. docs/reference.md lists the settings.
    """
    from suite.execution.resources import Resources
    from suite.runs import single

    ask_where_bare("run", "This runs fedavg on digits with logreg, iid, for 50 rounds: seconds.")
    if save is not None:
        single.check_folder(save)
    given = assignments(assign or ())
    budget = Resources(memory_budget=given.pop("memory_budget", None)).budget_bytes
    entry = (algorithm, dataset, model, heterogeneity)
    base = _base(config, entry, storage, tracking_uri) if config or tuned else {}
    spec = _spec(config, base, entry, given, seed)
    recording = single.Recording(tracking_uri, storage) if record else None
    say(f"loading {spec.dataset}")
    done = single.execute(spec, data_root, device, _shown(recording), budget)
    if note := done.result.model_note:
        say(f"{spec.model} computes {note}")
    if save is not None:
        done.save(save)
    run_id, fault = _recorded(recording, done, save)
    if as_json:
        emit(done.document() | ({"run_id": run_id} if run_id else {}))
    else:
        out().print(_summary(done, run_id), highlight=False, markup=False)
        if line := _beside(base.get("scores", {}), seed, done):
            out().print(line, highlight=False, markup=False)
    if fault:
        raise fault


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

    if run_id.endswith(".parquet"):
        from suite.sweeps.tables import open_tables

        chosen = single.sample(open_tables(storage, None, [Path(run_id)]), sample)
    else:
        from suite.tracking.store import open_existing

        chosen = [single.RecordedRun.run(open_existing(tracking_uri, storage), run_id)]
    differing, documents = 0, []
    for recorded in chosen:
        done, differences, near, _ = single.replay(recorded, data_root, show_evaluation)
        differing += bool(differences)
        if near:
            say(near)
        found = {"identical": not (differences or near), "differences": differences}
        how = {"compared_to": "rounding" if near else "bit"}
        documents.append({**done.document(), **found, **how})
        if as_json:
            continue
        if differences:
            say("\n".join([f"{len(differences)} values differ:", *differences[:20]]))
            continue
        agree = "agrees up to rounding" if near else "is identical to the last bit"
        out().print(f"{recorded.name} repeated: every recorded metric {agree}", **PLAIN)
    if as_json:
        emit(documents if run_id.endswith(".parquet") else documents[0])
    raise typer.Exit(1 if differing else 0)


def score(
    folder: Annotated[Path, typer.Argument(help="A saved model's folder.")],
    device: Device = "cpu",
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Score a saved model on its run's data again.

    The folder is from `suite run --save` or a study's `save: best`. Exit code 1 if a score differs from
    the run's in any bit.
    """
    say(f"reading {folder}")
    from trials.run.saved_model import read

    saved = read(folder)
    spec, was, now = saved.card.spec, saved.card.scores, saved.score(data_root, device)
    differing = sorted(key for key in was.keys() | now if was.get(key) != now.get(key))
    if as_json:
        facts = {"algorithm": spec.algorithm, **spec.scenario.names(), "seed": spec.seed}
        emit({**facts, "scores": now, "identical": not differing, "differences": differing})
    else:
        shown = ", ".join(f"{key} {value:.4f}" for key, value in now.items())
        to = out()
        to.print(f"{spec.algorithm} on {spec.scenario}, seed {spec.seed}: {shown}", **PLAIN)
        same = (
            f"{', '.join(differing)} differ from the run's"
            if differing
            else "as in its run, to the last bit"
        )
        to.print(same, **PLAIN)
    raise typer.Exit(1 if differing else 0)


def _base(
    path: Path | None, entry: tuple[str | None, ...], storage: Path, tracking_uri: str | None
) -> dict[str, Any]:
    """The configuration that a run starts from: a file's, or the best known one of the scenario."""
    from suite.configurations import configuration
    from trials.algorithms import known as known_algorithms

    if path is not None:
        if (name := str(path)) in known_algorithms() and not path.exists():
            raise UserError(f"{name} is no configuration but an algorithm: --algorithm {name}")
        found = configuration.read(path)
        found.refuse_changed(str(path))
        return found.model_dump()
    say(READING)
    from suite.configurations.library import best_of, known, select_tuned

    matching = select_tuned(known(storage, tracking_uri), *entry)
    if not matching:
        raise UserError(
            f"no tuned configuration matches {' '.join(filter(None, entry)) or 'anything'}: "
            "see `suite tuned list`, or make one with `suite sweep`"
        )
    best = best_of(matching)
    best.refuse_changed(f"the tuned configuration of {best.algorithm}")
    return best.model_dump()


def _spec(
    path: Path | None,
    base: dict[str, Any],
    entry: tuple[str | None, ...],
    values: dict[str, Any],
    seed: int,
) -> "TrialSpec":
    """The trial that is asked for: over the configuration `base`, which is a file's at `path` or the best
    known one.
    """
    from suite.runs.request import Request
    from trials import algorithms
    from trials.run.spec import outside

    asked = dict(zip(("algorithm", "dataset", "model", "heterogeneity"), entry, strict=True))
    algorithm = asked["algorithm"]
    if algorithm and base and not _same(base["algorithm"], algorithm):
        raise UserError(f"--algorithm {algorithm}: {path} configures {base['algorithm']}")
    asked["algorithm"] = base.get("algorithm", algorithm)
    request = Request.over(base, asked, {}, values=values, seed=seed)
    spec = request.spec()
    if reason := outside(algorithms.resolve(spec.algorithm), spec.settings):
        say(f"{spec.algorithm} runs outside its paper's setting: {reason}")
    return spec


def _recorded(
    recording: "Recording | None", done: "Finished", save: Path | None
) -> tuple[str | None, "HaltedError | None"]:
    """The id of the run that is recorded now, or the fault that kept it from being so: what was computed
    is shown first.
    """
    from suite.execution.stop_signal import HaltedError
    from suite.tracking.faults import StoreError

    if recording is None:
        return None, None
    try:
        return recording.record(done, save), None
    except HaltedError as error:
        return None, error
    except StoreError as error:
        say(f"the run is not recorded: {error}")
        return None, None


def _same(name: str, asked: str) -> bool:
    """Whether a configuration is of the algorithm that is asked for."""
    from trials import algorithms

    return asked == name or algorithms.is_named(name, algorithms.canonical(asked))


def _shown(recording: "Recording | None") -> "OnEvaluation":
    """Show each evaluation; what is refused for its data leaves no store, so that is begun at the first."""

    def evaluated(entry: dict[str, float]) -> None:
        if recording is not None:
            recording.begin()
        show_evaluation(entry)

    return evaluated


def _summary(done: "Finished", run_id: str | None) -> str:
    spec = done.spec
    metric = done.simulation.task.metric
    last = done.history[-1]
    params = " ".join(f"{key}={value}" for key, value in spec.params.items())
    return (
        f"{spec.algorithm} {params} on {spec.scenario}, seed "
        f"{spec.seed}: {done.ended}, test "
        f"{metric.replace('_', ' ')} "
        f"{done.test_score:.4f} (mean of the last {LAST} evaluations), {last['test_' + metric]:.4f} at the "
        f"end, {done.seconds:.1f} s"
    ) + (f", run {run_id}" if run_id else "")


def _beside(scores: dict[str, Any], seed: int, done: "Finished") -> str:
    """What the configuration's file says of the same statistic; "" where it does not."""
    name = f"test_{done.simulation.task.metric}"
    by_seed = scores.get("test_by_seed") or {}
    value = scores.get(name)
    if not isinstance(value, int | float):
        return ""
    own = by_seed.get(seed, by_seed.get(str(seed)))
    what = name.replace("_", " ")
    mine = f"; with seed {seed}: {own:.4f}" if isinstance(own, int | float) else ""
    return f"The configuration's {what}, mean of {len(by_seed)} seeds: {value:.4f}{mine}"


def show_evaluation(entry: dict[str, float]) -> None:
    """One line on standard error."""
    scores = [
        f"{k} {v:.4f}"
        for k, v in entry.items()
        if k == "train_loss"
        or k in {f"{part}_{task}" for part in ("val", "test") for task in TASKS}
    ]
    say(f"round {entry['round']:4d}  " + "  ".join(scores))
