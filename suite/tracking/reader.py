"""What recorded runs are read from."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from suite.console import say
from suite.tracking.record import Record

Histories = Mapping[str, Collection[tuple[int, float]]]
"""(round, value) of a metric, by run."""


class Reader(ABC):
    """Recorded runs, as all that reads them asks for them. `uri` says in messages where they are, `options`
    how commands are told of it, where it is not the usual place.
    """

    uri: str
    options: list[str]

    def __init__(self) -> None:
        self._said: set[str] = set()

    @abstractmethod
    def find(self, **tags: str) -> list[Record]:
        """Runs with these tags, oldest first, with those that cannot be read."""

    @abstractmethod
    def get(self, run_id: str) -> Record:
        """The run of this id; raises `UserError` when there is none."""

    @abstractmethod
    def history(self, run_id: str, metric: str) -> list[tuple[int, float]]:
        """(round, value) of a metric, in order of rounds; what was written twice is there once."""

    def sound(self, **tags: str) -> list[Record]:
        """Runs with these tags in all experiments, oldest first; without those that cannot be read
        (`Record.fault`), which are said once.
        """
        found = [(run, run.fault) for run in self.find(**tags)]
        self.pass_over((run, fault) for run, fault in found if fault)
        return [run for run, fault in found if not fault]

    def check_sweep(self, name: str) -> None:
        """Raise `FormatError` where a sweep of this name is here in a format that is not read."""
        return

    def pass_over(self, found: Iterable[tuple[Record, str]]) -> None:
        """Say of runs what of them cannot be read: each once, in one line for those of a sweep."""
        new = [(run, fault) for run, fault in found if run.run_id not in self._said]
        self._said.update(run.run_id for run, _ in new)
        for (sweep, fault), count in Counter((r.tags.get("sweep"), f) for r, f in new).items():
            runs = "1 run" if count == 1 else f"{count} runs"
            of = "no sweep" if sweep is None else f"sweep {sweep}"
            say(f"{runs} of {of} could not be read: {fault}")

    def curve(self, record: Record, metrics: Iterable[str]) -> list[dict[str, float]]:
        """These metrics of a run as its history: one entry a round at which any was recorded."""
        return self.curves([record], metrics)[0]

    def curves(
        self, records: Sequence[Record], metrics: Iterable[str]
    ) -> list[list[dict[str, float]]]:
        """The `curve` of each of several runs."""
        found: list[dict[int, dict[str, float]]] = [{} for _ in records]
        for metric in dict.fromkeys(metrics):
            having = [record.run_id for record in records if metric in record.metrics]
            values = self.histories(having, metric)
            for record, rounds in zip(records, found, strict=True):
                for at, value in values.get(record.run_id, ()):
                    rounds.setdefault(at, {"round": at})[metric] = value
        return [[rounds[at] for at in sorted(rounds)] for rounds in found]

    def histories(self, run_ids: Sequence[str], metric: str) -> Histories:
        """The `history` of a metric in each of these runs, by the run's id."""
        return {run_id: self.history(run_id, metric) for run_id in run_ids}


class Together(Reader):
    """Another reader, which asks for a metric of all of these runs when the first of them is asked for it: a
    question a metric instead of one a run.
    """

    def __init__(self, reader: Reader, records: Sequence[Record]) -> None:
        super().__init__()
        self._reader, self._records = reader, records
        self.uri, self.options = reader.uri, reader.options
        self._found: dict[str, Histories] = {}

    def find(self, **tags: str) -> list[Record]:
        """Runs with these tags, as the reader has them."""
        return self._reader.find(**tags)

    def get(self, run_id: str) -> Record:
        """The run of this id, as the reader has it."""
        return self._reader.get(run_id)

    def history(self, run_id: str, metric: str) -> list[tuple[int, float]]:
        """(round, value) of a metric, in order of rounds, of one of the runs."""
        if metric not in self._found:
            having = [run.run_id for run in self._records if metric in run.metrics]
            self._found[metric] = self._reader.histories(having, metric)
        return sorted(self._found[metric].get(run_id, ()))
