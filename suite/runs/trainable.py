"""An algorithm as an ordinary Ray Tune trainable, for scripts with a search of their own.

    tune.Tuner(
        trainable("folb", heterogeneity="dirichlet(0.1)"),
        param_space={"mu": tune.loguniform(1e-3, 1), "lr": tune.loguniform(0.01, 1)},
        tune_config=tune.TuneConfig(metric="val_score", mode="max", num_samples=20),
    )

The suite's own sweeps do not use it: they report more rarely and keep their own journal.
"""

import os
from collections.abc import Mapping
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from ray import tune

from suite.runs.request import Request
from suite.studies.validation import Faults
from trials.common import plugins
from trials.datasets.base import Dataset
from trials.run.checkpoint import Checkpoint, StorageError
from trials.run.outcome import Status
from trials.run.simulation import Simulation
from trials.run.spec import TrialSpec
from trials.run.trial import fit_model, load_dataset, partition_data, simulate
from trials.scoring.metrics import score

STATE = "state.pt"
"""The file in a checkpoint's folder."""


class FederatedTrainable(tune.Trainable):
    """One trial, whose `config` holds hyperparameters or settings by name, and perhaps `seed`.

    A step runs to the next evaluation and returns it as one flat dict: `round`, the metrics, the
    counters, `status`, and `val_score`, the mean of the last three evaluations on validation data.
    A run that diverged is done, with the worst finite score that its task has.
    """

    def setup(
        self,
        config: dict[str, Any],
        request: Request | None = None,
        dataset: tuple[str, Dataset] | None = None,
        data_root: str | None = None,
        device: str = "cpu",
        sources: Mapping[str, str] | None = None,
    ) -> None:
        """`config` goes over `request`; `dataset` is its data set with its key, `sources` the text of
        a third party's algorithm file by path. Raises `UserError` for a config that cannot be run.
        """
        assert request is not None
        assert dataset is not None
        for path, text in (sources or {}).items():
            plugins.supply(path, text)
        self._request, self._dataset = request, dataset
        self._data_root, self._device = data_root, device
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take over another trial, or the same with other values."""
        values = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in new_config.items()
        }
        seed = values.pop("seed", self._request.seed)
        # Tune runs a trial in a folder of its own; a relative path is meant from where Tune began.
        with chdir(os.environ.get("TUNE_ORIG_WORKING_DIR", ".")):
            spec = replace(self._request, values=values, seed=seed).spec()
        self._simulation = simulate(spec, partition_data(spec, self._loaded(spec)), self._device)
        return True

    def _loaded(self, spec: TrialSpec) -> Dataset:
        """The data set that all trials share, unless the config asks for another number of clients."""
        key, dataset = self._dataset
        return dataset if key == spec.dataset_key else load_dataset(spec, self._data_root)

    def step(self) -> dict[str, Any]:
        """The rounds up to the next evaluation."""
        simulation = self._simulation
        entry = simulation.history[-1] if simulation.finished else simulation.advance()
        return {
            **entry,
            "val_score": self._score(simulation),
            "status": str(_status(simulation)),
            "done": simulation.finished,
        }

    def _score(self, simulation: Simulation) -> float:
        task = simulation.task
        if simulation.diverged:
            return task.worst
        return score(simulation.history, f"val_{task.metric}")

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write the simulation's state: tensors and plain values, nothing that runs code on load."""
        Checkpoint(str(Path(checkpoint_dir, STATE).resolve())).save(self._simulation.save())

    def load_checkpoint(self, checkpoint: dict[str, Any] | str | None) -> None:
        """Continue from a checkpoint's folder; with the same config to the last bit. Raises
        `StorageError` when its file is not there or damaged.
        """
        path = Path(str(checkpoint), STATE).resolve()
        saved = Checkpoint(str(path)).load()
        if saved is None:
            raise StorageError(f"checkpoint {path} is not there")
        self._simulation.load(saved)


def _status(simulation: Simulation) -> Status:
    if simulation.diverged:
        return Status.DIVERGED
    return Status.FINISHED if simulation.finished else Status.RUNNING


def trainable(request: Request, data_root: str | None, device: str) -> type[tune.Trainable]:
    """The trainable of a request, for `tune.Tuner`. Its data set is loaded here, once, and shared by
    all trials through Ray's object store.

    Raises `UserError` for a request that cannot be run as it stands, on a device of this name.
    """
    spec = request.spec()
    faults = Faults("trainable")
    if spec.settings.val_fraction == 0:
        rule = "a search needs validation data, so it must be above 0"
        faults.add("settings.val_fraction", 0, rule)
    faults.check()
    data_root = None if data_root is None else str(Path(data_root).expanduser().resolve())
    dataset = load_dataset(spec, data_root)
    clients = partition_data(spec, dataset).clients
    spec.configured().check(clients, fit_model(spec, dataset, device), spec.settings)
    made: type[tune.Trainable] = tune.with_parameters(
        FederatedTrainable,
        request=replace(request, algorithm=spec.algorithm, scenario=spec.scenario),
        dataset=(spec.dataset_key, dataset),
        data_root=data_root,
        device=device,
        sources=plugins.sources(spec.code),
    )
    return made
