"""`save: best`: of each entry the model of the final run that validated best, kept and recorded."""

from collections.abc import Mapping
from pathlib import Path

from suite.configurations.configuration import relative_path
from suite.console import say
from suite.runs.saving import save
from suite.search.sweep_search import SweepSearch
from suite.search.trial import TrialRequest
from suite.sweeps.journal.paths import SweepPaths
from suite.tracking.models import log_model
from suite.tracking.schema.tags import spec_params
from suite.tracking.store import Store
from trials.common.errors import UserError
from trials.run.checkpoint import Checkpoint
from trials.run.outcome import Status, TrialKind
from trials.run.result import TrialResult
from trials.run.saved_model import SavedModel, read


def keep_best(
    store: Store,
    search: SweepSearch,
    finals: Mapping[str, TrialResult],
    runs: Mapping[str, str],
    paths: SweepPaths,
) -> None:
    """Write `dataset/heterogeneity/model/algorithm/` among the sweep's models, and log it as a model of
    MLflow's with its final run (`runs`, by trial id). Test scores choose nothing.
    """
    kept = []
    for entry_id, of in search.entries.items():
        requests = [search.requests[i] for i in finals if search.requests[i].entry_id == entry_id]
        best = _best(requests, finals, of.entry.task.sign)
        if best is None:
            continue
        spec = search.spec(best)
        place = paths.models / relative_path(spec.algorithm, spec.scenario)
        content = Checkpoint(paths.model(best.trial_id)).load()
        if content is not None:
            save(SavedModel.from_content(content), place)
        elif not _holds(place, best, search):
            say(
                f"{of.entry.name}: the model of its best final run, of an earlier session, is not "
                f"kept; `suite run --tuned --seed {best.seed} --save DIR` makes it again"
            )
            continue
        rounds = finals[best.trial_id].last_round
        kept.append((runs.get(best.trial_id), place, rounds, spec_params(spec)))
    for run_id, place, rounds, params in kept:  # once all are saved: a store may refuse them
        if run_id:
            log_model(store, run_id, place, rounds, params)


def _best(
    requests: list[TrialRequest], finals: Mapping[str, TrialResult], sign: int
) -> TrialRequest | None:
    """The final run with the best validation score, of equally good ones the first."""
    able = [
        request
        for request in requests
        if request.kind == TrialKind.FINAL
        and finals[request.trial_id].status == Status.FINISHED
        and finals[request.trial_id].value is not None
    ]
    return max(
        able, key=lambda request: sign * (finals[request.trial_id].value or 0.0), default=None
    )


def _holds(place: Path, request: TrialRequest, search: SweepSearch) -> bool:
    """Whether a folder has the model of this run."""
    try:
        return read(place).card.spec == search.spec(request)
    except UserError:
        return False
