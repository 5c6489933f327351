"""From Python: what is recorded, and how sweeps stand."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.api.given import by_name, name_of, no_name, place, store_of
from suite.configurations.library import TunedList, known, select_tuned
from suite.sweeps.result import Result
from suite.tracking import pages_at, usual
from trials.common.errors import UserError, unknown

if TYPE_CHECKING:
    from reports.leaderboard.board import Leaderboard
    from suite.results.report import WrittenReport


def leaderboard(
    sweep: str | Result | None = None,
    *,
    studies: str | Sequence[str] = (),
    where: Mapping[str, Any] | None = None,
    metric: str = "score",
    at: str = "rounds",
    target: float | None = None,
    storage: str | Path = "runs",
    tracking_uri: str | None = None,
) -> "Leaderboard":
    """Rank algorithms by the final runs of a sweep, of studies, or of all that the store holds: `suite leaderboard`.

    `where` are tags that runs must have, as in `{"dataset": "digits"}`; `metric` is score, best,
    worst_clients, client_spread, personal, fine_tuned, loss or top5; `at` compares at equal rounds, steps,
    bytes or simulated seconds; `target` is the test score for rounds to target.
    """
    from suite.results.leaderboards import read_leaderboard
    from suite.results.query import Query

    name = name_of(sweep)
    names = (studies,) if isinstance(studies, str) else tuple(studies)
    query = Query(name, names, _tags(where), metric, target, at)
    return read_leaderboard(store_of(sweep, storage, tracking_uri), query)


def report(
    sweep: str | Result | None = None,
    *,
    where: Mapping[str, Any] | None = None,
    output: str | Path | None = None,
    figures: Sequence[str] = (),
    server: str | None = None,
    aliases: Mapping[str, str] | None = None,
    storage: str | Path = "runs",
    tracking_uri: str | None = None,
) -> "WrittenReport":
    """One self-contained HTML page of a sweep, of a study, or of all that the store holds, and its `figures` as files
    ("svg", "png", "pdf"): `suite report`. `aliases` are names for data sets. `page` is where it lies.
    """
    from reports.charts.drawing import FORMS
    from suite.results.query import Query, whose
    from suite.results.report import write

    name = name_of(sweep)
    folder = place(storage) / "report" / (name or "all")
    if output is not None:
        folder = place(output, "output")
    forms = (figures,) if isinstance(figures, str) else tuple(figures)
    for form in forms:
        if form not in FORMS:
            raise unknown("form of figures", form, FORMS)
    store = store_of(sweep, storage, tracking_uri)
    own, studies, _ = whose(store, name) if name is not None else (None, (), "")
    query = Query(own, studies, _tags(where))
    return write(store, query, folder, pages_at(server, usual(tracking_uri)), forms, aliases)


def status(
    sweep: str | Result | None = None, *, storage: str | Path = "runs"
) -> dict[str, Any] | list[dict[str, Any]]:
    """How far a sweep is, and which methods lead, as `suite status --json` has it; without a name a list of all sweeps."""
    from suite.sweeps.status import status as read
    from suite.sweeps.status import sweeps

    name, folder = name_of(sweep), _folder(sweep, storage)
    return [read(folder, each) for each in sweeps(folder)] if name is None else read(folder, name)


def stop(sweep: str | Result, *, now: bool = False, storage: str | Path = "runs") -> bool:
    """End a sweep that another process runs: `suite stop`; whether one on this machine does. Running trials finish, but
    with `now` it ends within seconds.
    """
    from suite.sweeps.status import ask

    name = name_of(sweep)
    if name is None:
        raise UserError("sweep: must be the name of a sweep, not None")
    return ask(_folder(sweep, storage), name, "cancel" if now else "stop")


def tuned(
    algorithm: str | None = None,
    dataset: str | None = None,
    model: str | None = None,
    heterogeneity: str | None = None,
    *,
    storage: str | Path = "runs",
    tracking_uri: str | None = None,
) -> TunedList:
    """The tuned configurations that match, recorded and imported ones: those of a data set and level together,
    of each the best validation score first.
    """
    names = {"algorithm": algorithm, "dataset": dataset, "model": model}
    by_name({**names, "heterogeneity": heterogeneity})
    found = known(place(storage), usual(tracking_uri))
    return select_tuned(found, algorithm, dataset, model, heterogeneity)


def _tags(where: Mapping[str, Any] | None) -> dict[str, str]:
    """The tags that runs must have."""
    if where is not None and not isinstance(where, Mapping):
        raise no_name("where", where)
    return {key.removeprefix("suite."): str(value) for key, value in (where or {}).items()}


def _folder(sweep: str | Result | None, storage: str | Path) -> Path:
    """The storage of a sweep."""
    return Path(sweep.summary.storage).parent if isinstance(sweep, Result) else place(storage)
