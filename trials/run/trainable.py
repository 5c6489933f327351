"""A trial, or a pack of trials, as a Ray Tune trainable whose actor is reused for the next one."""

import gc
import math
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import ray
from ray import tune

from trials.common import plugins
from trials.common.device import take_part
from trials.common.tensors import torch
from trials.federated_data import FederatedData
from trials.run.checkpoint import Checkpoint, StorageError
from trials.run.outcome import Status
from trials.run.spec import PACK, TrialConfig, TrialSpec, unpacked
from trials.run.trial import RunningPack, load_dataset, partition_data

REPORTS = "reports"
"""The key, in a step's result, of the new part of each trial's `TrialResult`, by id."""
STATE = "state.pt"  # the file in the folder of one of Tune's checkpoints
KEPT = 16  # partitions that an actor keeps. A partition is indices; its samples are shared


class FederatedTrial(tune.Trainable):
    """A pack of one or more trials of a sweep, or one trial in a search by a user's script (`suite.trainable`).

    In a sweep Tune's `config` is `trials.run.spec.packed`, and no exception leaves a step: it would cost the actor. In a
    script's search `asked` makes the `TrialConfig` of Tune's `config`. A step returns the next evaluation, flat, with
    `status` and `val_score`: the mean of the last three validation scores, or the task's worst if the run diverged.
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
        sources: Mapping[str, bytes] | None = None,
        asked: Callable[[Mapping[str, Any]], TrialConfig] | None = None,
        data_root: str | None = None,
    ) -> None:
        """Set what all trials of the actor share, and the first of them. `datasets` are by `TrialSpec.dataset_key`,
        perhaps in Ray's object store, `sources` what is in third parties' files by their paths.
        """
        import_module("torch")  # two seconds of the actor's start, not of its first trial
        gc.freeze()  # else Python looks for garbage in all that torch is: a fifteenth of a trial
        for path, content in (sources or {}).items():
            plugins.supply(path, content)
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
        trial = self._running.trials[""]
        result, simulation = trial.advance(lambda: True), trial.simulation
        entry, status = simulation.history[-1], result.status
        value = result.intermediates.get(int(entry["round"]), math.nan)
        value = simulation.task.worst if status == Status.DIVERGED else value
        done = status != Status.RUNNING
        return {**entry, "val_score": value, "status": str(status), "done": done}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write the trial's state: tensors and plain values, nothing that runs code on load."""
        Checkpoint(str(Path(checkpoint_dir, STATE).resolve())).save(self._running.trials[""].save())

    def load_checkpoint(self, checkpoint: dict[str, Any] | str | None) -> None:
        """Continue from a checkpoint's folder; raise `StorageError` when its file is not there or damaged."""
        path = str(Path(str(checkpoint), STATE).resolve())
        if (saved := Checkpoint(path).load()) is None:
            raise StorageError(f"checkpoint {path} is not there")
        self._running.trials[""].load(saved)

    def _partitioned(self, spec: TrialSpec) -> FederatedData:
        """Return the data of a spec; all partitions of a data set share its samples."""
        key, dataset = spec.data_key, self._datasets.get(spec.dataset_key)
        if key not in self._data:
            if isinstance(dataset, ray.ObjectRef):
                dataset = ray.get(dataset)
            elif dataset is None:
                dataset = load_dataset(spec, self._data_root)
            self._datasets[spec.dataset_key] = dataset
            if len(self._data) == KEPT:
                self._data.clear()
            self._data[key] = partition_data(spec, dataset)
        return self._data[key]
