"""What a sweep will take, before it is started: work, hours, memory, disk."""

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from suite.execution.resources import Resources
from suite.search.sweep_search import SweepSearch
from suite.studies.entry import Entry
from suite.studies.study import Study
from trials.common.errors import UserError
from trials.common.machine import machine_memory
from trials.datasets.base import Dataset, OnDemand
from trials.engine.budget import widest
from trials.federated_data import FederatedData
from trials.run.spec import TrialSpec
from trials.run.trial import fit_model, partition_data, simulate
from trials.sizing.calibration import workload
from trials.sizing.footprint import PROCESS, Footprint, footprint
from trials.sizing.packing import own_bytes, pack_size

RECORD_BYTES = 330
"""Bytes of one metric's value at one round, in SQLite with its indices and in the journal together."""
METRICS = 16
"""Metrics of an evaluation."""
COPIES, DEEP, DOUBLE = 16, 4096, 8
"""More than there ever is: weights that a trial holds for each client, values that a model makes of each of a
sample's, bytes of each.
"""
WARM_UP, MEASURED = 1, 3
"""Rounds that `calibrate` runs before it measures, and those that it measures."""


class Estimates:
    """Estimates for the entries of a sweep."""

    def __init__(self, study: Study, data: Mapping[str, Dataset], resources: Resources) -> None:
        self.study, self.data, self.resources = study, data, resources
        self.device = "cuda" if resources.gpus_per_trial else "cpu"
        self._known: dict[str, tuple[Footprint, int]] = {}

    def footprint(self, entry: Entry) -> Footprint:
        """The footprint of a trial of the entry; the memory is `memory_per_trial` where that is given.
        Raises `UserError` where it is more than this machine has and no cluster is joined.
        """
        return self._looked(entry)[0]

    def pack(self, entry: Entry) -> int:
        """How many trials of the entry may share a pack: as the study says."""
        return self._looked(entry)[1]

    def _looked(self, entry: Entry) -> tuple[Footprint, int]:
        if entry.id not in self._known:
            spec = self._default(entry)
            data = self._partition(spec)
            model, budget = fit_model(spec, data.dataset, self.device), self.resources.budget_bytes
            found = footprint(spec, data, model, self.device, budget)
            pack = self.study.pack
            if pack == "auto":
                pack = pack_size(spec, data, model, self.device, found)
            given = self.resources.trial_bytes
            if given is not None:
                found = replace(found, memory=given)
            self._refuse(entry, found)
            self._known[entry.id] = found, pack
        return self._known[entry.id]

    def refuse(self, entries: Iterable[Entry]) -> None:
        """Raise `UserError` where no trial of an entry will ever fit. Torch, which a footprint is worked out
        with and which takes seconds to come, is left alone where that is plain without it.
        """
        for entry in entries:
            if not self._is_small(entry):
                self.footprint(entry)

    def _is_small(self, entry: Entry) -> bool:
        """Whether a trial of the entry fits by far more than its footprint can be."""
        if self.device != "cpu" or self.resources.joins:
            return True  # what is there is known once the cluster is
        if (given := self.resources.trial_bytes) is not None:
            return given <= machine_memory()
        spec = self._default(entry)
        data, budget = self._partition(spec), self.resources.budget_bytes or 2.0**31
        x, model = data.dataset.x, fit_model(spec, data.dataset)
        if isinstance(x, OnDemand):
            return False
        held = COPIES * (data.clients + 2) * model.d + 2 * x.size
        step = widest(data, spec.settings) * (DEEP * math.prod(data.dataset.shape) + model.d)
        return PROCESS + 2 * budget + DOUBLE * (held + step) <= machine_memory()

    def _refuse(self, entry: Entry, found: Footprint) -> None:
        """Raise `UserError` where no trial of an entry will ever fit."""
        there = machine_memory()
        if self.device == "cpu" and not self.resources.joins and found.memory > there:
            about, whose = "about ", "Memory is an estimate: --set memory_per_trial=GB sets it"
            if self.resources.trial_bytes is not None:
                about, whose = "", "So says memory_per_trial"
            raise UserError(
                f"this machine can never hold a trial of {entry.name}: it takes "
                f"{about}{found.memory / 1e9:,.1f} GB, and there are {there / 1e9:,.1f} GB. {whose}"
            )

    def memory(self, entries: Iterable[Entry]) -> dict[str, int]:
        """Bytes of a trial of each entry, or of its pack, by the entry's id."""
        return {entry.id: self._packed_memory(entry) for entry in entries}

    def packs(self, entries: Iterable[Entry]) -> dict[str, int]:
        """How many trials of each entry may share a pack, by the entry's id."""
        return {entry.id: self.pack(entry) for entry in entries}

    def _packed_memory(self, entry: Entry) -> int:
        found = self.footprint(entry)
        if self.resources.trial_bytes is not None:
            return found.memory
        return found.memory + (self.pack(entry) - 1) * own_bytes(found, self.device)

    def takes(self, entries: Iterable[Entry]) -> dict[str, Footprint]:
        """What a trial of each entry takes, by the entry's name."""
        return {entry.name: self.footprint(entry) for entry in entries}

    def probes(self, entries: Iterable[Entry]) -> dict[str, TrialSpec]:
        """A trial of each scenario, in which its execution is measured."""
        return {workload(spec): spec for spec in map(self._default, entries)}

    def entry(self, entry: Entry, calibrate: bool) -> dict[str, Any]:
        """What the whole entry takes: every trial at full rounds, so that early stopping can only spare some.

        Seconds and hours are None unless `calibrate` runs a few rounds of the default configuration here and now.
        """
        found, s = self.footprint(entry), entry.settings
        runs = SweepSearch([entry], self.study).planned
        evaluations = -(-s.rounds // s.evaluation_gap) + 1
        steps, seconds = found.steps, None
        if calibrate:
            steps, per_round, per_evaluation = self._calibrate(entry)
            seconds = runs * (s.rounds * per_round + evaluations * per_evaluation)
        return {
            "trials": runs,
            "rounds": runs * s.rounds,
            "client_steps": round(runs * s.rounds * steps),
            "seconds": seconds,
            "pack": self.pack(entry),
            "memory_bytes_per_trial": found.memory,
            "gpu_memory_bytes_per_trial": found.device,
            "gpu_memory_bytes_beside": found.beside,
            "checkpoint_bytes_per_trial": found.state,
            "record_bytes": runs * evaluations * METRICS * RECORD_BYTES,
        }

    def total(self, entries: Iterable[Mapping[str, Any]], slots: int) -> dict[str, Any]:
        """What all entries take together; `slots` trials run at once, and each keeps one checkpoint."""
        entries = list(entries)
        seconds = [entry["seconds"] for entry in entries]
        known = None if None in seconds else sum(seconds) / 3600
        r = self.resources
        largest = max((entry["checkpoint_bytes_per_trial"] for entry in entries), default=0)
        return {
            **{
                key: sum(entry[key] for entry in entries)
                for key in ("trials", "rounds", "client_steps", "record_bytes")
            },
            "cpu_hours": None if known is None else known * r.cpus_per_trial,
            "gpu_hours": None if known is None else known * r.gpus_per_trial,
            "hours": None if known is None else known / slots,
            "trials_at_once": slots,
            "checkpoint_bytes": slots * largest,
            "memory_bytes_per_trial": max(
                (entry["memory_bytes_per_trial"] for entry in entries), default=0
            ),
            "gpu_memory_bytes_per_trial": max(
                (entry["gpu_memory_bytes_per_trial"] for entry in entries), default=0
            ),
        }

    def _calibrate(self, entry: Entry) -> tuple[float, float, float]:
        """Client steps a round, seconds a round, seconds an evaluation, of the default configuration."""
        spec = self._default(entry)
        rounds = WARM_UP + MEASURED
        settings = spec.settings.model_copy(update={"rounds": rounds, "eval_every": 1})
        short = spec.model_copy(update={"settings": settings})
        threads = max(1, int(self.resources.cpus_per_trial))
        simulation = simulate(short, self._partition(spec), self.device, threads)
        elapsed = training = 0.0
        started = time.perf_counter()
        for reached in simulation.evaluations():
            now = time.perf_counter()
            if reached["round"] > WARM_UP:
                elapsed += now - started
                training += reached["round_seconds"]
            started = now
        done = max(1, simulation.fed.round - WARM_UP)  # a default configuration may diverge at once
        steps = simulation.fed.counters["client_steps"] / simulation.fed.round
        return steps, training / done, (elapsed - training) / done

    def _default(self, entry: Entry) -> TrialSpec:
        return entry.spec(entry.space.default(), self.study.seed, entry.settings.partition_seed)

    def _partition(self, spec: TrialSpec) -> FederatedData:
        return partition_data(spec, self.data[spec.dataset_key], keep=True)
