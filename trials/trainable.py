"""A trial as a Ray Tune trainable whose actor is reused for the next one."""

import time
import traceback
from importlib import import_module
from typing import Any

import ray
from ray import tune

from trials import algorithms
from trials.checkpoint import Checkpoint, StorageError
from trials.datasets.base import Dataset
from trials.federated_data import FederatedData
from trials.memory import take_part
from trials.metrics import score
from trials.outcome import Report, Status
from trials.saved_model import SavedModel
from trials.simulation import Simulation
from trials.spec import TrialSpec
from trials.tensors import torch
from trials.trial import deal_data, simulate
from trials.trial_config import TrialConfig

REPORT_SECONDS = 1.0
"""A step ends at the first evaluation after this long: a Tune report costs more than many rounds."""

KEPT = 16
"""Deals that an actor keeps, oldest out first. A deal is indices; its samples are shared."""


class FederatedTrial(tune.Trainable):
    """Runs the trial of a `TrialConfig`, and returns a `Report` as the result of each step.

    When a step ends besides at `TrialConfig.stops` depends on time and changes no number. An exception
    does not raise: it would cost the actor.
    """

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
        """The resources that Ray sets aside for the trial."""
        return tune.PlacementGroupFactory([dict(TrialConfig.of(config).need)])

    def setup(
        self,
        config: dict[str, Any],
        datasets: dict[str, Any] | None = None,
        sources: dict[str, str] | None = None,
    ) -> None:
        """`datasets` maps `TrialSpec.dataset_key` to a data set in Ray's object store, `sources` the
        paths of third parties' algorithm files to their text.
        """
        import_module("torch")  # two seconds of the actor's start, not of its first trial
        for path, text in (sources or {}).items():
            algorithms.supply(path, text)
        self._datasets = datasets or {}
        self._samples: dict[str, Dataset] = {}
        self._data: dict[str, FederatedData] = {}
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take over another trial; data that are already dealt stay."""
        self._simulation: Simulation | None = None
        self._reported, self._afresh = 0, False
        self._scores: dict[int, float] = {}
        self._earlier: list[tuple[int, float]] = []
        self._config = TrialConfig.of(new_config)
        self._spec = self._config.trial
        place, seconds = self._config.checkpoint, self._config.checkpoint_seconds
        self._checkpoint = Checkpoint(place, seconds) if place else None
        if self._config.device == "cuda":
            torch.cuda.empty_cache()
            take_part(self._config.need.get("GPU", 1.0))
        return True

    def step(self) -> dict[str, Any]:
        """The rounds up to the next report."""
        try:
            report = self._step() or self._step_halved()
        except StorageError as fault:
            report = Report(Status.HALTED, error=str(fault))
        except Exception:
            report = Report(Status.FAILED, error=traceback.format_exc())
        return report.result()

    def _step(self) -> Report | None:
        """A step; None where memory does not hold as many clients at once, and may hold half."""
        try:
            return self._rounds()
        except torch.OutOfMemoryError:
            if self._simulation is None or not self._simulation.half:
                raise
        return None

    def _step_halved(self) -> Report:
        """The step from the last checkpoint on, half as many clients at once."""
        self._simulation = None
        if self._config.device == "cuda":
            torch.cuda.empty_cache()
        self._started().halve()
        self._reported, self._afresh = 0, True
        return self._rounds()

    def _rounds(self) -> Report:
        simulation, config = self._started(), self._config
        started, stops = time.monotonic(), {*config.stops, config.pause}
        while not simulation.finished:
            entry = simulation.advance()
            if entry["round"] in stops or time.monotonic() - started > REPORT_SECONDS:
                break
        report = self._report(simulation)
        self._scores[report.round] = report.val_score
        if report.status == Status.FINISHED and config.model is not None:
            Checkpoint(config.model).save(SavedModel.of(self._spec, simulation).content)
        if report.status == Status.PAUSED:
            assert config.paused is not None
            Checkpoint(config.paused).save(self._state())
        elif report.status == Status.RUNNING and self._checkpoint and self._checkpoint.due:
            self._checkpoint.save(self._state())
        return report

    def _report(self, simulation: Simulation) -> Report:
        """The report of all that was not reported yet."""
        news, self._reported = simulation.history[self._reported :], len(simulation.history)
        earlier, self._earlier = self._earlier, []
        afresh, self._afresh = self._afresh, False
        if simulation.finished:
            status = Status.DIVERGED if simulation.diverged else Status.FINISHED
        else:
            pauses = simulation.fed.round == self._config.pause
            status = Status.PAUSED if pauses else Status.RUNNING
        task = simulation.fed.data.dataset.task
        return Report(
            status,
            simulation.fed.round,
            score(simulation.history, f"val_{task.metric}"),
            news,
            earlier,
            simulation.fed.data.fingerprint,
            simulation.fed.execution,
            simulation.fed.chunk,
            simulation.fed.halved,
            afresh,
        )

    def _state(self) -> dict[str, Any]:
        """The state that a restart needs; the spec says whose it is."""
        spec = self._spec.model_dump_json()
        return {"spec": spec, "scores": self._scores, "simulation": self._started().save()}

    def _started(self) -> Simulation:
        if self._simulation is None:
            config = self._config
            self._simulation = simulate(
                self._spec, self._dealt(), config.device, config.threads, config.memory_budget
            )
            begins = Checkpoint(config.begins) if config.begins else None
            for checkpoint in filter(None, [self._checkpoint, begins]):
                saved = checkpoint.load()
                if saved is not None and self._continues(saved):
                    self._simulation.load(saved["simulation"])
                    self._scores = saved["scores"]
                    self._earlier = list(self._scores.items())
                    break
        return self._simulation

    def _continues(self, saved: dict[str, Any]) -> bool:
        """Whether a checkpoint is of a trial that was the same as this one up to there."""
        reached = saved["simulation"]["round"]
        of = TrialSpec.model_validate_json(saved["spec"]).until(reached)
        return of.model_dump_json() == self._spec.until(reached).model_dump_json()

    def _dealt(self) -> FederatedData:
        key = self._spec.data_key
        if key not in self._data:
            if len(self._data) == KEPT:
                self._data.pop(next(iter(self._data)))
            self._data[key] = deal_data(self._spec, self._loaded())
        return self._data[key]

    def _loaded(self) -> Dataset:
        """The data set, one object for all deals, which share its samples."""
        key = self._spec.dataset_key
        if key not in self._samples:
            self._samples[key] = ray.get(self._datasets[key])
        return self._samples[key]
