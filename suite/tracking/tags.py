"""The tags and params of recorded runs: which there are, and how each is written and read.

A tag `x` of these is `suite.x` in the store. What is recorded is a contract: names and texts stay, and
what an earlier version did not record is absent.
"""

import contextlib
import importlib.metadata
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, overload

from trials import algorithms
from trials.errors import UserError
from trials.outcome import Outcome, Status
from trials.place import Place
from trials.spec import TrialSpec

PREFIX = "suite."
T = TypeVar("T")


class RunKind(StrEnum):
    """What a recorded run is."""

    SWEEP = "sweep"
    CELL = "cell"
    SEARCH = "search"
    FINAL = "final"
    PARETO = "pareto"
    LEADERBOARD = "leaderboard"
    """A row of the leaderboard of its sweep."""
    SUPERSEDED = "superseded"
    """A final run of what is no longer the best of its cell."""
    RUN = "run"
    REPRODUCE = "reproduce"
    TRANSFER = "transfer"


class _Tag(Generic[T]):
    def __init__(self, read: Callable[[str], T], write: Callable[[T], str] = str) -> None:
        self._read, self.write = read, write

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def value(self, tags: "Tags") -> T:
        """The tag as its type; raises `UserError` where it is missing or its text cannot be read."""
        if self.name not in tags:
            raise UserError(f"run {tags.run_id}: tag {PREFIX}{self.name} is missing")
        text = tags[self.name]
        try:
            return self._read(text)
        except ValueError:
            raise UserError(
                f"run {tags.run_id}: tag {PREFIX}{self.name} cannot be read: {text[:80]!r}"
            ) from None


class Tag(_Tag[T]):
    """A tag that every run of its kinds has; reading it raises `UserError` where it is missing."""

    @overload
    def __get__(self, tags: None, owner: type) -> Self: ...
    @overload
    def __get__(self, tags: "Tags", owner: type) -> T: ...
    def __get__(self, tags: "Tags | None", owner: type) -> Self | T:
        return self if tags is None else self.value(tags)


class Maybe(_Tag[T]):
    """A tag that some runs of its kinds do without; None where it is absent."""

    @overload
    def __get__(self, tags: None, owner: type) -> Self: ...
    @overload
    def __get__(self, tags: "Tags", owner: type) -> T | None: ...
    def __get__(self, tags: "Tags | None", owner: type) -> Self | T | None:
        if tags is None:
            return self
        return self.value(tags) if self.name in tags else None


def dumps(value: Any) -> str:
    """Compact JSON, keys sorted."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _mapping(text: str) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(text)
    return found


def _flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError(text)
    return text == "true"


def _flagged(value: bool) -> str:
    return str(value).lower()


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


class Tags(Mapping[str, str]):
    """The tags of one run: texts by name, and as attributes the values that they stand for."""

    kind = Tag(RunKind)
    version = Tag(str)
    torch_version = Maybe(str)
    numba_version = Maybe(str)
    git_commit = Maybe(str)
    run_status = Tag(str)
    """What MLflow says: RUNNING, FINISHED, FAILED, KILLED."""
    experiment_id = Tag(str)

    study = Tag(str)
    sweep = Tag(str)
    study_json = Tag(_mapping, dumps)
    """The study of a sweep, with every field."""

    cell = Tag(str)
    cell_name = Tag(str)
    algorithm = Tag(str)
    paper = Tag(str)
    dataset = Tag(str)
    model = Tag(str)
    heterogeneity = Tag(str)
    reference = Maybe(_flag, _flagged)
    """Whether it is shown without a rank."""
    outside = Maybe(str)
    """How its settings are not those that its paper assumes."""

    metric = Tag(str)
    """What its task is ranked by, without `test_`."""
    seed = Tag(int)
    status = Tag(Status)
    spec = Tag(TrialSpec.model_validate_json, lambda spec: dumps(spec.model_dump(mode="json")))
    """The whole trial: enough to run it again."""
    partition_fingerprint = Tag(str)
    execution = Maybe(str)
    chunk = Maybe(int)
    halved = Maybe[dict[str, int]](json.loads, dumps)
    """From which `round` on another `chunk` of clients was computed at once."""
    error = Maybe(str)
    not_finite = Maybe(_words, " ".join)
    """The metrics whose mean is not finite."""

    trial_id = Tag(str)
    source = Tag(str)
    origin = Tag(str)
    params = Tag(_mapping, dumps)
    """What the search chose, settings among them; `spec.params` are the algorithm's own."""
    sampler = Tag(str)
    scheduler = Tag(str)
    confirm = Maybe(_flag, _flagged)
    target = Maybe(float)
    reached = Maybe(_flag, _flagged)
    warm_start = Maybe(str)
    pareto = Maybe(str)
    """The cost that is traded for the score."""
    joint = Maybe(str)
    feasible = Maybe(_flag, _flagged)

    tuned = Tag(str)
    """The tuned file of a leaderboard row."""
    score = Tag(str)
    row = Tag(str)
    importance = Maybe[dict[str, float]](json.loads, dumps)

    claim = Tag(str)
    """The row of a paper's table that a run is for, with its `method`."""
    method = Tag(str)
    source_cell = Tag(str)
    """Where a configuration was tuned that is tried on `target_cell`."""
    target_cell = Tag(str)

    def __init__(self, texts: Mapping[str, str], run_id: str = "") -> None:
        self._texts, self.run_id = texts, run_id

    @property
    def place(self) -> Place:
        """The cell's address."""
        return Place.of(self)

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def written(**values: Any) -> dict[str, str]:
    """Tags as texts, each as `Tags` declares it; those that are None are left out."""
    return {
        name: getattr(Tags, name).write(value)
        for name, value in values.items()
        if value is not None
    }


def spec_params(spec: TrialSpec) -> dict[str, Any]:
    """The params of a run: the algorithm's fields and the shared settings."""
    settings = {k: v for k, v in spec.settings.model_dump().items() if v is not None}
    return {**settings, **spec.params}


def run_tags(kind: RunKind, spec: TrialSpec, outcome: Outcome) -> dict[str, str]:
    """The tags of a run that ran a trial; `spec` alone is enough to replay it."""
    tags = written(
        kind=kind,
        seed=spec.seed,
        status=outcome.status,
        partition_fingerprint=outcome.fingerprint,
        execution=outcome.execution or None,
        chunk=outcome.chunk,
        halved=outcome.halved,
        spec=spec,
        not_finite=outcome.not_finite or None,
        error=outcome.error[-5000:] or None,
    )
    return {**tags, **versions()}


def spec_tags(spec: TrialSpec) -> dict[str, str]:
    """The tags that say what a run outside any sweep is of."""
    return written(
        algorithm=spec.algorithm,
        paper=algorithms.resolve(spec.algorithm).paper,
        **spec.place.names(),
    )


@cache
def versions() -> dict[str, str]:
    """What numbers depend on besides the spec: versions, and the commit of a source checkout."""
    found = written(
        version=importlib.metadata.version("suite-fl"),
        torch_version=importlib.metadata.version("torch"),
    )
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        found |= written(numba_version=importlib.metadata.version("numba"))
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found |= written(git_commit=done.stdout.strip())
    return found
