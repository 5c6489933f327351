"""A trial as it runs in a process, from its config or a checkpoint to one report after the other; and as a Ray Tune
trainable, whose actor is reused for the next one.
"""

import math
import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import ray
from ray import tune

from trials.common import plugins
from trials.common.device import take_part
from trials.common.tensors import torch
from trials.engine.pack import Pack
from trials.engine.training import Solver
from trials.federated_data import FederatedData
from trials.run.checkpoint import Checkpoint, StorageError
from trials.run.outcome import Status, TrialResult, shortened
from trials.run.saved_model import SavedModel
from trials.run.simulation import Simulation
from trials.run.spec import PACK, TrialConfig, TrialSpec, unpacked
from trials.run.trial import load_dataset, partition_data, result_of, simulate
from trials.scoring.metrics import score

REPORTS = "reports"
"""Where the result of a step has the `TrialResult` of each trial, the part of it that is new, by id."""
STATE = "state.pt"
"""The file in the folder of one of Tune's checkpoints."""
REPORT_SECONDS = 1.0
"""A step ends at the first evaluation after this long: a Tune report costs more than many rounds."""
KEPT = 16
"""Partitions that an actor keeps, oldest out first. A partition is indices; its samples are shared."""


class RunningPack:
    """Trials that begin together in one process, by id: one alone, or several that compute together.

    When a step ends besides at `TrialConfig.stops` depends on time and changes no number.
    """

    def __init__(
        self,
        configs: Mapping[str, TrialConfig],
        partition: Callable[[TrialSpec], FederatedData],
    ) -> None:
        self._pack = Pack() if len(configs) > 1 else None
        self.trials = {
            trial_id: RunningTrial(config, partition, self._pack)
            for trial_id, config in configs.items()
        }

    def step(self) -> dict[str, TrialResult]:
        """Run until half of the trials that go on have something to report, or a second is over; return what is
        new of each.
        """
        started, reports, going = time.monotonic(), 0, self.trials

        def due() -> bool:
            return time.monotonic() - started > REPORT_SECONDS or 2 * reports > len(going)

        def work(trial: RunningTrial) -> TrialResult:
            nonlocal reports
            result = trial.step(due)
            reports += 1
            return result

        works = [partial(work, trial) for trial in going.values()]
        results = self._pack.run(works) if self._pack else [work() for work in works]
        news = dict(zip(going, results, strict=True))
        self.trials = {i: going[i] for i in going if news[i].status == Status.RUNNING}
        return news


class RunningTrial:
    """The trial of a config, on data that `partition` gives, alone or in a pack."""

    def __init__(
        self,
        config: TrialConfig,
        partition: Callable[[TrialSpec], FederatedData],
        pack: Pack | None = None,
    ) -> None:
        self.config, self._partition = config, partition
        self._solver: Callable[..., Solver] = Solver if pack is None else pack.solver
        self._simulation: Simulation | None = None
        self._reported = 0
        self._scores: dict[int, float] = {}
        self._earlier: dict[int, float] = {}
        place, seconds = config.checkpoint, config.checkpoint_seconds
        self._checkpoint = Checkpoint(place, seconds) if place else None

    @property
    def simulation(self) -> Simulation:
        """Return the simulation, which is begun, or gone on with from the checkpoint, when it is first asked for."""
        if self._simulation is None:
            config = self.config
            self._simulation = simulate(
                config.trial,
                self._partition(config.trial),
                config.device,
                config.threads,
                config.memory_budget,
                self._solver,
                config.members,
            )
            saved = self._checkpoint.load() if self._checkpoint else None
            if saved is not None and saved["spec"] == config.trial.model_dump_json():
                self.load(saved)
        return self._simulation

    def step(self, due: Callable[[], bool]) -> TrialResult:
        """Run as `advance` does, but what fails is in the result, and raises nothing."""
        try:
            return self.advance(due)
        except StorageError as fault:
            return TrialResult(Status.HALTED, error=shortened(str(fault)))
        except Exception:
            return TrialResult(Status.FAILED, error=shortened(traceback.format_exc()))

    def advance(self, due: Callable[[], bool]) -> TrialResult:
        """Run the rounds up to the next of the config's stops, or to the first evaluation at which a report
        is `due`; where memory does not hold that many clients at once, from the last checkpoint on with half
        of them. Return the part of the result that was not reported yet.
        """
        try:
            return self._rounds(due)
        except torch.OutOfMemoryError:
            if self._simulation is None or not self._simulation.fed.half:
                raise
        self._simulation, self._scores, self._reported = None, {}, 0
        if self.config.device == "cuda":
            torch.cuda.empty_cache()
        fed = self.simulation.fed
        fed.halved = {"round": fed.round + 1, "chunk": fed.half}
        return self._rounds(due)

    def save(self) -> dict[str, Any]:
        """Return the state that a restart needs; the spec says whose it is."""
        spec = self.config.trial.model_dump_json()
        return {"spec": spec, "scores": self._scores, "simulation": self.simulation.save()}

    def load(self, saved: dict[str, Any]) -> None:
        """Continue from what `save` gave, perhaps of a trial with other hyperparameters."""
        self.simulation.load(saved["simulation"])
        self._scores, self._earlier = saved["scores"], dict(saved["scores"])

    def _rounds(self, due: Callable[[], bool]) -> TrialResult:
        simulation, config = self.simulation, self.config
        for entry in simulation.evaluations():
            if entry["round"] in config.stops or due():
                break
        value, at = score(simulation.history, f"val_{simulation.task.metric}"), simulation.fed.round
        if math.isfinite(value):
            self._scores[at] = self._earlier[at] = value
        result = result_of(simulation, self._reported)
        result.intermediates, self._earlier = self._earlier, {}
        self._reported = len(simulation.history)
        if result.status == Status.FINISHED and config.model is not None:
            Checkpoint(config.model).save(SavedModel.of(config.trial, simulation).content)
        if result.status == Status.RUNNING and self._checkpoint and self._checkpoint.due:
            self._checkpoint.save(self.save())
        return result


class FederatedTrial(tune.Trainable):
    """A pack of one or more trials of a sweep, or one trial in a search of a script's own (`suite.trainable`).

    In a sweep Tune's `config` is `trials.run.spec.packed`, and a step's result has what is new of each
    trial under `REPORTS`. An exception does not raise: it would cost the actor.

    In a script's search `asked` makes the `TrialConfig` of Tune's `config`. A step runs to the next evaluation
    and returns it as one flat dict: `round`, the metrics, the counters, `status`, and `val_score`, the mean of
    the last three evaluations on validation data. A run that diverged is done, with the worst finite score that
    its task has. Exceptions raise, and Tune's checkpoints hold what those of sweeps do.
    """

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory | None:
        """Return the resources that Ray sets aside for a pack: those of the first of its trials."""
        if PACK not in config:
            return None
        first, *_ = unpacked(config).values()
        return tune.PlacementGroupFactory([dict(first.need)])

    def setup(
        self,
        config: dict[str, Any],
        datasets: Mapping[str, Any] | None = None,
        sources: Mapping[str, str] | None = None,
        asked: Callable[[Mapping[str, Any]], TrialConfig] | None = None,
        data_root: str | None = None,
    ) -> None:
        """Take over what all trials of the actor share, and the first of them.

        `datasets` maps `TrialSpec.dataset_key` to a data set, or to one in Ray's object store; others are
        loaded from `data_root`. `sources` maps the paths of third parties' algorithm files to their text.
        """
        import_module("torch")  # two seconds of the actor's start, not of its first trial
        for path, text in (sources or {}).items():
            plugins.supply(path, text)
        self._datasets, self._asked, self._data_root = dict(datasets or {}), asked, data_root
        self._data: dict[str, FederatedData] = {}
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take over another trial, or pack; data that are already partitioned stay."""
        configs = {"": self._asked(new_config)} if self._asked else unpacked(new_config)
        self._running = RunningPack(configs, self._partitioned)
        first = next(iter(configs.values()))
        if first.device == "cuda":
            torch.cuda.empty_cache()
            take_part(first.need.get("GPU", 1.0))
        return True

    def step(self) -> dict[str, Any]:
        """Run the rounds up to the next report; of a pack, up to one of each trial."""
        if self._asked is None:
            news = self._running.step()
            return {REPORTS: news, "done": not self._running.trials}
        result, simulation = self._only.advance(lambda: True), self._only.simulation
        entry = simulation.history[-1]
        value = result.intermediates.get(int(entry["round"]), math.nan)
        return {
            **entry,
            "val_score": simulation.task.worst if result.status == Status.DIVERGED else value,
            "status": str(result.status),
            "done": result.status != Status.RUNNING,
        }

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write the trial's state: tensors and plain values, nothing that runs code on load."""
        Checkpoint(str(Path(checkpoint_dir, STATE).resolve())).save(self._only.save())

    def load_checkpoint(self, checkpoint: dict[str, Any] | str | None) -> None:
        """Continue from a checkpoint's folder; with the same config to the last bit. Raises
        `StorageError` when its file is not there or damaged.
        """
        path = Path(str(checkpoint), STATE).resolve()
        saved = Checkpoint(str(path)).load()
        if saved is None:
            raise StorageError(f"checkpoint {path} is not there")
        self._only.load(saved)

    @property
    def _only(self) -> RunningTrial:
        """Return the trial of a script's search."""
        return self._running.trials[""]

    def _partitioned(self, spec: TrialSpec) -> FederatedData:
        """Return the data of a spec; all partitions of a data set share its samples."""
        key, dataset = spec.data_key, self._datasets.get(spec.dataset_key)
        if isinstance(dataset, ray.ObjectRef):
            dataset = ray.get(dataset)
        if key not in self._data:
            if len(self._data) == KEPT:
                self._data.pop(next(iter(self._data)))
            dataset = load_dataset(spec, self._data_root) if dataset is None else dataset
            self._datasets[spec.dataset_key] = dataset
            self._data[key] = partition_data(spec, dataset)
        return self._data[key]
