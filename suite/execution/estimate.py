"""What a sweep will take, before it is started: work, hours, memory, disk."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from suite.execution.resources import Resources
from suite.search.sweep_search import SweepSearch
from suite.studies.entry import Entry
from suite.studies.study import Study
from trials.common.errors import UserError
from trials.common.machine import machine_memory
from trials.datasets.base import Dataset
from trials.federated_data import FederatedData
from trials.run.spec import TrialSpec
from trials.run.trial import fit_model, partition_data
from trials.sizing import Footprint, footprint, own_bytes, pace, pack_size


class Estimates:
    """Estimates for the entries of a sweep. Raise `UserError` where a trial of one takes more than this machine has and no
    cluster is joined.
    """

    def __init__(self, study: Study, data: Mapping[str, Dataset], resources: Resources) -> None:
        self.study, self.data, self.resources = study, data, resources
        self.device = "cuda" if resources.gpus_per_trial else "cpu"
        self._sizes: dict[str, tuple[Footprint, int]] = {}

    def size(self, entry: Entry) -> tuple[Footprint, int]:
        """Return what a trial of the entry takes, `memory_per_trial` where that is given, and how many begin together."""
        if entry.id not in self._sizes:
            spec, resources = self._default(entry), self.resources
            data = self._partition(spec)
            model = fit_model(spec, data.dataset, self.device)
            takes = footprint(spec, data, model, self.device, resources.budget_bytes)
            pack = self.study.pack
            if pack == "auto":
                pack = pack_size(spec, data, model, self.device, takes)
            if resources.trial_bytes is not None:
                takes = replace(takes, memory=resources.trial_bytes)
            here = self.device == "cpu" and not resources.joins
            if here and takes.memory > (there := machine_memory()):
                raise UserError(
                    f"this machine can never hold a trial of {entry.name}: it takes {takes.memory / 1e9:,.1f} GB, "
                    f"and there are {there / 1e9:,.1f} GB. Memory is an estimate, unless --set memory_per_trial=GB "
                    "says it"
                )
            self._sizes[entry.id] = takes, pack
        return self._sizes[entry.id]

    def memory(self, entries: Iterable[Entry]) -> dict[str, int]:
        """Return the bytes of a trial of each entry, or of its pack, by the entry's id."""
        memory = {}
        for entry in entries:
            takes, pack = self.size(entry)
            beside = 0 if self.resources.trial_bytes else own_bytes(takes, self.device)
            memory[entry.id] = takes.memory + (pack - 1) * beside
        return memory

    def packs(self, entries: Iterable[Entry]) -> dict[str, int]:
        """Return how many trials of each entry may share a pack, by the entry's id."""
        return {entry.id: self.size(entry)[1] for entry in entries}

    def entry(self, entry: Entry, calibrate: bool) -> dict[str, Any]:
        """Return what the whole entry takes: every trial at full rounds, so that early stopping can only spare some.

        Seconds and hours are None unless `calibrate` runs a few rounds of the default configuration here and now.
        """
        (takes, pack), s = self.size(entry), entry.settings
        runs = sum(SweepSearch([entry], self.study).planned_by_entry.values())
        evaluations = -(-s.rounds // s.evaluation_gap) + 1
        steps, seconds = takes.steps, None
        if calibrate:
            spec, threads = self._default(entry), max(1, int(self.resources.cpus_per_trial))
            data = self._partition(spec)
            steps, a_round, an_evaluation = pace(spec, data, self.device, threads)
            seconds = runs * (s.rounds * a_round + evaluations * an_evaluation)
        return {
            "trials": runs,
            "rounds": runs * s.rounds,
            "client_steps": round(runs * s.rounds * steps),
            "seconds": seconds,
            "pack": pack,
            "memory_bytes_per_trial": takes.memory,
            "gpu_memory_bytes_per_trial": takes.device,
            "checkpoint_bytes_per_trial": takes.state,
        }

    def total(self, entries: Iterable[Mapping[str, Any]], slots: int) -> dict[str, Any]:
        """Return what all entries take together; `slots` trials run at once, and each keeps one checkpoint."""
        rows = list(entries)
        summed = ("trials", "rounds", "client_steps")
        largest = ("memory_bytes_per_trial", "gpu_memory_bytes_per_trial")
        seconds = [row["seconds"] for row in rows]
        hours = None if None in seconds else sum(seconds) / 3600
        checkpoint = max((row["checkpoint_bytes_per_trial"] for row in rows), default=0)
        return {
            **{key: sum(row[key] for row in rows) for key in summed},
            **{key: max((row[key] for row in rows), default=0) for key in largest},
            "cpu_hours": None if hours is None else hours * self.resources.cpus_per_trial,
            "gpu_hours": None if hours is None else hours * self.resources.gpus_per_trial,
            "hours": None if hours is None else hours / slots,
            "trials_at_once": slots,
            "checkpoint_bytes": slots * checkpoint,
        }

    def _default(self, entry: Entry) -> TrialSpec:
        return entry.spec(entry.space.default(), self.study.seed, entry.settings.partition_seed)

    def _partition(self, spec: TrialSpec) -> FederatedData:
        return partition_data(spec, self.data[spec.dataset_key], keep=True)
