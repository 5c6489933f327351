"""What a sweep needs before its first trial: its store, and the configurations its entries start from."""

from collections.abc import Sequence
from pathlib import Path

from suite.configurations.library import list_tuned
from suite.configurations.warm_start import NEAREST, tuned_files, warm_start
from suite.console import say
from suite.search.trial import InitialConfiguration
from suite.studies.entry import Entry
from suite.sweeps.journal.events import SweepState
from suite.sweeps.journal.paths import SweepPaths
from suite.tracking.store import Store
from trials.common.errors import UserError


def open_store(paths: SweepPaths) -> Store:
    """The store of a sweep; raises `UserError` where it has one of this name that is not in the folder, or that
    another version recorded.
    """
    say("opening the store")
    store = Store(paths.tracking_uri, paths.storage)
    if store.sweeps(paths.name) and not paths.begun:
        raise UserError(
            f"{store.uri} holds a sweep {paths.name!r} that was not run in {paths.storage}, or "
            "whose folder there is gone: choose another --name, or its --storage"
        )
    return store


def starts(
    where: str | None, entries: Sequence[Entry], paths: SweepPaths, state: SweepState
) -> dict[str, list[InitialConfiguration]]:
    """What the entries start from: as journaled, and looked up `where` a study says for those that are
    new. Raises `UserError` where nothing there is of these algorithms.
    """
    warm = dict(state.begun.warm) if state.begun else {}
    new = [entry for entry in entries if entry.id not in warm]
    if where is None or not new:
        return warm
    if where == NEAREST:
        found = list_tuned(paths.storage, paths.tracking_uri)
        found = [t for t in found if t.provenance.get("sweep") != paths.name]
    else:
        found = tuned_files(Path(where))
    warm |= warm_start(new, found)
    if not any(warm.values()):
        raise UserError(f"warm_start {where}: holds no configuration of these algorithms")
    return warm
