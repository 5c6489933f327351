"""The records of several stores and bundles, read as one."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property

from suite.console import say
from suite.tracking.reader import Histories, Reader
from suite.tracking.record import Record
from suite.tracking.schema.tags import RunKind, Tags
from trials.common.errors import UserError

KINDS = (
    *(RunKind.SWEEP, RunKind.ENTRY, RunKind.SEARCH, RunKind.FINAL),
    RunKind.LEADERBOARD,
)
"""What leaderboards are made of."""


class Several(Reader):
    """Records of readers, in their order, each by its name. A sweep that several of them hold counts once, as
    the first has it; another one of the same name gets the name of where it is from: `quickstart@theirs`.
    """

    def __init__(self, readers: Sequence[tuple[str, Reader]]) -> None:
        super().__init__()
        self._readers = readers
        self.uri = " + ".join(reader.uri for _, reader in readers)
        self.options = readers[0][1].options if len(readers) == 1 else []

    @cached_property
    def _held(self) -> dict[str, tuple[Record, Reader]]:
        found: dict[str, tuple[Record, Reader]] = {}
        whose: dict[str, str] = {}
        for name, reader in self._readers:
            records = [run for kind in KINDS for run in reader.find(kind=kind)]
            sweeps = [run for run in records if run.tags.kind == RunKind.SWEEP]
            known = {_sweep(run) for run in sweeps if run.run_id in found}
            taken = {_sweep(run) for run in sweeps} & whose.keys() - known
            for run in records:
                if run.run_id in found:  # a later source takes nothing from an earlier one
                    continue
                if _sweep(run) in taken:
                    found[run.run_id] = _renamed(run, f"{_sweep(run)}@{name}"), reader
                elif _sweep(run) not in known:
                    found[run.run_id] = run, reader
            for sweep in sorted(taken):
                say(
                    f"{name}: its sweep {sweep} is shown as {sweep}@{name}, since {whose[sweep]} has one"
                )
            whose = {_sweep(run): name for run in sweeps} | whose
        return found

    def find(self, **tags: str) -> list[Record]:
        """Runs with these tags of all readers, each reader's oldest first."""
        records = (record for record, _ in self._held.values())
        return [r for r in records if all(r.tags.get(k) == v for k, v in tags.items())]

    def get(self, run_id: str) -> Record:
        """The run of this id; raises `UserError` when there is none."""
        if run_id not in self._held:
            raise UserError(f"there is no run {run_id!r} in {self.uri}")
        return self._held[run_id][0]

    def check_sweep(self, name: str) -> None:
        """Raise `FormatError` where a reader has a sweep of this name in a format that is not read."""
        for _, reader in self._readers:
            reader.check_sweep(name)

    def history(self, run_id: str, metric: str) -> list[tuple[int, float]]:
        """(round, value) of a metric, in order of rounds."""
        return self._held[run_id][1].history(run_id, metric)

    def histories(self, run_ids: Sequence[str], metric: str) -> Histories:
        """The `history` of a metric in each of these runs, by the run's id: a question a reader."""
        found: dict[str, Collection[tuple[int, float]]] = {}
        for _, reader in self._readers:
            theirs = [run_id for run_id in run_ids if self._held[run_id][1] is reader]
            found |= reader.histories(theirs, metric)
        return found


def _sweep(run: Record) -> str:
    return run.tags.get("sweep", "")


def _renamed(record: Record, sweep: str) -> Record:
    tags = Tags({**record.tags, "sweep": sweep}, record.run_id)
    return replace(record, tags=tags)
