"""Single runs in this process, outside a sweep: `suite run` and `suite replay`."""

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reports.table import frame
from suite.console import say
from suite.results.table import CURVES, PLAIN, history_of, spec_of
from suite.tracking import StoreError, usual
from suite.tracking.tags import RunKind, run_tags, spec_params
from suite.yaml_files import writing
from trials.common import plugins
from trials.common.device import look
from trials.common.errors import UserError
from trials.common.mappings import only
from trials.run import trial
from trials.run.outcome import Status, TrialResult
from trials.run.saved_model import CARD, SavedModel
from trials.run.simulation import Simulation
from trials.run.spec import TrialSpec
from trials.scoring.metrics import DERIVED, LAST
from trials.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

    from reports.page.notebook import Plot
    from suite.results.table import Tables
    from suite.tracking.store import Store

OnEvaluation = Callable[[dict[str, float]], None]
EXPERIMENT = "runs"
"""The MLflow experiment for runs outside a study."""
UNEQUAL = {"round_seconds", "evaluation_seconds", *DERIVED}
"""Metrics that replays do not compare: times, and metrics derived from others."""
ROUNDING = {"float64": 1e-6, "float32": 1e-2, "tf32": 5e-2, "bf16": 5e-2}
"""The allowed difference of a metric between devices, by precision, relative to the metric, or to 1 if the metric is smaller."""


@dataclass(frozen=True)
class Finished:
    """A run that has ended: its specification, its simulation, and its result in the form that is recorded."""

    spec: TrialSpec
    simulation: Simulation
    result: TrialResult

    @property
    def history(self) -> list[dict[str, float]]:
        """Return the metrics and cumulative costs of each evaluation, from round 0 on."""
        return self.simulation.history

    @property
    def status(self) -> Status:
        """Return `finished` or `diverged`."""
        return self.result.status

    @property
    def val_score(self) -> float:
        """Return the mean of the last three validation scores, NaN without validation data. After divergence, return the untrained model's score."""
        return self.result.score(f"val_{self.simulation.task.metric}")

    @property
    def test_score(self) -> float:
        """Return the mean of the last three test scores. If the run diverged, return the untrained model's score."""
        return self.result.score(f"test_{self.simulation.task.metric}")

    def __repr__(self) -> str:
        spec, metric = self.spec, self.simulation.task.metric.replace("_", " ")
        params = " ".join(f"{key}={value}" for key, value in spec.params.items())
        rounds = f"{self.result.last_round} round{'s' * (self.result.last_round != 1)}"
        return (
            f"{spec.algorithm} on {spec.scenario}, seed {spec.seed} with {params}: {self.status} after {rounds}, "
            f"test {metric} {self.test_score:.4f} (mean of the last {LAST} evaluations)"
        )

    def plot(self) -> "Plot":
        """Return a chart of the scores in each round, for display in a notebook."""
        from reports.page.notebook import run_plot

        name = f"{self.spec.algorithm} on {self.spec.scenario}"
        return run_plot(name, self.history, self.simulation.task.metric)

    def to_pandas(self) -> "pd.DataFrame":
        """Return the history as a data frame with a row per evaluation."""
        return frame(self.history)

    def record(
        self,
        storage: Path | str = "runs",
        tracking_uri: str | None = None,
        model: Path | None = None,
    ) -> str:
        """Record the run in the MLflow experiment `runs`, and return the id of the MLflow run. `model` is the folder of a
        saved model to record as well. Raise `UserError` if the store cannot be written.
        """
        from suite.tracking.store import Store

        store, spec = Store(usual(tracking_uri), Path(storage)), self.spec
        name = f"{spec.algorithm} · {spec.scenario} · seed {spec.seed}"
        tags, experiment = run_tags(RunKind.RUN, spec, self.result), store.experiment(EXPERIMENT)
        run_id = store.create(experiment, name, tags, seconds=self.result.seconds)
        try:
            store.log(run_id, spec_params(spec), self.history)
            if model is not None and store.takes_files:
                store.client.log_artifacts(run_id, str(model), "model")
            store.set_status(run_id, "FINISHED")
        except StoreError:
            with suppress(StoreError):
                store.delete(run_id)
            raise
        return run_id

    def save(self, folder: Path | str) -> None:
        """Save the final models in a folder that `suite.load_model` reads. Raise `UserError` if the folder holds other files."""
        folder = Path(folder)
        check_folder(folder)
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            SavedModel.of(self.spec, self.simulation).files(folder)


def execute(
    spec: TrialSpec,
    data_root: str | None,
    device: str,
    on_evaluation: OnEvaluation,
    memory: float | None = None,
    halved: dict[str, int] | None = None,
) -> Finished:
    """Run a specification to its end in this process. The clients computed at once may take `memory` bytes. To repeat a run
    that ran out of memory, pass `halved={"round": r, "chunk": c}`: from round r on, only c clients are computed at once.
    """
    started = time.perf_counter()

    def evaluated(entry: dict[str, float]) -> None:
        nonlocal started  # the time of the callback, which may open a store, does not count
        began = time.perf_counter()
        on_evaluation(entry)
        started += time.perf_counter() - began

    simulation, data = trial.run(spec, data_root, device, evaluated, memory, halved)
    seconds = time.perf_counter() - started
    if data.note:
        say(f"{spec.dataset}, {spec.heterogeneity}: {data.note}")
    return Finished(spec, simulation, replace(trial.result_of(simulation), seconds=seconds))


def check_folder(folder: Path) -> None:
    """Raise `UserError` if a folder has files but no saved model, or cannot be read."""
    with writing(folder):
        if folder.exists() and any(folder.iterdir()) and not (folder / CARD).exists():
            raise UserError(f"cannot save a model in {folder}: it holds other files")


class RecordedRun(NamedTuple):
    """A recorded run: its `name` in messages, how it `ran` (such as on which device), and the history to compare."""

    name: str
    spec: TrialSpec
    ran: Mapping[str, Any]
    history: Sequence[Mapping[str, float]]


def recorded_run(store: "Store", run_id: str) -> RecordedRun:
    """Return the MLflow run whose id begins with `run_id`. Raise `UserError` if none or several do, or if the run cannot be replayed."""
    record = store.get(run_id)
    name = f"run {record.run_id}"
    try:
        spec = TrialSpec.model_validate_json(record.tags["spec"])
        ran = json.loads(record.tags["ran"])
    except (KeyError, ValueError):
        raise UserError(
            f"{name} cannot be replayed: it has no tags suite.spec and suite.ran. Where a specification is too long for "
            "MLflow, the table of its sweep has it (docs/table.md)"
        ) from None
    return RecordedRun(name, spec, ran, store.curve(record, record.metrics.keys() - UNEQUAL))


def sample(tables: "Tables", count: int) -> Iterator[RecordedRun]:
    """Yield at most `count` finished trials, drawn at random from the tables without replacement."""
    rows = tables.frame([*PLAIN, *CURVES])
    rows = rows[rows["status"] == "finished"]
    for row in rows.sample(min(count, len(rows))).to_dict("records"):
        spec, code = spec_of(row), tables.facts[row["sweep"]].code
        ran = {key: row[key] for key in ("execution", "device") if row[key]}
        if row["chunk"] == row["chunk"]:  # NaN if all clients were computed at once
            ran["chunk"] = int(row["chunk"])
        ran["halved"] = json.loads(row["halved"] or "{}")
        ran["fingerprint"] = row["partition_fingerprint"]
        ran["code"] = only(code, spec.code)
        history = history_of(row, CURVES[1:])
        yield RecordedRun(f"trial {row['trial_id']}", spec, ran, history)


class Replay(NamedTuple):
    """The repetition of a recorded run, with the differences. `near` says why rounding errors are allowed, "" if they are not."""

    run: Finished
    differences: list[str]
    near: str

    @property
    def exact(self) -> bool:
        """Return whether the repeated run was compared bit by bit, and equals the recorded run."""
        return not (self.near or self.differences)


def replay(recorded: RecordedRun, data_root: str | None, on_evaluation: OnEvaluation) -> Replay:
    """Repeat a recorded run, and compare its metrics at each recorded round. The metrics must agree in every bit, but on
    another device rounding errors are allowed. Raise `UserError` if third-party code has changed.
    """
    spec, ran = recorded.spec, recorded.ran
    plugins.refuse_changed(ran.get("code", {}), recorded.name)
    recorded_as = only(ran, ("execution", "chunk"))
    settings = Settings.model_validate(spec.settings.model_dump() | recorded_as)
    recorded_on = ran.get("device", "cpu")
    cards = look()[1] if recorded_on != "cpu" else []
    device, run_on = ("cuda", cards[0][0]) if cards else ("cpu", "cpu")
    near, tolerance = "", 0.0
    if run_on != recorded_on:
        near = f"computed on {recorded_on}, repeated on {run_on}: equal only up to rounding"
        tolerance = ROUNDING[settings.dtype]
    spec = spec.model_copy(update={"settings": settings})
    run = execute(spec, data_root, device, on_evaluation, halved=ran.get("halved"))
    differences = []
    if ran.get("fingerprint") != run.simulation.fed.data.fingerprint:
        differences.append("partition_fingerprint: the data or their partition are not the same")
    rounds = {int(entry["round"]): entry for entry in run.history}
    for entry in recorded.history:
        repeated = rounds.get(int(entry["round"]), {})
        for metric in sorted(entry.keys() - {"round"}):
            old, new = entry[metric], repeated.get(metric, math.nan)
            # Written so that a missing value, which is NaN, differs.
            if not (new == old or abs(new - old) <= tolerance * max(1.0, abs(old))):
                where = f"{metric} at round {entry['round']}"
                differences.append(f"{where}: recorded {old!r}, now {new!r}")
    return Replay(run, differences, near)
