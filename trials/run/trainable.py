"""A Ray Tune trainable that runs one trial or a pack of trials; its actor is reused for further ones."""

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
"""The key in a step's result under which the reports (`TrialResult`) of a pack's trials stand, by trial id."""
STATE = "state.pt"  # the file in the folder of one of Tune's checkpoints
KEPT = 16  # partitions that an actor keeps; each is indices only, since they share the samples


class FederatedTrial(tune.Trainable):
    """A pack of one or more trials of a sweep, or one trial in a search by a user's script (`suite.trainable`).

    In a sweep no exception leaves a step, since Tune would end the actor. In a user's script a step returns the next
    evaluation as a flat dict, with `status` and `val_score`. The latter is the mean of the last three validation scores, or
    the task's worst value if the run diverged.
    """

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory | None:
        """Return the resources of a pack's first trial, which Ray reserves for the pack. Return None in a search by a user's own script."""
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
        """Prepare the actor and the first trials of `config`. `datasets` holds data sets by `TrialSpec.dataset_key`, loaded or as
        references to Ray's object store. `sources` holds the contents of third-party files by path. If a user's own script runs
        the search, `asked` turns `config` into a trial's configuration; in a sweep `asked` is None.
        """
        import_module("torch")  # so that its two seconds do not count for the first trial
        gc.freeze()  # else garbage collection walks all of torch's objects: 1/15 of a trial's time
        for path, content in (sources or {}).items():
            plugins.supply(path, content)
        self._datasets, self._asked, self._data_root = dict(datasets or {}), asked, data_root
        self._data: dict[str, FederatedData] = {}
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Replace the actor's trials by those of a new config, and keep partitioned data. Return True, as Tune expects."""
        configs = {"": self._asked(new_config)} if self._asked else unpacked(new_config)
        self._running = RunningPack(configs, self._partitioned)
        first = next(iter(configs.values()))
        if first.device == "cuda":
            torch.cuda.empty_cache()
            take_part(first.need.get("GPU", 1.0))
        return True

    def step(self) -> dict[str, Any]:
        """Run each trial to its next report, and return the reports. In a user's own script, return the next evaluation as a flat dict."""
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
        """Write the trial's state into Tune's folder. The file holds only tensors and plain values, so reading it runs no code."""
        Checkpoint(str(Path(checkpoint_dir, STATE).resolve())).save(self._running.trials[""].save())

    def load_checkpoint(self, checkpoint: dict[str, Any] | str | None) -> None:
        """Continue the trial from the checkpoint in a folder. Raise `StorageError` if the file is missing or damaged."""
        path = str(Path(str(checkpoint), STATE).resolve())
        if (saved := Checkpoint(path).load()) is None:
            raise StorageError(f"checkpoint {path} does not exist")
        self._running.trials[""].load(saved)

    def _partitioned(self, spec: TrialSpec) -> FederatedData:
        """Return a spec's partitioned data, and cache them. All partitions of a data set share its samples."""
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
