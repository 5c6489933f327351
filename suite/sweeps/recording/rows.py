"""A sweep's trials as the rows of its table, made of what its journal says."""

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from suite.results.table import (
    SEARCH_CURVES,
    EntryFacts,
    TrialTable,
    curve_columns,
    rows_table,
)
from suite.search.trial import InitialConfiguration, TrialRequest, ValidationResult
from suite.studies.entry import Entry
from suite.studies.replicates import Replicate
from suite.studies.study import Study
from suite.tracking.schema.tags import dumps
from trials import algorithms
from trials.common.lazy import Lazy
from trials.run.result import TrialResult
from trials.run.trial_id import TrialId
from trials.scoring.metrics import COUNTED, TASKS, reach, untrained

pa: Any = Lazy("pyarrow")
AT_ONCE = 500
"""So many rows wait until they become a part of the table: as Python objects they take ten times the memory."""
ERROR = 5000
"""Characters of a traceback that are kept, its last ones."""


class TrialRows:
    """The rows of the trials that have ended, which grow as further ones do.

    `warm` are the configurations that entries start from, `versions` those of this session; `names` are those of sweep and study.
    `before` is the table of an earlier session, whose rows are taken as they are where the trials are among `ended`.
    """

    def __init__(
        self,
        names: tuple[str, str],
        study: Study,
        entries: Iterable[Entry],
        warm: Mapping[str, Sequence[InitialConfiguration]],
        versions: Mapping[str, str],
        before: TrialTable | None = None,
        ended: Collection[str] = (),
    ) -> None:
        self.study, self.names, self.versions = study, names, versions
        self.entries = {entry.id: entry for entry in entries}
        self._alike = {
            entry.id: _alike(entry, warm.get(entry.id, ())) for entry in self.entries.values()
        }
        self._under = lru_cache(maxsize=1000)(self._settings)
        self._pending: list[dict[str, Any]] = []
        self._parts: list[Any] = []
        self.there: set[str] = set()
        if before is not None:
            self._take(before, set(ended))

    def _take(self, before: TrialTable, ended: set[str]) -> None:
        found = before.whole()
        ids = found["trial_id"].to_pylist()
        kept = [number for number, trial_id in enumerate(ids) if trial_id in ended]
        self._parts.append(found.take(pa.array(kept, pa.int64())))
        self.there = set(ids) & ended

    def add(self, request: TrialRequest, outcome: TrialResult) -> None:
        """Add a trial that has ended; `outcome` has its whole history."""
        self._pending.append(self._row(request, outcome))
        if len(self._pending) >= AT_ONCE:
            self._settle()

    def _settle(self) -> None:
        if self._pending:
            self._parts.append(rows_table(self._pending))
            self._pending = []

    def table(self, recorded: Mapping[str, str], finals: Collection[str]) -> Any:
        """Return all rows as a `pyarrow.Table`, with the runs that record them; final runs that are not among `finals` are
        superseded.
        """
        self._settle()
        found = pa.concat_tables([rows_table([]), *self._parts]).combine_chunks()
        self._parts = [found]
        ids, kinds = found["trial_id"].to_pylist(), found["kind"].to_pylist()
        runs = [recorded.get(trial_id, "") for trial_id in ids]
        now = [
            ("final" if trial_id in finals else "superseded")
            if kind in ("final", "superseded")
            else kind
            for trial_id, kind in zip(ids, kinds, strict=True)
        ]
        for name, values in (("kind", now), ("run_id", runs)):
            place = found.schema.get_field_index(name)
            found = found.set_column(place, name, pa.array(values, pa.string()))
        order = [("entry_id", "ascending"), ("trial_id", "ascending")]
        return found.sort_by(order)

    def _row(self, request: TrialRequest, outcome: TrialResult) -> dict[str, Any]:
        entry, name = self.entries[request.entry_id], TrialId.parse(request.trial_id)
        of, metric = Replicate.parse(request.replicate), entry.task.metric
        own = algorithms.resolve(entry.algorithm).ranges()
        moved = {key: value for key, value in request.params.items() if key not in own}
        alike = entry.id, request.partition_seed, of.split, request.counted, dumps(moved)
        last = outcome.history[-1] if outcome.history else {}
        pooled = TASKS[metric].pooled
        return {
            "sweep": self.names[0],
            "study": self.names[1],
            "trial_id": request.trial_id,
            "kind": str(request.kind),
            **self._alike[entry.id],
            **self._under(*alike),
            "replicate": request.replicate,
            "split": of.split,
            "partition": of.partition,
            "tuning": of.tuning,
            "number": name.index,
            "origin": request.origin,
            "source": request.source,
            "params": dumps(request.params),
            "seed": request.seed,
            "status": str(outcome.status),
            "not_finite": " ".join(outcome.not_finite) or None,
            "error": outcome.error[-ERROR:] or None,
            "last_round": outcome.last_round,
            "val_score": _finite(outcome.value) if outcome.history else None,
            "test_score": outcome.tested(metric),
            "worst_clients": _of_clients(outcome, f"test_{pooled}_worst10", metric),
            "client_spread": _of_clients(outcome, f"test_{pooled}_spread", metric),
            **{key: _finite(last.get(key)) for key in COUNTED},
            **self._target(request, outcome),
            "partition_fingerprint": outcome.fingerprint,
            "execution": outcome.execution or None,
            "chunk": outcome.chunk,
            "halved": dumps(outcome.halved) if outcome.halved else None,
            "device": outcome.device or None,
            "model_note": outcome.model_note or None,
            "data_note": outcome.data_note or None,
            "seconds": outcome.seconds,
            **self.versions,
            **_curves(request, outcome, metric, pooled),
        }

    def _settings(
        self, entry_id: str, partition_seed: int, split: int, counted: bool, moved: str
    ) -> dict[str, Any]:
        """Return the settings that a trial runs under, whose configuration has the `moved` ones (JSON), and how that is ranked."""
        entry, searched = self.entries[entry_id], json.loads(moved)
        params = {**entry.space.default(), **searched}
        settings = entry.spec(searched, 0, partition_seed, split).settings
        if counted and settings.fine_tune is not None:  # which only tests
            settings = settings.model_copy(update={"fine_tune": None})
        return {
            "settings": dumps(settings.model_dump(mode="json")),
            "reference": entry.reference(params),
            "outside": entry.outside(params),
        }

    def _target(self, request: TrialRequest, outcome: TrialResult) -> dict[str, Any]:
        """Return what a row says of the study's target and constraints."""
        entry, target = self.entries[request.entry_id], self.study.target
        metric = entry.task.metric
        found: dict[str, Any] = {}
        if target is not None and not request.counted:
            lost = outcome.lost(f"test_{metric}")
            reached = {} if lost else reach(outcome.history, metric, target)
            found = {"reached": bool(reached), **reached}
        if entry.constraints:
            end = ValidationResult.of(outcome)
            found["feasible"] = end.feasible(entry, target)
            if request.counted and "rounds_to_target" in entry.constraints:
                found["rounds_to_target"] = end.cost("rounds_to_target", entry, target)
        return found


def entry_facts(entries: Iterable[Entry], before: TrialTable | None = None) -> list[EntryFacts]:
    """Return what a table says of entries, with the rows and tuned files that an earlier one had of them."""
    brought_in = {of.id: (of.row, of.tuned) for of in before.facts.entries} if before else {}
    found = []
    for entry in entries:
        row, tuned = brought_in.get(entry.id, ("", ""))
        found.append(
            EntryFacts(
                id=entry.id,
                name=entry.name,
                **entry.about(),
                reference=entry.reference(),
                space=dict(entry.space.searched),
                row=row,
                tuned=tuned,
            )
        )
    return found


def _alike(entry: Entry, warm: Sequence[InitialConfiguration]) -> dict[str, Any]:
    """Return what all rows of an entry have alike."""
    sources = dict.fromkeys(known.source for known in warm if known.source)
    return {
        "entry_id": entry.id,
        "entry": entry.name,
        "paper": entry.paper,
        "away": entry.away,
        "warm_start": "; ".join(sources) or None,
        **entry.about(),
    }


def _of_clients(outcome: TrialResult, name: str, metric: str) -> float | None:
    """Return a metric over clients as the run ended; of a run that is lost, the untrained model's."""
    last = outcome.last(name)
    lost = last is not None and outcome.lost(f"test_{metric}")
    return untrained(outcome.history, name) if lost else last


def _curves(
    request: TrialRequest, outcome: TrialResult, metric: str, pooled: str
) -> dict[str, list[float] | None]:
    """Return the history of a trial, what is not finite as NaN; None for what none of its evaluations has."""
    found: dict[str, list[float] | None] = {}
    for column, name in curve_columns(metric, pooled).items():
        if request.counted and column not in SEARCH_CURVES:
            continue
        values = [entry.get(name, math.nan) for entry in outcome.history]
        there = any(math.isfinite(value) for value in values)
        found[column] = [v if math.isfinite(v) else math.nan for v in values] if there else None
    if outcome.history:
        found["round"] = [int(entry["round"]) for entry in outcome.history]
    return found


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
