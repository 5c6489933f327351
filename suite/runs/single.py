"""Single runs outside a sweep: `suite run` and `suite replay`."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reports.table import frame
from suite.console import say
from suite.execution.stop_signal import HaltedError
from suite.results.table import CURVES, PLAIN
from suite.results.tables import history_of, records, spec_of
from suite.runs.saving import save
from suite.tracking import usual
from suite.tracking.faults import StoreError
from suite.tracking.schema.tags import RunKind, run_tags, spec_params
from trials.common import plugins
from trials.common.device import look, name_of
from trials.common.errors import UserError
from trials.federated_data import FederatedData
from trials.run import trial
from trials.run.outcome import Status, TrialResult
from trials.run.saved_model import SavedModel
from trials.run.simulation import Simulation
from trials.run.spec import TrialSpec
from trials.run.trial import result_of
from trials.scoring.metrics import DERIVED, LAST
from trials.settings import Settings

if TYPE_CHECKING:
    import pandas as pd

    from reports.page.notebook import Plot
    from suite.results.tables import Tables
    from suite.tracking.store import Store

OnEvaluation = Callable[[dict[str, float]], None]
EXPERIMENT = "runs"
"""The MLflow experiment of runs that belong to no study."""
TIMES = ("round_seconds", "evaluation_seconds")
ROUNDING = {"float64": 1e-6, "float32": 1e-2, "tf32": 5e-2, "bf16": 5e-2}
"""What devices may differ by after training in each precision, where rounding has grown."""


@dataclass(frozen=True)
class Finished:
    """A run that is over. `history` has one flat dict an evaluation, the untrained model's (round 0)
    first; `document` is the JSON of `suite run`.
    """

    spec: TrialSpec
    simulation: Simulation
    seconds: float

    @property
    def data(self) -> FederatedData:
        """The partitioned data."""
        return self.simulation.fed.data

    @property
    def history(self) -> list[dict[str, float]]:
        """All evaluations: metrics on test and validation data, and counters since round 1."""
        return self.simulation.history

    @property
    def status(self) -> Status:
        """Finished, or diverged."""
        return self.result.status

    @property
    def val_score(self) -> float:
        """The mean of the last three evaluations on validation data, NaN without any; of a run that
        diverged the untrained model's.
        """
        return self._score("val")

    @property
    def test_score(self) -> float:
        """The same on test data, as leaderboards count it."""
        return self._score("test")

    def _score(self, part: str) -> float:
        return self.result.score(f"{part}_{self.simulation.task.metric}")

    @property
    def ended(self) -> str:
        """How and when it ended: `finished after 30 rounds`."""
        rounds = self.result.last_round
        return f"{self.status} after {rounds} {'round' if rounds == 1 else 'rounds'}"

    def __repr__(self) -> str:
        params = " ".join(f"{key}={value}" for key, value in self.spec.params.items())
        return (
            f"{self._name} with {params}: {self.ended}, test "
            f"{self.simulation.task.metric.replace('_', ' ')} {self.test_score:.4f} (mean of the last {LAST} evaluations)"
        )

    def _repr_html_(self) -> str:
        from reports.document import Text
        from reports.page.notebook import html
        from reports.table import Column, table

        metric = self.simulation.task.metric
        names = ["round", f"val_{metric}", f"test_{metric}", "train_loss"]
        rows = [[f"{e[n]:.6g}" if n in e else "" for n in names] for e in self.history]
        columns = [Column(name.replace("_", " ")) for name in names]
        return html([Text(repr(self)), table(columns, rows)])

    def plot(self) -> "Plot":
        """Its scores against rounds, which a notebook shows."""
        from reports.page.notebook import run_plot

        return run_plot(self._name, self.history, self.simulation.task.metric)

    @property
    def _name(self) -> str:
        return f"{self.spec.algorithm} on {self.spec.scenario}, seed {self.spec.seed}"

    def to_pandas(self) -> "pd.DataFrame":
        """The history, a row an evaluation."""
        return frame(self.history)

    def record(self, storage: Path | str = "runs", tracking_uri: str | None = None) -> str:
        """Record it in the MLflow experiment `runs`, as the command does; the run's id.

        Raises `UserError` when the store cannot be written.
        """
        return Recording(usual(tracking_uri), Path(storage)).record(self)

    def save(self, folder: Path | str) -> None:
        """Keep the final server model, and clients' own, in a folder, for `suite.load_model`; raises
        `UserError` where the folder holds anything else, or cannot be written.
        """
        save(SavedModel.of(self.spec, self.simulation), Path(folder))

    @property
    def result(self) -> TrialResult:
        """The result, as it is recorded."""
        return replace(result_of(self.simulation), seconds=self.seconds)

    def document(self) -> dict[str, Any]:
        """The JSON of `suite run`: what was run, and its history."""
        spec = self.spec
        return {
            "algorithm": spec.algorithm,
            "params": spec.params,
            **spec.scenario.names(),
            "seed": spec.seed,
            "rounds": spec.settings.rounds,
            "settings": spec.settings.model_dump(mode="json"),
            "status": self.status,
            "partition_fingerprint": self.data.fingerprint,
            "history": self.history,
            "seconds": round(self.seconds, 3),
            "execution": self.simulation.fed.execution,
            "chunk": self.simulation.fed.chunk,
            "device": name_of(self.simulation.fed.device),
            "evaluation_share": round(self.evaluation_share, 3),
        }

    @property
    def evaluation_share(self) -> float:
        """The share of the loop's time that evaluations took."""
        history, done, total = self.history, 0.0, 0.0
        for before, entry in pairwise(history):
            rounds = entry["round"] - before["round"]
            done += entry["evaluation_seconds"]
            total += entry["evaluation_seconds"] + rounds * entry["round_seconds"]
        return done / total if total else 0.0


def execute(
    spec: TrialSpec,
    data_root: str | None,
    device: str,
    on_evaluation: OnEvaluation,
    memory: float | None = None,
    halved: dict[str, int] | None = None,
) -> Finished:
    """Run a spec to its end in this process; `memory` is its budget in bytes, `halved` as recorded."""
    started = time.perf_counter()

    def tell(note: str) -> None:
        say(f"{spec.dataset}, {spec.heterogeneity}: {note}")

    simulation, _ = trial.run(spec, data_root, device, on_evaluation, memory, halved, tell)
    return Finished(spec, simulation, time.perf_counter() - started)


class Recording:
    """Where a run outside any sweep is recorded; the store is opened in a thread, beside the run.

    MLflow is imported before that thread starts: two threads that import one package at a time can each
    meet half of it.
    """

    def __init__(self, tracking_uri: str | None, storage: Path) -> None:
        self._place = tracking_uri, storage
        self._pending: Future[Store] | None = None

    def begin(self) -> "Future[Store]":
        """Open the store, which is made where there is none, unless that has begun; raises `UserError`
        when it is known by now that it cannot be.
        """
        if self._pending is None:
            from suite.tracking.store import Store, load_mlflow

            load_mlflow(self._place[0])
            self._pending = ThreadPoolExecutor(1).submit(Store, *self._place)
        elif self._pending.done():
            self._pending.result()
        return self._pending

    def record(self, run: Finished, model: Path | None = None) -> str:
        """Record a run, and the model that was saved of it in a folder; its id. Raises `HaltedError` where
        the store does not take it any more, and `StoreError` where it refuses it.
        """
        spec, store = run.spec, self.begin().result()

        tags = run_tags(RunKind.RUN, spec, run.result)
        name, run_id = f"{spec.algorithm} · {spec.scenario} · seed {spec.seed}", ""
        try:
            run_id = store.create(store.experiment(EXPERIMENT), name, tags, seconds=run.seconds)
            store.log(run_id, spec_params(spec), run.history)
            if model is not None:
                store.attach(run_id, model, "model")
            store.set_status(run_id, "FINISHED")
        except StoreError as error:
            if not error.passes:
                if run_id:
                    store.delete(run_id)
                raise
            raise HaltedError(
                f"tracking store {store.uri} did not accept the run: {error.reason}",
                "What it measured is shown, and is not recorded: run it again when that is mended.",
            ) from None
        return run_id


class Replay(NamedTuple):
    """A recorded run run again: what differs, whether only rounding had to agree, and why; whether it is
    `exact`, every bit the same.
    """

    run: Finished
    differences: list[str]
    near: str
    exact: bool


class RecordedRun(NamedTuple):
    """A run as it was recorded: its `name` in messages, what it ran, how it `ran` (`suite.tracking.schema.tags.run_tags`), and
    the evaluations of what is compared.
    """

    name: str
    spec: TrialSpec
    ran: Mapping[str, Any]
    history: Sequence[Mapping[str, float]]

    @classmethod
    def run(cls, store: "Store", run_id: str) -> "RecordedRun":
        """Read one of MLflow's; raises `UserError` for one that is none of a trial."""
        record = store.get(run_id)
        name = f"run {record.run_id}"
        if "spec" not in record.tags:
            kind = record.tags.get("kind", "foreign")
            raise UserError(
                f"{name} is a {kind} run: only search, final and run can be replayed. A specification that is too long "
                "for MLflow is in the table of its sweep (docs/table.md)"
            )
        try:
            spec = TrialSpec.model_validate_json(record.tags["spec"])
            ran = json.loads(record.tags["ran"])
        except (KeyError, ValueError):
            raise UserError(f"{name}: its tag suite.spec or suite.ran cannot be read") from None
        measured = record.metrics.keys() - {*TIMES, *DERIVED}
        return cls(name, spec, ran, store.curve(record, measured))

    @classmethod
    def row(cls, row: Mapping[str, Any], code: Mapping[str, str]) -> "RecordedRun":
        """Take a row of a table, with its curves; `code` are the SHA-256 of others' code by name."""
        spec = spec_of(row)
        ran = {name: row[name] for name in ("execution", "device") if row[name]}
        ran["fingerprint"] = row["partition_fingerprint"]
        if row["chunk"] == row["chunk"]:
            ran["chunk"] = int(row["chunk"])
        if row["halved"]:
            ran["halved"] = json.loads(row["halved"])
        ran["code"] = {name: code[name] for name in spec.code if name in code}
        columns = CURVES[1:]
        return cls(f"trial {row['trial_id']}", spec, ran, history_of(row, columns))


def sample(tables: "Tables", count: int, seed: int | None = None) -> list[RecordedRun]:
    """Return a random sample of the trials of tables that ran to their end."""
    names = [*PLAIN, *CURVES]
    rows = tables.frame(names)
    rows = rows[rows["status"] == "finished"]
    facts = tables.facts
    drawn = rows.sample(min(count, len(rows)), random_state=seed)
    return [RecordedRun.row(row, facts[row["sweep"]].code) for row in records(drawn)]


def replay(recorded: RecordedRun, data_root: str | None, on_evaluation: OnEvaluation) -> Replay:
    """Run a recorded run again, on the device of the record; the metrics whose values differ in any bit
    (times aside). On another device, where that one is not at hand, those that differ by more than
    rounding: `ROUNDING` of the value, or of 1 where that is more.

    A search trial that was stopped early is compared up to where it was. It is computed as it was
    then: with the recorded execution and chunk, whatever is the default here.
    """
    spec, ran = recorded.spec, recorded.ran
    plugins.refuse_changed(ran.get("code", {}), recorded.name)
    how = {name: ran[name] for name in ("execution", "chunk") if name in ran}
    same = Settings.model_validate(spec.settings.model_dump() | how)
    again = spec.model_copy(update={"settings": same})
    device, near = _device_for(ran.get("device", "cpu"))
    run = execute(again, data_root, device, on_evaluation, halved=ran.get("halved"))
    differences = _differences(recorded, run, 0.0)
    exact = not differences
    if near and not exact:
        differences = _differences(recorded, run, ROUNDING[same.dtype])
    return Replay(run, differences, near, exact)


def _device_for(recorded: str) -> tuple[str, str]:
    """The device to repeat a run on that was computed on `recorded`, and how it is another one."""
    if recorded == "cpu":
        return "cpu", ""
    _, cards = look()
    here = "cuda" if cards else "cpu"
    name = cards[0][0] if cards else "cpu"
    if name == recorded:
        return here, ""
    return here, f"computed on {recorded}, repeated on {name}: other devices agree only to rounding"


def _differences(recorded: RecordedRun, run: Finished, tolerance: float) -> list[str]:
    found = []
    if recorded.ran.get("fingerprint") != run.data.fingerprint:
        found.append("partition_fingerprint: the data or their partition are not the same")
    rounds: dict[int, dict[str, float]] = {int(e["round"]): e for e in run.history}
    for entry in recorded.history:
        for metric in sorted(entry.keys() - {"round"}):
            value, now = entry[metric], rounds.get(int(entry["round"]), {}).get(metric)
            if now != value and not _near(now, value, tolerance):
                found.append(f"{metric} at round {entry['round']}: recorded {value!r}, now {now!r}")
    return found


def _near(now: float | None, value: float, tolerance: float) -> bool:
    return now is not None and abs(now - value) <= tolerance * max(1.0, abs(value))
