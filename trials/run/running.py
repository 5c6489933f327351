"""A trial as it runs in a process: from its config, or a checkpoint, to one report after the other."""

import math
import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from trials.common.tensors import torch
from trials.engine.pack import Pack
from trials.engine.training import Solver
from trials.federated_data import FederatedData
from trials.run.checkpoint import Checkpoint, StorageError
from trials.run.outcome import Status, TrialResult, shortened
from trials.run.simulation import Simulation
from trials.run.spec import TrialConfig, TrialSpec
from trials.run.trial import result_of, simulate
from trials.scoring.metrics import score

REPORT_SECONDS = 1.0
"""A step ends at the first evaluation after this long: a Tune report costs more than many rounds."""


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
        """Run up to the next of the config's stops, or to the first evaluation at which a report is `due`; where memory does
        not hold that many clients, from the last checkpoint on with half of them. Return what was not reported yet.
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
        if result.status == Status.RUNNING and self._checkpoint and self._checkpoint.due:
            self._checkpoint.save(self.save())
        return result
