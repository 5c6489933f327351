"""The papers' experiments: `search_spaces/papers/*.yaml` read, checked, and made into trials.

A paper has tables, a table methods and rows, a row published numbers. What a run needs is said in
layers: paper, table, method, row, and the row's own word on a method; the innermost wins. `settings`
and `params` are what the paper states; what it leaves open is `chosen`, with the value and the reason.
A row for which a setting or a hyperparameter is neither stated nor chosen is refused: nothing is left to
a default in silence. docs/reproduce.md explains the form.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from suite.studies.study import Faults
from suite.yaml_files import parse_mapping
from trials import algorithms, datasets, heterogeneity, models
from trials.errors import UserError, unknown
from trials.settings import Settings
from trials.spec import TrialSpec, canonical

DECIDED = (
    "rounds",
    "clients",
    "participation",
    "selection",
    "batch_size",
    "lr_decay",
    "momentum",
    "weight_decay",
    "clip_norm",
    "loss",
    "init",
    "aggregation",
)
"""Settings that must be stated or chosen; so must the local work, and every hyperparameter."""
Number = int | float | str | None
"""A printed number, `"> 50"` where the text gives a bound, `"~ 99.7"` where it is vague; null: the
target was never reached within the rounds."""


class Layer(BaseModel):
    """What is said at one level."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    settings: dict[str, Any] = {}
    params: dict[str, Any] = {}
    chosen: dict[str, tuple[Any, Annotated[str, Field(min_length=1)]]] = {}
    readings: list[str] = []


class Method(Layer):
    """A column of a table. `search`: values of hyperparameters that all run, of which the best counts."""

    algorithm: str | None = None
    search: dict[str, list[Any]] = {}


class Row(Layer):
    """One experiment: data, model, level, and the printed numbers, metric -> method -> number.

    One that is `not_run` only keeps its numbers; the reason is shown.
    """

    dataset: str | None = None
    model: str | None = None
    heterogeneity: str | None = None
    methods: dict[str, Layer] = {}
    numbers: dict[str, dict[str, Number]] = {}
    grids: dict[str, list[Any]] = {}
    not_run: str | None = None


class Claim(BaseModel):
    """A statement about two methods: metric(of) - times * metric(to) is <, >, <=, >= `by`, or ~ 0.

    Without a metric it is the row's first. One without `of` is only shown.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    says: str
    metric: str | None = None
    of: str | None = None
    relation: Literal["<", ">", "<=", ">=", "~"] = Field("~", alias="is")
    to: str | None = None
    times: float = 1.0
    by: float = 0.0


class Table(Layer):
    """A table or figure."""

    source: str
    about: str
    methods: dict[str, Method] = {}
    rows: dict[str, Row]
    claims: list[Claim] = []
    not_run: str | None = None


class Data(BaseModel):
    """What a data set is, for the cost estimate; `drawn`: its samples are random, so that each seed
    draws them anew.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    samples: int
    test: int
    shape: tuple[int, ...]
    classes: int
    drawn: bool = False


class Paper(Layer):
    """One file."""

    paper: str
    cites: str
    data: dict[str, Data]
    tables: dict[str, Table]


@dataclass(frozen=True)
class Decision:
    """A setting's or hyperparameter's value; `why` it was chosen, None where the paper states it."""

    value: Any
    why: str | None


@dataclass(frozen=True)
class Configured:
    """A method in a row: what runs, what is stated and what is ours."""

    algorithm: str
    dataset: str
    model: str
    heterogeneity: str
    decisions: Mapping[str, Decision]
    search: Mapping[str, list[Any]]
    readings: tuple[str, ...]
    drawn: bool

    @property
    def variants(self) -> list[dict[str, Any]]:
        """The searched values, one dict a combination; one empty dict where nothing is searched."""
        return [
            dict(zip(self.search, values, strict=True))
            for values in itertools.product(*self.search.values())
        ]

    @property
    def rounds(self) -> int:
        """As the paper states, or as chosen."""
        return int(self.decisions["rounds"].value)

    def spec(self, variant: Mapping[str, Any], seed: int, rounds: int, every: int) -> TrialSpec:
        """One run under the paper's protocol: no validation data; the seed also deals the data, and
        draws them where they are random.
        """
        given = {name: d.value for name, d in self.decisions.items()}
        settings = {k: v for k, v in given.items() if k in Settings.model_fields}
        params = {k: v for k, v in given.items() if k not in settings}
        settings |= {
            "rounds": rounds,
            "eval_every": every,
            "val_fraction": 0.0,
            "partition_seed": seed,
            "data_seed": seed if self.drawn else 0,
        }
        return canonical(
            self.algorithm,
            {**params, **variant},
            self.dataset,
            self.model,
            self.heterogeneity,
            Settings(**settings),
            seed,
        )


@dataclass(frozen=True)
class Experiment:
    """A row of a table with all its methods, ready to run."""

    paper: str
    table: str
    row: str
    methods: Mapping[str, Configured]

    @property
    def path(self) -> str:
        """`folb/table1/mnist`."""
        return f"{self.paper}/{self.table}/{self.row}"


def paper_names() -> list[str]:
    """The papers there are files of."""
    found = files("search_spaces").joinpath("papers").iterdir()
    return sorted(p.name.removesuffix(".yaml") for p in found if p.name.endswith(".yaml"))


@cache
def read_paper(name: str) -> Paper:
    """One file; raises `UserError` on an unknown name."""
    if name not in paper_names():
        raise unknown("paper", name, paper_names())
    path = files("search_spaces").joinpath("papers", f"{name}.yaml")
    return parse_paper(path.read_text(encoding="utf-8"), path.name)


def parse_paper(text: str, source: str) -> Paper:
    """A paper from YAML; raises `UserError` with every fault."""
    content = parse_mapping(text, source)
    faults = Faults(source)
    faults.validate(Paper, content)
    faults.check()
    paper = Paper.model_validate(content)
    for name, table in paper.tables.items():
        for row in table.rows:
            experiment(paper, source.removesuffix(".yaml"), name, row)
    return paper


def selected(path: str | None) -> list[tuple[str, str, str]]:
    """(paper, table, row) of `PAPER[/TABLE[/ROW]]`; a row may be given by its beginning.

    Raises `UserError` on an unknown part.
    """
    if path is None:
        return [place for name in paper_names() for place in selected(name)]
    name, _, rest = path.partition("/")
    table_name, _, row_name = rest.partition("/")
    paper = read_paper(name)
    if table_name and table_name not in paper.tables:
        raise unknown(f"table of {name}", table_name, paper.tables)
    found = []
    for t, table in paper.tables.items():
        if table_name in ("", t):
            rows = [row_name] if row_name in table.rows else table.rows
            found += [(name, t, row) for row in rows if row.startswith(row_name)]
    if not found:
        raise unknown(f"row of {name}/{table_name}", row_name, paper.tables[table_name].rows)
    return found


def reason_not_run(paper: Paper, table: str, row: str) -> str | None:
    """Why a row is never run, as its file says; None for one that can be."""
    return paper.tables[table].rows[row].not_run or paper.tables[table].not_run


def experiment(paper: Paper, name: str, table: str, row: str) -> Experiment | None:
    """A row made ready; None for one that is never run. Raises `UserError` with every fault."""
    if reason_not_run(paper, table, row):
        return None
    faults = Faults(f"{name}/{table}/{row}")
    found = {
        method: made
        for method in paper.tables[table].methods
        if (made := _configured(faults, paper, table, row, method)) is not None
    }
    columns = paper.tables[table].rows[row]
    for key in [*columns.methods, *(m for of in columns.numbers.values() for m in of)]:
        if key not in paper.tables[table].methods:
            faults.add(key, None, str(unknown("method", key, paper.tables[table].methods)))
    if not found and not faults.found:
        faults.add("methods", None, "a row that is run needs at least one")
    faults.check()
    return Experiment(name, table, row, found)


def otherwise(rows: Sequence[Experiment], other: Mapping[str, Any]) -> list[Experiment]:
    """The same rows with other values of what is ours wherever it is; what a paper states stays. A
    hyperparameter that only comes with such a value has to be given as well.

    Raises `UserError` for a key that is ours nowhere, and for the first value that cannot be.
    """
    if not rows or not other:
        return list(rows)
    changed = [
        replace(row, methods={m: _otherwise(c, other) for m, c in row.methods.items()})
        for row in rows
    ]
    decisions = [c.decisions for row in changed for c in row.methods.values()]
    ours = {key for found in decisions for key, d in found.items() if d.why is not None}
    for key in other.keys() - ours:
        if any(key in found for found in decisions):
            to_choose = ", ".join(sorted(ours))
            raise UserError(f"--set {key}: the paper states it; to be chosen are {to_choose}")
        raise unknown("chosen setting", key, ours)
    faults = Faults("--set")
    for row in changed:
        for method, configured in row.methods.items():
            place = f"{row.path}, {method}"
            for variant in configured.variants:
                faults.attempt(place, None, partial(_check, configured, variant))
                faults.check()
            for key in _undecided(configured):
                faults.add(f"{place}: {key}", None, "has to be set too")
            faults.check()
    return changed


def _otherwise(configured: Configured, other: Mapping[str, Any]) -> Configured:
    found = dict(configured.decisions)
    for key, value in other.items():
        if key in found and found[key].why is not None:
            found[key] = Decision(value, f"--set; the suite's own choice: {found[key].value}")
    changed = replace(configured, decisions=found)
    with suppress(UserError):  # said when the values are checked
        found |= {key: Decision(other[key], "--set") for key in _undecided(changed) if key in other}
    return changed


def _undecided(configured: Configured) -> list[str]:
    """The hyperparameters that are neither stated nor chosen nor searched."""
    cls = algorithms.resolve(configured.algorithm)
    decided = {k: d.value for k, d in configured.decisions.items() if k in cls.ranges()}
    decided |= configured.variants[0]
    return [key for key in cls.configured(decided).params() if key not in decided]


def _layers(paper: Paper, table: str, row: str, method: str) -> Iterator[tuple[bool, Layer]]:
    """Outermost first, and whether the layer speaks of this method alone."""
    t = paper.tables[table]
    yield False, paper
    yield False, t
    yield True, t.methods[method]
    yield False, t.rows[row]
    if method in t.rows[row].methods:
        yield True, t.rows[row].methods[method]


def _configured(
    faults: Faults, paper: Paper, table: str, row: str, method: str
) -> Configured | None:
    """A method in a row; its faults are noted and None is returned."""
    before = len(faults.found)
    at, column = paper.tables[table].rows[row], paper.tables[table].methods[method]
    name = column.algorithm or method
    cls = faults.attempt(f"{method}", name, lambda: algorithms.resolve(name))
    dataset = faults.attempt("dataset", at.dataset, lambda: datasets.canonical(at.dataset or ""))
    model = faults.attempt("model", at.model, lambda: models.canonical(at.model or ""))
    level = faults.attempt(
        "heterogeneity", at.heterogeneity, lambda: heterogeneity.parse(at.heterogeneity or "")
    )
    if cls is None or dataset is None or model is None or level is None:
        return None
    decisions: dict[str, Decision] = {}
    for own, layer in _layers(paper, table, row, method):
        said = {k: Decision(v, None) for k, v in (layer.settings | layer.params).items()}
        said |= {k: Decision(v, why) for k, (v, why) in layer.chosen.items()}
        for key, decision in said.items():
            if key in Settings.model_fields or key in cls.ranges():
                decisions[key] = decision
            elif own:
                known = [*cls.ranges(), *Settings.model_fields]
                faults.add(f"{method}.{key}", decision.value, str(unknown("key", key, known)))
    family = dataset.split("(")[0]
    if family not in paper.data:
        faults.add(f"data.{family}", None, "is required")
        return None
    readings = [text for _, layer in _layers(paper, table, row, method) for text in layer.readings]
    configured = Configured(
        name,
        dataset,
        model,
        level.name,
        decisions,
        column.search,
        tuple(dict.fromkeys(readings)),
        paper.data[family].drawn,
    )
    missing = [key for key in DECIDED if key not in decisions]
    if not ({"local_epochs", "local_steps"} & decisions.keys() or level.changes_work):
        missing.append("local_epochs or local_steps")
    missing += faults.attempt(method, None, partial(_undecided, configured)) or []
    for key in missing:
        faults.add(f"{method}.{key}", None, "must be stated or chosen")
    if len(faults.found) > before:
        return None
    for variant in configured.variants:
        faults.attempt(method, None, partial(_check, configured, variant))
    return configured


def _check(configured: Configured, variant: Mapping[str, Any]) -> TrialSpec:
    try:
        spec = configured.spec(variant, 0, configured.decisions["rounds"].value, 1)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise UserError(f"{key} = {first['input']!r}: {first['msg']}") from None
    spec.configured()
    return spec
