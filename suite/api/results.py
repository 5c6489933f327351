"""From Python: what is recorded, and how sweeps stand."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suite.api.given import by_name, name_of, no_name, place
from suite.configurations.library import TunedList, known, select_tuned
from suite.sweeps.result import Result
from suite.sweeps.tables import open_tables
from suite.tracking import pages_at, usual
from trials.common.errors import UserError, unknown

if TYPE_CHECKING:
    import optuna
    import pandas as pd

    from reports.page.notebook import ShownBoard
    from suite.results.report import WrittenReport
    from suite.results.tables import Tables


def load(
    *sources: str | Path | Result,
    curves: bool = False,
    storage: str | Path = "runs",
    tracking_uri: str | None = None,
) -> "pd.DataFrame":
    """Load the trials of sweeps, a row each, as docs/table.md says.

    `sources` are names of sweeps or studies, or paths of tables (`trials.parquet`); without any, all sweeps of the storage, or of
    the tracking server. With `curves` their curves are columns too.
    """
    from suite.results.table import CURVES, PLAIN

    columns = [*PLAIN, *(CURVES if curves else ())]
    files, names = _sources(sources)
    results = [source for source in sources if isinstance(source, Result)]
    if results:
        storage = _folder(results[0], storage)
    tables = open_tables(place(storage), usual(tracking_uri), files)
    found = [tables.of(name) for name in names] or [tables.of(None)]
    named = [source for part in found for source in part.sources]
    whole = replace(tables, sources=list(dict.fromkeys(named)), named=bool(names))
    return whole.frame(columns)


def leaderboard(
    sweep: str | Path | Result | None = None,
    *more: str | Path,
    studies: str | Sequence[str] = (),
    where: Mapping[str, Any] | None = None,
    metric: str = "score",
    at: str = "rounds",
    target: float | None = None,
    storage: str | Path = "runs",
    tracking_uri: str | None = None,
) -> "ShownBoard":
    """Rank algorithms by the final runs of a sweep, of studies, of tables (paths), or of all that there are: `suite leaderboard`.

    `where` are values of columns, as in `{"dataset": "digits"}`; `metric` is score, best,
    worst_clients, client_spread, personal, fine_tuned, loss or top5; `at` compares at equal rounds, steps,
    bytes or simulated seconds; `target` is the test score for rounds to target.
    """
    from reports.page.notebook import ShownBoard
    from suite.results.leaderboards import read_leaderboard
    from suite.results.query import Query

    tables, name = _tables(sweep, more, storage, tracking_uri)
    names = (studies,) if isinstance(studies, str) else tuple(studies)
    query = Query(name, names, _values(where), metric, target, at)
    return ShownBoard.of(read_leaderboard(tables, query))


def report(
    sweep: str | Path | Result | None = None,
    *more: str | Path,
    where: Mapping[str, Any] | None = None,
    output: str | Path | None = None,
    figures: Sequence[str] = (),
    server: str | None = None,
    aliases: Mapping[str, str] | None = None,
    storage: str | Path = "runs",
    tracking_uri: str | None = None,
) -> "WrittenReport":
    """One self-contained HTML page of a sweep, of a study, of tables (paths), or of all that there are, and its `figures` as files
    ("svg", "png", "pdf"): `suite report`. `aliases` are names for data sets. `page` is where it lies.
    """
    from reports.charts.drawing import FORMS
    from suite.results.query import Query
    from suite.results.report import write

    forms = (figures,) if isinstance(figures, str) else tuple(figures)
    for form in forms:
        if form not in FORMS:
            raise unknown("form of figures", form, FORMS)
    tables, name = _tables(sweep, more, storage, tracking_uri)
    files, _ = _sources([each for each in (sweep, *more) if each is not None])
    folder = place(storage) / "report" / (name or "-".join(path.stem for path in files) or "all")
    if output is not None:
        folder = place(output, "output")
    query = Query(name, where=_values(where))
    return write(tables, query, folder, pages_at(server, usual(tracking_uri)), forms, aliases)


def status(
    sweep: str | Result | None = None, *, storage: str | Path = "runs"
) -> dict[str, Any] | list[dict[str, Any]]:
    """How far a sweep is, and which methods lead, as `suite status --json` has it; without a name a list of all sweeps."""
    from suite.sweeps.status import status as read
    from suite.sweeps.status import sweeps

    name, folder = name_of(sweep), _folder(sweep, storage)
    return [read(folder, each) for each in sweeps(folder)] if name is None else read(folder, name)


def study(
    sweep: str | Path | Result,
    entry: str,
    *,
    storage: str | Path = "runs",
    tracking_uri: str | None = None,
) -> "optuna.Study":
    """Return the search of an entry of a sweep as an `optuna.Study`, for `optuna.visualization` and `optuna.importance`.

    `entry` is an entry's id or name as `status` has them, or an algorithm that has one entry only. Values are validation scores.
    """
    from suite.results.study import study_of

    tables, name = _tables(sweep, (), storage, tracking_uri)
    return study_of(tables.of(name).tables[0], entry)


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


def _sources(sources: Iterable[Any]) -> tuple[list[Path], list[str]]:
    """Return the paths of tables among what is given, and the names of sweeps."""
    texts = [of.summary.name if isinstance(of, Result) else of for of in sources]
    for text in texts:
        if not isinstance(text, str | Path):
            raise no_name("sweep", text)
    files = [Path(text) for text in texts if str(text).endswith(".parquet")]
    return files, [str(text) for text in texts if not str(text).endswith(".parquet")]


def _tables(
    sweep: str | Path | Result | None,
    more: Sequence[str | Path],
    storage: str | Path,
    tracking_uri: str | None,
) -> tuple["Tables", str | None]:
    """Return the tables that are given or are at a place, and the name of the sweep that is asked for."""
    files, names = _sources([each for each in (sweep, *more) if each is not None])
    if len(names) > 1 or (files and names):
        raise UserError("sweep: give one name, or paths of tables; several studies go to studies=")
    folder = _folder(sweep, storage) if isinstance(sweep, Result) else place(storage)
    return open_tables(folder, usual(tracking_uri), files), names[0] if names else None


def _values(where: Mapping[str, Any] | None) -> dict[str, str]:
    """The values that columns must have."""
    if where is not None and not isinstance(where, Mapping):
        raise no_name("where", where)
    return {key: str(value) for key, value in (where or {}).items()}


def _folder(sweep: object, storage: str | Path) -> Path:
    """The storage of a sweep."""
    return Path(sweep.summary.storage).parent if isinstance(sweep, Result) else place(storage)
