"""A trial, or a pack of trials, as a Ray Tune trainable whose actor is reused for the next one."""

import time
from collections.abc import Collection, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import ray
from ray import tune

from trials.common import plugins
from trials.common.memory import take_part
from trials.common.tensors import torch
from trials.datasets.base import Dataset
from trials.engine.pack import Pack
from trials.federated_data import FederatedData
from trials.run.outcome import Report
from trials.run.running import RunningTrials
from trials.run.spec import TrialSpec
from trials.run.trial import partition_data
from trials.run.trial_config import PACK, TrialConfig

REPORT_SECONDS = 1.0
"""A step ends at the first evaluation after this long: a Tune report costs more than many rounds."""

REPORTS = "reports"
"""Where the result of a pack's step has (trial id, result) of each of its trials."""
KEPT = 16
"""Partitions that an actor keeps, oldest out first. A partition is indices; its samples are shared."""


class FederatedTrial(tune.Trainable):
    """Runs the trial of a `TrialConfig`, and returns a `Report` as the result of each step; or the trials
    of a pack, whose config has theirs under `PACK`, by trial id, and those of one under `REPORTS`.

    When a step ends besides at `TrialConfig.stops` depends on time and changes no number: a pack's waits
    for half of its trials to say something. An exception does not raise: it would cost the actor.
    """

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
        """The resources that Ray sets aside for the trial, or for a pack: for one of its trials."""
        one = next(iter(config[PACK].values())) if PACK in config else config
        return tune.PlacementGroupFactory([dict(TrialConfig.of(one).need)])

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
            plugins.supply(path, text)
        self._datasets = datasets or {}
        self._samples: dict[str, Dataset] = {}
        self._data: dict[str, FederatedData] = {}
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take over another trial, or pack; data that are already partitioned stay."""
        self._pack = Pack() if PACK in new_config else None
        self._running: dict[str, RunningTrials] = {}
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
            running = RunningTrials(TrialConfig.of(config), self._partitioned, self._pack)
            self._running[trial_id] = running

    def step(self) -> dict[str, Any]:
        """The rounds up to the next report; of a pack, up to one of each trial."""
        started, said, going = time.monotonic(), 0, dict(self._running)

        def due() -> bool:
            return time.monotonic() - started > REPORT_SECONDS or 2 * said > len(going)

        def work(running: RunningTrials) -> Report:
            nonlocal said
            report = running.step(due)
            said += 1
            return report

        if self._pack is None:
            return work(going[""]).result()
        reports = self._pack.run([partial(work, running) for running in going.values()])
        told = [
            (trial_id, report.result()) for trial_id, report in zip(going, reports, strict=True)
        ]
        for trial_id, result in told:
            if result["done"]:
                del self._running[trial_id]
        return {REPORTS: told}

    def _partitioned(self, spec: TrialSpec) -> FederatedData:
        key = spec.data_key
        if key not in self._data:
            if len(self._data) == KEPT:
                self._data.pop(next(iter(self._data)))
            self._data[key] = partition_data(spec, self._loaded(spec.dataset_key))
        return self._data[key]

    def _loaded(self, key: str) -> Dataset:
        """The data set, one object for all partitions, which share its samples."""
        if key not in self._samples:
            self._samples[key] = ray.get(self._datasets[key])
        return self._samples[key]
