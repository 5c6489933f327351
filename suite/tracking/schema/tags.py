"""The tags and params of recorded runs: which there are, and how each is written and read.

A tag `x` of these is `suite.x` in the store. What is recorded is a contract: names and texts stay.
"""

import contextlib
import importlib.metadata
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Generic, Self, TypeVar, overload

from suite.formats import FORMAT
from suite.tracking.schema import forms
from suite.tracking.schema.forms import dumps, form
from trials import algorithms
from trials.algorithm import Range
from trials.common import plugins
from trials.common.errors import UserError
from trials.run.outcome import Status
from trials.run.result import TrialResult
from trials.run.scenario import Scenario
from trials.run.spec import TrialSpec
from trials.run.trial_id import TrialId
from trials.scoring.metrics import TASKS

PREFIX = "suite."
T = TypeVar("T")


class RunKind(StrEnum):
    """What a recorded run is."""

    SWEEP = "sweep"
    ENTRY = "entry"
    RUNNING = "running"
    """A trial that is not over; then it becomes one of the next two."""
    SEARCH = "search"
    FINAL = "final"
    LEADERBOARD = "leaderboard"
    """A row of the leaderboard of its sweep."""
    SUPERSEDED = "superseded"
    """A final run of what is no longer the best of its scenario."""
    RUN = "run"
    REPRODUCE = "reproduce"


class TagError(UserError):
    """A tag of a run is missing, or cannot be read: damaged, or of a later version."""

    def __init__(self, run_id: str, tag: str, fault: str) -> None:
        super().__init__(f"run {run_id}: tag {PREFIX}{tag} {fault}")
        self.tag = tag


class _Tag(Generic[T]):
    def __init__(self, read: Callable[[str], T], write: Callable[[T], str] = str) -> None:
        self._read, self.write = read, write

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def value(self, tags: "Tags") -> T:
        """The tag as its type; raises `TagError` where it is missing or its text cannot be read."""
        if self.name not in tags:
            raise TagError(tags.run_id, self.name, "is missing")
        text = tags[self.name]
        try:
            return self._read(text)
        except ValueError:
            raise TagError(tags.run_id, self.name, f"cannot be read: {text[:80]!r}") from None


class Tag(_Tag[T]):
    """A tag that every run of its kinds has; reading it raises `TagError` where it is missing."""

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


class Tags(Mapping[str, str]):
    """The tags of one run: texts by name, and as attributes the values that they stand for."""

    kind = Tag(RunKind)
    format = Maybe(forms.whole)
    """In which format it was recorded (`suite.formats`); absent: in the first."""
    version = Tag(str)
    torch_version = Maybe(str)
    numba_version = Maybe(str)
    git_commit = Maybe(str)
    run_status = Tag(str)
    """What MLflow says: RUNNING, FINISHED, FAILED, KILLED."""
    experiment_id = Tag(str)

    study = Tag(str)
    sweep = Tag(str)
    study_json = Tag[dict[str, Any]](form(dict[str, Any]), dumps)
    """The study of a sweep, with every field."""
    study_file = Maybe(str)
    """The path of the study's file, as a person gave it; absent of a shipped study, or of one in Python."""
    sweep_id = Tag(str)
    """A sweep's id, as its journal has it."""
    cut = Maybe(str)
    """How many trials a deadline left of the search of a sweep, in words; "" where it was resumed without one."""

    entry_id = Tag(str)
    entry_name = Tag(str)
    algorithm = Tag(str)
    paper = Tag(str)
    dataset = Tag(str)
    model = Tag(str)
    heterogeneity = Tag(str)
    reference = Tag(forms.flag, forms.flagged)
    """Whether it is shown without a rank."""
    outside = Maybe(str)
    """How its settings are not those that its paper assumes."""
    away = Maybe(str)
    """What its scenario lacks of its paper's own experiments."""

    space = Tag[dict[str, Range]](form(forms.Ranges), forms.ranges_written)
    """The ranges of more than one value that an entry searches."""

    searched = Maybe[list[forms.SearchedRow]](forms.searched)
    """The search trials of an entry whose sweep has ended (`suite.results.searched`)."""

    metric = Tag(forms.one_of(TASKS))
    """What its task is ranked by, without `test_`."""
    seed = Tag(forms.whole)
    status = Tag(Status)
    spec = Tag[TrialSpec](form(TrialSpec), lambda spec: dumps(spec.model_dump(mode="json")))
    """The whole trial: enough to run it again."""
    code = Maybe[dict[str, str]](form(dict[str, str]), dumps)
    """The SHA-256 of others' code that it ran, by name."""
    partition_fingerprint = Tag(str)
    execution = Maybe(str)
    chunk = Maybe(forms.whole)
    device = Maybe(str)
    """On what it was computed: `cpu`, or the name of a GPU; absent where nothing was."""
    halved = Maybe[dict[str, int]](form(forms.Halved), dumps)
    """From which `round` on another `chunk` of clients was computed at once."""
    model_note = Maybe(str)
    data_note = Maybe(str)
    """How a module of others was computed, and why: its clients at once, or one after the other."""
    error = Maybe(str)
    not_finite = Maybe(forms.words, " ".join)
    """The metrics whose mean is not finite."""

    trial_id = Tag(str)
    source = Tag(forms.trial_id)
    origin = Tag(str)
    tuning = Maybe(forms.whole)
    partition = Maybe(forms.whole)
    split = Maybe(forms.whole)
    """Which replicate of its entry a run is of; absent: the first."""
    params = Tag[dict[str, Any]](form(forms.Params), dumps)
    """What the search chose, settings among them; `spec.params` are the algorithm's own."""
    sampler = Tag(str)
    scheduler = Tag(str)
    confirm = Maybe(forms.flag, forms.flagged)
    target = Maybe(forms.finite)
    reached = Maybe(forms.flag, forms.flagged)
    warm_start = Maybe(str)
    feasible = Maybe(forms.flag, forms.flagged)

    tuned = Tag(str)
    """The tuned file of a leaderboard row."""
    score = Tag(str)
    row = Tag(str)
    importance = Tag[dict[str, float]](form(dict[str, float]), dumps)

    claim = Tag(str)
    """The row of a paper's table that a run is for, with its `method`."""
    method = Tag(str)

    def __init__(self, texts: Mapping[str, str], run_id: str = "") -> None:
        self._texts, self.run_id = texts, run_id

    @property
    def scenario(self) -> Scenario:
        """The scenario's address."""
        return Scenario.of(self)

    @property
    def number(self) -> TrialId:
        """What its id says of a sweep's trial."""
        try:
            return TrialId.parse(self.trial_id)
        except ValueError:
            raise TagError(self.run_id, "trial_id", "cannot be read") from None

    @property
    def search(self) -> tuple[str, int]:
        """Sampler and budget of a sweep."""
        try:
            study = forms.StudyRead.model_validate(self.study_json)
        except ValueError:
            raise TagError(self.run_id, "study_json", "cannot be read") from None
        return study.sampler, study.trials

    @property
    def fault(self) -> str:
        """The first tag that readers of this kind of run need and cannot read; "" where all can be."""
        try:
            for name in ("kind", *EVERY, *NEEDS.get(self.kind, ())):
                getattr(self, name)
        except TagError as error:
            return PREFIX + error.tag
        return ""

    @property
    def has_format(self) -> bool:
        """Whether it was recorded in the format that is read."""
        return self.get("format") == str(FORMAT)

    def __getitem__(self, name: str) -> str:
        return self._texts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


EVERY = ("run_status", "experiment_id")
"""What readers of every kind of run ask for."""
_REPLICATE = ("tuning", "partition", "split")
_TRIAL = (
    *(
        "sweep",
        "entry_id",
        "entry_name",
        "algorithm",
        "number",
        "status",
        "metric",
        "params",
        "origin",
    ),
    *_REPLICATE,
)
_FINAL = (
    *(
        "sweep",
        "study",
        "entry_id",
        "entry_name",
        "algorithm",
        "paper",
        "scenario",
        "metric",
        "seed",
    ),
    *("number", "source", "status", "spec", "params", "partition_fingerprint", "reference"),
    *("target", "reached", "code", *_REPLICATE),
)
NEEDS: Mapping[RunKind, tuple[str, ...]] = {
    RunKind.SWEEP: ("sweep", "study", "search", "sweep_id"),
    RunKind.ENTRY: ("sweep", "entry_id", "algorithm", "scenario", "space", "reference", "searched"),
    RunKind.SEARCH: (*_TRIAL, "confirm", "feasible"),
    RunKind.FINAL: _FINAL,
    RunKind.LEADERBOARD: ("tuned", "importance"),
    RunKind.REPRODUCE: ("trial_id", "status", "metric", "claim", "method"),
}
"""What readers of a kind of run ask for: one without it, or with a text that means nothing, is not read."""


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


def run_tags(kind: RunKind, spec: TrialSpec, outcome: TrialResult) -> dict[str, str]:
    """The tags of a run that ran a trial; `spec` alone is enough to replay it."""
    tags = written(
        kind=kind,
        seed=spec.seed,
        status=outcome.status,
        partition_fingerprint=outcome.fingerprint,
        execution=outcome.execution or None,
        chunk=outcome.chunk,
        halved=outcome.halved,
        model_note=outcome.model_note or None,
        data_note=outcome.data_note or None,
        device=outcome.device or None,
        spec=spec,
        code=plugins.hashes(*spec.code) or None,
        not_finite=outcome.not_finite or None,
        error=outcome.error[-5000:] or None,
    )
    return {**tags, **versions()}


def spec_tags(spec: TrialSpec) -> dict[str, str]:
    """The tags that say what a run outside any sweep is of."""
    return written(
        algorithm=spec.algorithm,
        paper=algorithms.resolve(spec.algorithm).paper,
        **spec.scenario.names(),
    )


@cache
def versions() -> dict[str, str]:
    """What numbers depend on besides the spec: versions, and the commit of a source checkout of the suite;
    none where it is installed, whatever repository its environment lies in.
    """
    found = written(
        version=importlib.metadata.version("suite-fl"),
        torch_version=importlib.metadata.version("torch"),
    )
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        found |= written(numba_version=importlib.metadata.version("numba"))
    return found | written(git_commit=_commit(Path(__file__).resolve().parents[3]))


def _commit(root: Path) -> str | None:
    """The commit of a checkout whose top is `root`; None where it is none."""
    if not (root / ".git").exists() or not (root / "pyproject.toml").exists():
        return None
    # In a hook, git's own variables name the repository that the hook is of.
    around = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-C", str(root), "rev-parse", "HEAD"]
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=around)
        return done.stdout.strip()
    return None
