"""The trials that a store holds as rows of the bank."""

from collections.abc import Iterable
from functools import cache
from typing import Any

from suite.bank.rows import Traits, row
from suite.console import say
from suite.results.query import Query
from suite.tracking.reader import Reader
from suite.tracking.record import Record
from suite.tracking.schema.tags import RunKind
from trials.common.errors import UserError
from trials.run.spec import TrialSpec
from trials.run.trial import fit_model, load_dataset, partition_data
from trials.scoring.metrics import COSTS

COUNTERS = ("client_steps", "sample_gradients", *COSTS["bytes"])


def exported(store: Reader, query: Query, data_root: str | None) -> list[dict[str, Any]]:
    """The rows of all search, confirming and final trials that have ended. Those of data that are not here have no
    measured traits, which is said.
    """
    kinds = (RunKind.SEARCH, RunKind.FINAL)
    runs = [run for kind in kinds for run in query.find(store, kind, **query.scope) if run.over]
    runs = [run for run in runs if run.metrics]
    if not runs:
        raise UserError(f"{store.uri} holds no trial that is asked for")
    measure = Survey(data_root)
    return [_row(run, curve, measure(run.tags.spec)) for run, curve in _curves(store, runs)]


class Survey:
    """The traits of specs' federations, each measured once."""

    def __init__(self, data_root: str | None) -> None:
        self._root = data_root
        self._loaded = cache(lambda key: load_dataset(self._specs[key], self._root))
        self._specs: dict[str, TrialSpec] = {}
        self._found: dict[tuple[str, str], Traits | None] = {}

    def __call__(self, spec: TrialSpec) -> Traits | None:
        """Those of a spec; None where its data cannot be had, which is said once."""
        key = (spec.data_key, spec.model)
        if key not in self._found:
            self._specs[spec.dataset_key] = spec
            try:
                dataset = self._loaded(spec.dataset_key)
                self._found[key] = Traits.of(
                    partition_data(spec, dataset), fit_model(spec, dataset)
                )
            except UserError as error:
                say(f"{spec.scenario} is not measured: {str(error).splitlines()[0]}")
                self._found[key] = None
        return self._found[key]


def _curves(store: Reader, runs: list[Record]) -> Iterable[tuple[Record, list[dict[str, float]]]]:
    """Each run with its evaluations; the last has the run's counters."""
    metrics = {f"{part}_{run.tags.metric}" for run in runs for part in ("val", "test")}
    for run, curve in zip(runs, store.curves(runs, sorted(metrics)), strict=True):
        last = {name: run.metrics[name] for name in COUNTERS if name in run.metrics}
        yield run, [*curve[:-1], {**curve[-1], **last}] if curve else []


def _row(run: Record, history: list[dict[str, float]], traits: Traits | None) -> dict[str, Any]:
    tags = run.tags
    return row(
        spec=tags.spec,
        params=tags.params,
        traits=traits,
        study=tags.study,
        trial_id=tags.trial_id,
        origin=tags.origin,
        source=tags.get("source"),
        history=history,
        status=tags.status,
        not_finite=tags.not_finite or (),
        val_score=run.metrics.get("val_score"),
        seconds=(run.ended or run.began) - run.began,
        versions=tags,
    )
