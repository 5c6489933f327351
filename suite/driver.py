"""Ray Tune, driven: the searcher, scheduler, callback and stopper of one experiment for all cells.

Ray is set up by environment variables that must be there before its first import, so this module
sets them and imports Ray afterwards; import it late.
"""

import gc
import logging
import math
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

for _name, _value in {
    "RAY_AUTH_MODE": "disabled",  # a cluster of this process's own, on loopback
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # relative paths mean what the person meant
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # Tune's own returns normally from an interrupted sweep
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",  # the journal is what a sweep resumes from
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
}.items():
    os.environ.setdefault(_name, _value)

import ray
from ray import tune
from ray.tune.experiment import Trial
from ray.tune.experiment.config_parser import _create_trial_from_spec, _make_parser
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search.search_algorithm import SearchAlgorithm

from suite.outcome import Outcome
from suite.schedulers import CellSchedulers
from suite.search import Ask, SweepSearch
from suite.study import Cell
from trials.datasets import Dataset
from trials.trainable import FederatedTrial


@dataclass(frozen=True)
class Resources:
    """What a trial gets, and how many run at once (default: what fits)."""

    cpus_per_trial: float = 1.0
    gpus_per_trial: float = 0.0
    max_concurrent: int | None = None


@dataclass
class Hooks:
    """What the driver calls when a trial is handed out (is it new?) and when it has ended."""

    asked: Callable[[Ask, bool], None]
    ended: Callable[[Ask, Outcome], None]


class _Unpicklable:
    """Tune pickles what it is given when an experiment starts and never needs it back here."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class _Search(_Unpicklable, SearchAlgorithm):
    """Hands the sweep's asks to Tune as trials with ids of our own."""

    def __init__(self, sweep: SweepSearch, hooks: Hooks, config: "_Config", stop: "_Stop") -> None:
        self.sweep, self.hooks, self.config, self.stop = sweep, hooks, config, stop
        self.live: set[str] = set()
        self._parser = _make_parser()

    def add_configurations(self, experiments: Any) -> None:
        """Called once by Tune with the experiment."""
        self.spec = (experiments[0] if isinstance(experiments, list) else experiments).spec

    def next_trial(self) -> Trial | None:
        """The next trial, unless the machine is full or the sweep is stopping."""
        if self.stop.requested or len(self.live) >= self.config.max_concurrent:
            return None
        found = self.sweep.next()
        if found is None:
            return None
        ask, new = found
        self.hooks.asked(ask, new)
        self.live.add(ask.trial_id)
        spec = {**self.spec, "config": self.config.of(ask, self.sweep)}
        return _create_trial_from_spec(
            spec, self._parser, evaluated_params={}, experiment_tag="", trial_id=ask.trial_id
        )

    def is_finished(self) -> bool:
        """Whether nothing will be asked any more."""
        return self.stop.requested or self.sweep.exhausted


class _Scheduler(_Unpicklable, FIFOScheduler):
    """Shows the schedulers of the cells what Tune's trials report: round and validation score."""

    def __init__(self, cells: CellSchedulers) -> None:
        super().__init__()
        self.cells = cells

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Stop a search trial that is behind its own cell's."""
        goes_on = result.get("status") != "running" or not math.isfinite(result["val_score"])
        if goes_on or not self.cells.decide(trial.trial_id, result["round"], result["val_score"]):
            return str(TrialScheduler.CONTINUE)
        return str(TrialScheduler.STOP)

    def choose_trial_to_run(self, tune_controller: Any) -> Trial | None:
        """Let Tune start trials in the order they came; scanning all of them each step is slow."""
        return None


class _Callback(_Unpicklable, tune.Callback):
    """Collects what trials report and says when they have ended: the one place that decides."""

    def __init__(self, sweep: SweepSearch, search: _Search, hooks: Hooks, stop: "_Stop") -> None:
        self.sweep, self.search, self.hooks, self.stop = sweep, search, hooks, stop
        self.outcomes: dict[str, Outcome] = {}
        self.started: dict[str, float] = {}

    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Start the clock."""
        self.started[trial.trial_id] = time.monotonic()

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Keep the history and drop it from the result, which Tune would keep too."""
        outcome = self.outcomes.setdefault(trial.trial_id, Outcome())
        outcome.history += result.pop("history", [])
        outcome.status = result.get("status", "failed")
        outcome.error = result.get("error", "")
        if outcome.status != "failed":
            outcome.fingerprint = result["fingerprint"]
            if math.isfinite(result["val_score"]):
                outcome.intermediates[result["round"]] = result["val_score"]

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Finished, diverged, failed, or stopped by the scheduler; not when the sweep stops."""
        outcome = self.outcomes.pop(trial.trial_id, Outcome())
        if outcome.status == "running":
            if self.stop.requested:
                return
            outcome.status = "pruned"
        self._end(trial, outcome)

    def on_trial_error(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """The trial's process died."""
        outcome = self.outcomes.pop(trial.trial_id, Outcome())
        outcome.status, outcome.error = (
            "failed",
            "the trial's process died: " + str(trial.get_error()),
        )
        self._end(trial, outcome)

    def _end(self, trial: Trial, outcome: Outcome) -> None:
        outcome.seconds = time.monotonic() - self.started.get(trial.trial_id, time.monotonic())
        self.search.live.discard(trial.trial_id)
        self.hooks.ended(self.sweep.asks[trial.trial_id], outcome)


class _Stop(_Unpicklable, tune.Stopper):
    """Ends the experiment when a person interrupts it."""

    def __init__(self) -> None:
        self.requested = False

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """No single trial is stopped here."""
        return False

    def stop_all(self) -> bool:
        """Whether to end everything."""
        return self.requested


@dataclass
class _Config:
    """What a Tune trial gets besides its spec."""

    cells: dict[str, Cell]
    scheduler: str
    resources: Resources
    max_concurrent: int = 1

    def of(self, ask: Ask, sweep: SweepSearch) -> dict[str, Any]:
        searches = ask.kind == "search" and self.scheduler != "none"
        return {
            "trial": sweep.spec(ask).model_dump(),
            "stops": list(self.cells[ask.cell].stops) if searches else [],
            "device": "cuda" if self.resources.gpus_per_trial else "cpu",
            "threads": max(1, int(self.resources.cpus_per_trial)),
        }


def drive(
    sweep: SweepSearch,
    cells: list[Cell],
    data: dict[str, Dataset],
    scheduler: str,
    replayed: Mapping[str, Outcome],
    resources: Resources,
    hooks: Hooks,
    folder: Path,
) -> bool:
    """Run every trial that the sweep still asks for; whether it was interrupted. Empties `data`."""
    stop = _Stop()
    with local_ray(resources) as concurrent, _interruptible(stop):
        os.environ["TUNE_MAX_PENDING_TRIALS_PG"] = str(concurrent)
        config = _Config({c.id: c for c in cells}, scheduler, resources, concurrent)
        search = _Search(sweep, hooks, config, stop)
        schedulers = CellSchedulers(cells, sweep.asks, scheduler)
        schedulers.replay(replayed)
        # Workers read the store's copy in place; the driver gives up its own.
        shared = {key: ray.put(data.pop(key)) for key in list(data)}
        trainable = tune.with_resources(
            tune.with_parameters(FederatedTrial, datasets=shared),
            {"cpu": resources.cpus_per_trial, "gpu": resources.gpus_per_trial},
        )
        tune.Tuner(
            trainable,
            tune_config=tune.TuneConfig(
                search_alg=search,
                scheduler=_Scheduler(schedulers),
                num_samples=-1,
                reuse_actors=True,
                trial_name_creator=_trial_id,
                trial_dirname_creator=_trial_id,
            ),
            run_config=tune.RunConfig(
                name=time.strftime("%Y%m%d-%H%M%S"),
                storage_path=str(folder.resolve()),
                callbacks=[_Callback(sweep, search, hooks, stop)],
                stop=stop,
                verbose=0,
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            ),
        ).fit()
    return stop.requested


def _trial_id(trial: Trial) -> str:
    return str(trial.trial_id)


@contextmanager
def local_ray(resources: Resources) -> Iterator[int]:
    """A Ray cluster of our own on this machine; yields how many trials run at once."""
    cpus = os.cpu_count() or 1
    concurrent = resources.max_concurrent or max(1, int(cpus // resources.cpus_per_trial))
    ray.init(
        num_cpus=math.ceil(max(cpus, concurrent * resources.cpus_per_trial)),
        include_dashboard=False,
        log_to_driver=False,
        logging_level=logging.ERROR,
        configure_logging=True,
    )
    if resources.gpus_per_trial and resources.max_concurrent is None:
        gpus = ray.cluster_resources().get("GPU", 0)
        concurrent = max(1, int(gpus / resources.gpus_per_trial))
    try:
        yield concurrent
    finally:
        # An object reference that another thread's garbage collection frees while Ray shuts down
        # ends the process.
        gc.collect()
        gc.disable()
        try:
            ray.shutdown()
        finally:
            gc.enable()


@contextmanager
def _interruptible(stop: _Stop) -> Iterator[None]:
    """The first Ctrl-C (or SIGTERM) ends the sweep in order, the second at once."""

    def handler(number: int, frame: FrameType | None) -> None:
        if stop.requested:
            os._exit(130)
        stop.requested = True

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
