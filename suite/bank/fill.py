"""Run a study into the bank, in this process: for very many small trials, without Ray and MLflow.

What the bank holds of the study is its journal: nothing of it is run again, on whatever machine. The numbers are
those of `suite sweep`, to the bit.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice
from typing import Any

from suite.bank.rows import Traits, row
from suite.bank.table import table
from suite.json_files import parse
from suite.search.sweep_search import SweepSearch
from suite.search.trial import TrialRequest, ValidationResult
from suite.studies.entries import load_data, make_entries
from suite.studies.study import Study
from suite.tracking.schema.tags import versions
from trials.common.errors import UserError
from trials.engine.pack import Pack
from trials.federated_data import FederatedData
from trials.run.outcome import Status
from trials.run.result import TrialResult
from trials.run.running import RunningTrial
from trials.run.spec import TrialSpec
from trials.run.trial import fit_model, partition_data
from trials.run.trial_config import TrialConfig
from trials.run.trial_id import TrialId

RESULTS = (
    *("status", "val_score", "test_score", "evaluations", "val_curve", "test_curve"),
    *("client_steps", "sample_gradients", "bytes"),
)
"""The columns that a trial's numbers are in; its seconds are not repeated."""
PACK = 16
"""Trials that are computed together at most; a row is there when its pack has ended."""


class Filling:
    """A study, and what the bank holds of it: `rows`, those of other studies aside.

    Raises `UserError` where the study cannot be run, or asks for what a row does not say.
    """

    def __init__(
        self, name: str, study: Study, rows: list[Mapping[str, Any]], data_root: str | None
    ) -> None:
        if study.scheduler != "none" or study.constraints:
            raise UserError(
                f"study {name}: scheduler and constraints need `suite sweep`; the bank has none of them"
            )
        self.name = name
        entries = make_entries(study, f"study {name}")
        self._data = load_data(entries, data_root, f"study {name}", study.replicates)
        self._parts: dict[str, FederatedData] = {}
        self._traits: dict[tuple[str, str], Traits] = {}
        self.search = SweepSearch(entries, study)
        self.rows = {row["trial_id"]: dict(row) for row in rows if row["study"] == name}
        known = [(_request(row), _end(row)) for _, row in sorted(self.rows.items())]
        known = [pair for pair in known if pair[0].search in self.search.entries]
        ends = {request.trial_id: end for request, end in known}
        self.search.replay([request for request, _ in known], ends)

    def advance(self) -> int:
        """Run the next few trials; how many they were: none where all have ended."""
        asked = list(islice(iter(self.search.next, None), PACK))
        packs: dict[tuple[str, str], list[TrialRequest]] = defaultdict(list)
        for request, _ in asked:
            spec = self.search.spec(request)
            packs[spec.dataset_key, spec.model].append(request)
        for pack in packs.values():
            started = time.process_time()
            outcomes = self._run(pack)
            seconds = (time.process_time() - started) / len(pack)
            for request, outcome in zip(pack, outcomes, strict=True):
                self.search.end(request.trial_id, ValidationResult.of(outcome))
                self.rows[request.trial_id] = self._row(request, outcome, seconds)
        return len(asked)

    def current(self) -> list[dict[str, Any]]:
        """The rows of all trials that have ended; final runs of a former best configuration are left out."""
        due = self.search.current_finals
        return [
            row for row in self.rows.values() if row["kind"] != "final" or row["trial_id"] in due
        ]

    def repeated(self, trial_id: str) -> dict[str, tuple[Any, Any]]:
        """Run a trial of the bank again: the columns `RESULTS` that come out otherwise, each as (recorded, now)."""
        known = self.rows[trial_id]
        request = _request(known)
        (outcome,) = self._run([request])
        (now,) = table([self._row(request, outcome, 0.0)]).to_pylist()
        apart = [name for name in RESULTS if repr(known[name]) != repr(now[name])]  # nan is nan
        return {name: (known[name], now[name]) for name in apart}

    def _run(self, pack: list[TrialRequest]) -> list[TrialResult]:
        together = Pack()
        running = [
            RunningTrial(
                TrialConfig(self.search.spec(request), members=len(pack)), self._part, together
            )
            for request in pack
        ]
        return together.run([partial(one.step, lambda: False) for one in running])

    def _part(self, spec: TrialSpec) -> FederatedData:
        if spec.data_key not in self._parts:
            self._parts[spec.data_key] = partition_data(spec, self._data[spec.dataset_key])
        return self._parts[spec.data_key]

    def _row(self, request: TrialRequest, outcome: TrialResult, seconds: float) -> dict[str, Any]:
        spec = self.search.spec(request)
        key = (spec.data_key, spec.model)
        if key not in self._traits:
            data = self._part(spec)
            self._traits[key] = Traits.of(data, fit_model(spec, data.dataset))
        return row(
            spec=spec,
            params=request.params,
            traits=self._traits[key],
            study=self.name,
            trial_id=request.trial_id,
            origin=request.origin,
            source=request.source,
            history=outcome.history,
            status=outcome.status,
            not_finite=outcome.not_finite,
            val_score=outcome.value,
            seconds=seconds,
            versions=versions(),
        )


def fill(filling: Filling, until: float, save: Callable[[Filling], None], every: float) -> bool:
    """Run a study until all its trials have ended (True) or the clock (`time.monotonic`) passes `until`. `save` is
    called `every` so many seconds and at the end.
    """
    saved = time.monotonic()
    while time.monotonic() < until and filling.advance():
        if time.monotonic() - saved > every:
            save(filling)
            saved = time.monotonic()
    save(filling)
    return filling.search.exhausted


def _request(row: Mapping[str, Any]) -> TrialRequest:
    """The request that a row is of."""
    of = TrialId.parse(row["trial_id"])
    return TrialRequest(
        trial_id=row["trial_id"],
        entry_id=of.entry_id,
        kind=of.kind,
        index=of.index if of.number is None else of.number,
        origin=row["origin"],
        params=parse(row["configuration"]),
        seed=row["seed"],
        partition_seed=parse(row["settings"]).get("partition_seed", 0),
        source=row["source"],
        replicate=of.replicate,
    )


def _end(row: Mapping[str, Any]) -> ValidationResult:
    """What the search may know of a row."""
    curve = dict(zip(row["evaluations"], row["val_curve"], strict=True))
    spent = {"client_steps": row["client_steps"], "sample_gradients": row["sample_gradients"]}
    at = row["evaluations"][-1] if row["evaluations"] else 0
    return ValidationResult(Status(row["status"]), row["val_score"], {}, curve, spent, at)
