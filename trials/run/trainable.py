"""A trial, or a pack of trials, as a Ray Tune trainable whose actor is reused for the next one."""

import math
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import ray
from ray import tune

from trials.common import plugins
from trials.common.memory import take_part
from trials.common.tensors import torch
from trials.datasets.base import Dataset
from trials.engine.pack import Pack
from trials.federated_data import FederatedData
from trials.run.checkpoint import Checkpoint, StorageError
from trials.run.outcome import Status
from trials.run.result import TrialResult
from trials.run.running import RunningTrial
from trials.run.spec import TrialSpec
from trials.run.trial import load_dataset, partition_data
from trials.run.trial_config import PACK, TrialConfig

REPORT_SECONDS = 1.0
"""A step ends at the first evaluation after this long: a Tune report costs more than many rounds."""

REPORTS = "reports"
"""Where the result of a pack's step has (trial id, result) of each of its trials."""
STATE = "state.pt"
"""The file in the folder of one of Tune's checkpoints."""
KEPT = 16
"""Partitions that an actor keeps, oldest out first. A partition is indices; its samples are shared."""


class FederatedTrial(tune.Trainable):
    """One trial, in a sweep or in a search of a script's own (`suite.trainable`); or a pack of a sweep's.

    In a sweep Tune's `config` is a `TrialConfig`, and a step's result the part of the `TrialResult` that is new;
    a pack's config has those of its trials under `PACK`, by trial id, and its result theirs under `REPORTS`. An
    exception does not raise: it would cost the actor. When a step ends besides at `TrialConfig.stops` depends on
    time and changes no number: a pack's waits for half of its trials to say something.

    In a script's search `asked` makes the `TrialConfig` of Tune's `config`. A step runs to the next evaluation
    and returns it as one flat dict: `round`, the metrics, the counters, `status`, and `val_score`, the mean of
    the last three evaluations on validation data. A run that diverged is done, with the worst finite score that
    its task has. Exceptions raise, and Tune's checkpoints hold what those of sweeps do.
    """

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory | None:
        """The resources that Ray sets aside for the trial, or for a pack: for one of its trials."""
        need = next(iter(config.get(PACK, {"": config}).values())).get("need")
        return tune.PlacementGroupFactory([dict(need)]) if need else None

    def setup(
        self,
        config: dict[str, Any],
        datasets: Mapping[str, Any] | None = None,
        sources: Mapping[str, str] | None = None,
        asked: Callable[[Mapping[str, Any]], TrialConfig] | None = None,
        data_root: str | None = None,
    ) -> None:
        """`datasets` maps `TrialSpec.dataset_key` to a data set, or to one in Ray's object store; others are
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
        self._pack = Pack() if PACK in new_config else None
        self._running: dict[str, RunningTrial] = {}
        self.change([], new_config.get(PACK, {"": new_config}))
        first = next(iter(self._running.values())).config
        if first.device == "cuda":
            torch.cuda.empty_cache()
            take_part(first.need.get("GPU", 1.0))
        return True

    def change(self, leaving: Collection[str], joining: Mapping[str, Mapping[str, Any]]) -> None:
        """Trials leave the pack before their end, and others join it."""
        for trial_id in leaving:
            del self._running[trial_id]
        for trial_id, config in joining.items():
            made = (self._asked or TrialConfig.of)(config)
            self._running[trial_id] = RunningTrial(made, self._partitioned, self._pack)

    def step(self) -> dict[str, Any]:
        """The rounds up to the next report; of a pack, up to one of each trial."""
        started, said, going = time.monotonic(), 0, dict(self._running)

        def due() -> bool:
            return time.monotonic() - started > REPORT_SECONDS or 2 * said > len(going)

        def work(running: RunningTrial) -> TrialResult:
            nonlocal said
            result = running.step(due)
            said += 1
            return result

        if self._asked is not None:
            return _flat(going[""])
        if self._pack is None:
            return work(going[""]).reported()
        results = self._pack.run([partial(work, running) for running in going.values()])
        told = [(name, result.reported()) for name, result in zip(going, results, strict=True)]
        for trial_id, reported in told:
            if reported["done"]:
                del self._running[trial_id]
        return {REPORTS: told}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write the trial's state: tensors and plain values, nothing that runs code on load."""
        Checkpoint(str(Path(checkpoint_dir, STATE).resolve())).save(self._running[""].save())

    def load_checkpoint(self, checkpoint: dict[str, Any] | str | None) -> None:
        """Continue from a checkpoint's folder; with the same config to the last bit. Raises
        `StorageError` when its file is not there or damaged.
        """
        path = Path(str(checkpoint), STATE).resolve()
        saved = Checkpoint(str(path)).load()
        if saved is None:
            raise StorageError(f"checkpoint {path} is not there")
        self._running[""].load(saved)

    def _partitioned(self, spec: TrialSpec) -> FederatedData:
        key = spec.data_key
        if key not in self._data:
            if len(self._data) == KEPT:
                self._data.pop(next(iter(self._data)))
            self._data[key] = partition_data(spec, self._loaded(spec))
        return self._data[key]

    def _loaded(self, spec: TrialSpec) -> Dataset:
        """The data set, one object for all partitions, which share its samples."""
        found = self._datasets.get(spec.dataset_key)
        if found is None:
            found = load_dataset(spec, self._data_root)
        elif isinstance(found, ray.ObjectRef):
            found = ray.get(found)
        self._datasets[spec.dataset_key] = found
        return found


def _flat(running: RunningTrial) -> dict[str, Any]:
    """The rounds up to the next evaluation, as a script's search reads it."""
    result, task = running.advance(lambda: True), running.simulation.task
    entry = running.simulation.history[-1]
    value = result.intermediates.get(int(entry["round"]), math.nan)
    return {
        **entry,
        "val_score": task.worst if result.status == Status.DIVERGED else value,
        "status": str(result.status),
        "done": result.status != Status.RUNNING,
    }
