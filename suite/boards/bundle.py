"""A bundle: the records behind leaderboards as plain files, with a list of their hashes.

    bundle.json                   the list, versions, machine, hashes of code of others
    board.json                    the leaderboard's rows, for who reads them without the suite
    sweeps/NAME/study.yaml        the study as it was run
    sweeps/NAME/records.json      its sweep, entries and published rows
    sweeps/NAME/searches.json     its search trials: what was tried, and the scores
    sweeps/NAME/finals.json       its final runs: their whole specification and every metric by round
    tuned/NAME/...                the tuned files of its rows

Reading one runs nothing: JSON into declared types, YAML safely, no path but those of the list.
"""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator

from suite import json_files
from suite.boards.files import read_files
from suite.boards.folders import digest
from suite.formats import check_format
from suite.tracking.reader import Reader
from suite.tracking.record import LARGEST, Record
from suite.tracking.schema.tags import Tags
from trials.common.errors import UserError

LISTING, BOARD = "bundle.json", "board.json"
SIGN = "a bundle of suite publish"
"""In every zip of a bundle and in its list, so that it is known again."""
RECORDS = ("records", "finals", "searches")
Second = Annotated[float, Field(ge=0, le=253_402_300_799)]
"""A time in seconds since 1970, up to the year 9999."""
Value = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]


class Stretch(BaseModel):
    """Metrics that were recorded at the same rounds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rounds: list[int]
    values: dict[str, list[Value]]

    @model_validator(mode="after")
    def _as_long(self) -> Self:
        for name, values in self.values.items():
            if len(values) != len(self.rounds):
                raise ValueError(f"{name} has {len(values)} values at {len(self.rounds)} rounds")
        return self


class Kept(BaseModel):
    """A recorded run; `curve` has its metrics by round where they are published."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    run_id: str
    tags: dict[str, str]
    metrics: dict[str, Value]
    began: Second
    ended: Second | None
    curve: list[Stretch] = []

    def record(self) -> Record:
        """As it was recorded."""
        tags = Tags(self.tags, self.run_id)
        return Record(self.run_id, tags, {}, self.metrics, self.began, self.ended)


KEPT = TypeAdapter(Kept)


class Rows(BaseModel):
    """The leaderboard's rows."""

    rows: list[dict[str, Any]]


class Listed(BaseModel):
    """A file of the list."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sha256: str
    bytes: int


class BundleListing(BaseModel):
    """The list of a bundle. `machine` is what published it, `code` the SHA-256 of others' code that its runs
    ran, by name.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    made_by: str
    format: int
    date: str
    versions: dict[str, str]
    machine: dict[str, str]
    sweeps: list[str]
    code: dict[str, str]
    files: dict[str, Listed]


class Made(BaseModel):
    """What of a list is read first: of another format nothing else is known."""

    format: int


_MADE, _LISTING = TypeAdapter(Made), TypeAdapter(BundleListing)
_KEPT, _ROWS = TypeAdapter(list[Kept]), TypeAdapter(Rows)


class Bundle(Reader):
    """A bundle that was read, and is as its list says."""

    def __init__(self, name: str, listing: BundleListing, files: Mapping[str, bytes]) -> None:
        super().__init__()
        self.name, self.listing, self.files = name, listing, files
        self.uri, self.options = f"bundle {name}", []

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a folder or a zip. Raises `UserError` where it is no bundle, or a file is missing, is not in
        the list, or is not what the list says.
        """
        files = read_files(path)
        if LISTING not in files:
            raise UserError(f"{path} is no bundle: it has no {LISTING}")
        written, where = files.pop(LISTING), f"bundle {path}: {LISTING}"
        check_format(f"bundle {path}", json_files.read(written, _MADE, where).format)
        listing = json_files.read(written, _LISTING, where)
        for name in sorted(files.keys() | listing.files):
            if name not in files:
                raise UserError(f"bundle {path}: {name} is listed but missing")
            if name not in listing.files:
                raise UserError(f"bundle {path}: {name} is not listed")
            if digest(files[name]) != listing.files[name].sha256:
                raise UserError(
                    f"bundle {path}: {name} was changed: its SHA-256 is {digest(files[name])}, and its list "
                    f"says {listing.files[name].sha256}"
                )
        return cls(path.absolute().name.removesuffix(".zip"), listing, files)

    def with_code(self, place: Path) -> Self:
        """The bundle whose runs take others' code from a file, or from below a folder: from the file with the SHA-256
        that was published. Raises `UserError` where there is none.
        """
        if not place.exists():
            raise UserError(f"code: {place} does not exist")
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
        there = {digest(file.read_bytes()): file.resolve() for file in files}
        moved: dict[str, str] = {}
        for name, sha256 in self.listing.code.items():
            if sha256 not in there:
                raise UserError(f"{self.uri}: no file in {place} is {name}, SHA-256 {sha256}")
            moved[f"{name.rpartition(':')[0]}:"] = f"{there[sha256]}:"

        def change(content: bytes) -> bytes:
            for before, now in moved.items():
                content = content.replace(before.encode(), now.encode())
            return content

        listing = _LISTING.validate_json(change(_LISTING.dump_json(self.listing)))
        return type(self)(self.name, listing, {k: change(of) for k, of in self.files.items()})

    @cached_property
    def _kept(self) -> dict[str, Kept]:
        found: dict[str, Kept] = {}
        for sweep in self.listing.sweeps:
            for part in RECORDS:
                path = f"sweeps/{sweep}/{part}.json"
                if path not in self.files:
                    raise UserError(f"{self.uri}: {path} is missing")
                for kept in json_files.read(self.files[path], _KEPT, f"{self.uri}: {path}"):
                    if kept.run_id in found:
                        raise UserError(f"{self.uri}: {path} has run {kept.run_id!r} twice")
                    found[kept.run_id] = kept
        return dict(sorted(found.items(), key=lambda item: item[1].began))

    @cached_property
    def _records(self) -> list[Record]:
        return [kept.record() for kept in self._kept.values()]

    @property
    def tuned(self) -> dict[str, str]:
        """The tuned files by their paths."""
        return {
            path: content.decode(errors="replace")
            for path, content in self.files.items()
            if path.startswith("tuned/")
        }

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of the leaderboard as they were published; raises `UserError` where there are none."""
        if BOARD not in self.files:
            raise UserError(f"{self.uri}: {BOARD} is missing")
        return json_files.read(self.files[BOARD], _ROWS, f"{self.uri}: {BOARD}").rows

    def find(self, **tags: str) -> list[Record]:
        """Runs with these tags, oldest first, with those that cannot be read."""
        return [r for r in self._records if all(r.tags.get(k) == v for k, v in tags.items())]

    def get(self, run_id: str) -> Record:
        """The run of this id; raises `UserError` when there is none."""
        if run_id not in self._kept:
            raise UserError(f"there is no run {run_id!r} in {self.uri}")
        return self._kept[run_id].record()

    def history(self, run_id: str, metric: str) -> list[tuple[int, float]]:
        """(round, value) of a metric, in order of rounds."""
        for stretch in self._kept[run_id].curve:
            if metric in stretch.values:
                return list(zip(stretch.rounds, stretch.values[metric], strict=True))
        return []
