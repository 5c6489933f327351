"""Estimates of the work, hours, memory and disk of a sweep, made before it starts."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from suite.console import say
from suite.execution.resources import Resources, local_slots
from suite.search.sweep_search import SweepSearch
from suite.studies.entries import Entry
from suite.studies.samplers import find_sampler, first_modelled, searched_by
from suite.studies.study import Study
from trials.common.errors import UserError
from trials.common.machine import machine_memory
from trials.common.plugins import named
from trials.datasets.base import Dataset
from trials.federated_data import FederatedData
from trials.run.spec import TrialSpec
from trials.run.trial import fit_model, partition_data, simulate
from trials.sizing import Footprint, footprint, own_bytes, pace, pack_size


class Estimates:
    """Estimates for the trials of a study. Each method raises `UserError` if a trial needs more memory than this machine has."""

    def __init__(self, study: Study, data: Mapping[str, Dataset], resources: Resources) -> None:
        self.study, self.data, self.resources = study, data, resources
        self.device = "cuda" if resources.gpus_per_trial else "cpu"
        self._sizes: dict[str, tuple[Footprint, int]] = {}

    def size(self, entry: Entry) -> tuple[Footprint, int]:
        """Return the estimated memory and work (the footprint) of an entry's trial, and how many such trials may share a process."""
        if entry.id not in self._sizes:
            spec, resources = self._default(entry), self.resources
            data = self._partition(spec)
            model = fit_model(spec, data.dataset, self.device)
            need = footprint(spec, data, model, self.device, resources.budget_bytes)
            pack = self.study.pack
            if pack == "auto":
                pack = pack_size(spec, data, model, self.device, need)
            if resources.trial_bytes is not None:
                need = replace(need, memory=resources.trial_bytes)
            local = self.device == "cpu" and not resources.joins
            if local and need.memory > (memory := machine_memory()):
                raise UserError(
                    f"this machine can never hold a trial of {entry.name}: it takes {need.memory / 1e9:,.1f} GB of "
                    f"{memory / 1e9:,.1f} GB (--set memory_per_trial=GB replaces the estimate)"
                )
            if named(spec.algorithm):  # third-party code may give its metrics invalid names
                simulate(spec, data)
            self._sizes[entry.id] = need, pack
        return self._sizes[entry.id]

    def memory(self, entries: Iterable[Entry]) -> dict[str, int]:
        """Return the bytes of memory that a process needs for each entry, by entry id. The process runs as many trials as may share it."""
        memory = {}
        for entry in entries:
            need, pack = self.size(entry)
            further = 0 if self.resources.trial_bytes else own_bytes(need, self.device)
            memory[entry.id] = need.memory + (pack - 1) * further
        return memory

    def packs(self, entries: Iterable[Entry]) -> dict[str, int]:
        """Return how many trials of each entry may share a process, by entry id."""
        return {entry.id: self.size(entry)[1] for entry in entries}

    def plan(self, entries: list[Entry], calibrate: bool) -> dict[str, Any]:
        """Return the estimated work, time, memory and disk space of a sweep. Work counts all rounds of each trial, although
        early stopping may end trials sooner. Disk space is for the checkpoints of trials that run at the same time.

        Times are None unless `calibrate` is true. Then a few rounds of each entry's default configuration are measured.
        """
        study, slots = self.study, local_slots(self.resources)
        search, sampler = SweepSearch(entries, study), find_sampler(study.sampler)
        rows = list[dict[str, Any]]()
        for number, first in enumerate(search.firsts, 1):
            if calibrate:
                say(f"measuring {number}/{len(entries)}: {first.entry.name}")
            row = {
                "entry_id": first.entry.id,
                "name": first.entry.name,
                "default": first.starts[0].params,
                "published": sum(start.origin == "published" for start in first.starts),
                "modelled": first.modelled,
                "outside": first.entry.outside(),
            }
            runs = search.planned_by_entry[first.entry.id]
            rows.append({**row, "estimate": self._entry(first.entry, runs, calibrate)})

        def column(name: str) -> list[Any]:
            return [row["estimate"][name] for row in rows]

        summed = ("trials", "rounds", "client_steps")
        largest = ("memory_bytes_per_trial", "gpu_memory_bytes_per_trial")
        hours = sum(column("seconds")) / 3600 if calibrate else None
        return {
            "entries": rows,
            "trials_per_entry": study.trials,
            "final_runs_per_entry": study.seeds,
            "rounds_per_run": study.settings.rounds,
            "retries": study.retries,
            "sampler": study.sampler,
            "startup": sampler.startup,
            "lag": search.lag,
            "modelled_from": first_modelled(sampler, search.lag),
            "searched_by": searched_by(study.sampler, study.trials, search.lag),
            "warnings": search.warnings,
            **{name: sum(column(name)) for name in summed},
            **{name: max(column(name)) for name in largest},
            "cpu_hours": hours and hours * self.resources.cpus_per_trial,
            "gpu_hours": hours and hours * self.resources.gpus_per_trial,
            "hours": hours and hours / slots,
            "trials_at_once": slots,
            "checkpoint_bytes": slots * max(column("checkpoint_bytes_per_trial")),
        }

    def _entry(self, entry: Entry, runs: int, calibrate: bool) -> dict[str, Any]:
        (need, pack), s = self.size(entry), entry.settings
        steps, seconds = need.steps, None
        if calibrate:
            spec, threads = self._default(entry), max(1, int(self.resources.cpus_per_trial))
            steps, a_round, an_evaluation = pace(spec, self._partition(spec), self.device, threads)
            evaluations = -(-s.rounds // s.evaluation_gap) + 1
            seconds = runs * (s.rounds * a_round + evaluations * an_evaluation)
        return {
            "trials": runs,
            "rounds": runs * s.rounds,
            "client_steps": round(runs * s.rounds * steps),
            "seconds": seconds,
            "pack": pack,
            "memory_bytes_per_trial": need.memory,
            "gpu_memory_bytes_per_trial": need.device,
            "checkpoint_bytes_per_trial": need.state,
        }

    def _default(self, entry: Entry) -> TrialSpec:
        return entry.spec(entry.space.default(), self.study.seed, entry.settings.partition_seed)

    def _partition(self, spec: TrialSpec) -> FederatedData:
        return partition_data(spec, self.data[spec.dataset_key], keep=True)
