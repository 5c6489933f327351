"""A trial as it runs in a process: from its config, or a checkpoint, to one report after the other."""

import traceback
from collections.abc import Callable
from typing import Any

from trials.common.device import name_of
from trials.common.tensors import torch
from trials.engine.pack import Pack
from trials.engine.solver import Solver
from trials.federated_data import FederatedData
from trials.run.checkpoint import Checkpoint, StorageError
from trials.run.outcome import Report, Status, shortened
from trials.run.saved_model import SavedModel
from trials.run.simulation import Simulation
from trials.run.spec import TrialSpec
from trials.run.trial import simulate
from trials.run.trial_config import TrialConfig
from trials.scoring.metrics import score


class RunningTrials:
    """The trial of a config, on data that `partition` gives, alone or in a pack."""

    def __init__(
        self,
        config: TrialConfig,
        partition: Callable[[TrialSpec], FederatedData],
        pack: Pack | None = None,
    ) -> None:
        self.config, self._partition = config, partition
        self._solver: Callable[..., Solver] = Solver if pack is None else pack.solver
        self._spec = config.trial
        self._simulation: Simulation | None = None
        self._reported, self._afresh = 0, False
        self._scores: dict[int, float] = {}
        self._earlier: list[tuple[int, float]] = []
        place, seconds = config.checkpoint, config.checkpoint_seconds
        self._checkpoint = Checkpoint(place, seconds) if place else None

    def step(self, due: Callable[[], bool]) -> Report:
        """The rounds up to the next of the config's stops, or to the first evaluation at which a report
        is `due`. What fails is in the report.
        """
        try:
            return self._step(due) or self._step_halved(due)
        except StorageError as fault:
            return Report(Status.HALTED, error=shortened(str(fault)))
        except Exception:
            return Report(Status.FAILED, error=shortened(traceback.format_exc()))

    def _step(self, due: Callable[[], bool]) -> Report | None:
        """A step; None where memory does not hold as many clients at once, and may hold half."""
        try:
            return self._rounds(due)
        except torch.OutOfMemoryError:
            if self._simulation is None or not self._simulation.half:
                raise
        return None

    def _step_halved(self, due: Callable[[], bool]) -> Report:
        """The step from the last checkpoint on, half as many clients at once."""
        self._simulation, self._scores = None, {}
        if self.config.device == "cuda":
            torch.cuda.empty_cache()
        self._started().halve()
        self._reported, self._afresh = 0, True
        return self._rounds(due)

    def _rounds(self, due: Callable[[], bool]) -> Report:
        simulation, config = self._started(), self.config
        while not simulation.finished:
            entry = simulation.advance()
            if entry["round"] in config.stops or due():
                break
        report = self._report(simulation)
        self._scores[report.round] = report.val_score
        if report.status == Status.FINISHED and config.model is not None:
            Checkpoint(config.model).save(SavedModel.of(self._spec, simulation).content)
        if report.status == Status.RUNNING and self._checkpoint and self._checkpoint.due:
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
            status = Status.RUNNING
        return Report(
            status,
            simulation.fed.round,
            score(simulation.history, f"val_{simulation.task.metric}"),
            news,
            earlier,
            simulation.fed.data.fingerprint,
            simulation.fed.execution,
            simulation.fed.chunk,
            simulation.fed.halved,
            name_of(simulation.fed.device),
            afresh,
            graph_error=simulation.fed.graph_error,
        )

    def _state(self) -> dict[str, Any]:
        """The state that a restart needs; the spec says whose it is."""
        spec = self._spec.model_dump_json()
        return {"spec": spec, "scores": self._scores, "simulation": self._started().save()}

    def _started(self) -> Simulation:
        if self._simulation is None:
            config = self.config
            self._simulation = simulate(
                self._spec,
                self._partition(self._spec),
                config.device,
                config.threads,
                config.memory_budget,
                self._solver,
                config.members,
            )
            saved = self._checkpoint.load() if self._checkpoint else None
            if saved is not None and saved["spec"] == self._spec.model_dump_json():
                self._simulation.load(saved["simulation"])
                self._scores = saved["scores"]
                self._earlier = list(self._scores.items())
        return self._simulation
