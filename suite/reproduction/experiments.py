"""The papers' experiments: `search_spaces/papers/*.yaml` read, checked, and made into trials.

A paper has tables, a table methods and rows, a row published numbers. What a run needs is said in
layers: paper, table, method, row, and the row's own word on a method; the innermost wins. `settings`
and `params` are what the paper states; what it leaves open is `chosen`, with the value and the reason.
A row for which a setting or a hyperparameter is neither stated nor chosen is refused: nothing is left to
a default in silence. docs/reproduce.md explains the form.
"""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from typing import Any

from pydantic import ValidationError

from reports.claims.metrics import LAST, RANKED
from suite.reproduction.paper import Layer, Paper, paper_names
from suite.studies.validation import Faults, rule
from suite.yaml_files import parse_mapping
from trials import algorithms, heterogeneity
from trials.common.errors import UserError, unknown
from trials.run.spec import SPELLING, Scenario, TrialSpec, canonical
from trials.settings import Settings

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

PER_SEED = "per seed"
"""The value of `data_seed` or `partition_seed` under which each run's seed draws or partitions the data anew."""

PLACE = tuple(Scenario._fields)
"""The parts of a scenario, which `--set` may change where they are open."""

SCORED, SCORED_MODEL = "scored", "scored_model"
SCORING = {SCORED: LAST, SCORED_MODEL: RANKED}
"""What of a run counts, which `--set` may change too: one of `EVALUATIONS` and one of `MODELS` of
`reports.claims.metrics`; and what counts else.
"""


@dataclass(frozen=True)
class Decision:
    """A setting's or hyperparameter's value; `why` it was chosen, None where the paper states it."""

    value: Any
    why: str | None


@dataclass(frozen=True)
class Configured:
    """A method in a row: what runs, what is stated and what is ours."""

    algorithm: str
    scenario: Scenario
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
        """The number of rounds that the paper states, or that was chosen."""
        return int(self.decisions["rounds"].value)

    @property
    def known(self) -> set[str]:
        """The settings and hyperparameters that the method has, and what is scored."""
        return {*Settings.model_fields, *algorithms.resolve(self.algorithm).ranges(), *SCORING}

    def value(self, key: str) -> Any:
        """What is decided on a setting or hyperparameter, a list where its values are searched; None where
        nothing is.
        """
        usual = {"partition_seed": PER_SEED, "data_seed": PER_SEED if self.drawn else 0}
        decided = {name: decision.value for name, decision in self.decisions.items()}
        return (usual | SCORING | decided | dict(self.search)).get(key)

    def spec(self, variant: Mapping[str, Any], seed: int, rounds: int, every: int) -> TrialSpec:
        """The trial of one run under the paper's protocol: no validation data; the seed also partitions the data, and
        draws them where they are random, unless it is decided otherwise.
        """
        keys = {**self.decisions, "partition_seed": None, "data_seed": None}
        given = {key: self.value(key) for key in keys if key not in SCORING}
        settings = {k: v for k, v in given.items() if k in Settings.model_fields}
        params = {k: v for k, v in given.items() if k not in settings}
        settings |= {"rounds": rounds, "eval_every": every, "val_fraction": 0.0}
        drawn = {k: seed for k in ("partition_seed", "data_seed") if settings[k] == PER_SEED}
        return canonical(
            self.algorithm,
            {**params, **variant},
            self.scenario,
            Settings(**settings | drawn),
            seed,
        )


@dataclass(frozen=True)
class Experiment:
    """A row of a table with all its methods, ready to run."""

    paper: str
    table: str
    row: str
    methods: Mapping[str, Configured]
    open: frozenset[str] = frozenset()
    """Settings, hyperparameters and parts of the scenario that are ours to set, though they are not chosen."""

    @property
    def path(self) -> str:
        """The row's address, such as `folb/table1/mnist`."""
        return f"{self.paper}/{self.table}/{self.row}"


@cache
def read_paper(name: str) -> Paper:
    """The paper of this name; raises `UserError` when there is none."""
    if name not in paper_names():
        raise unknown("paper", name, paper_names())
    path = files("search_spaces").joinpath("papers", f"{name}.yaml")
    return parse_paper(path.read_text(encoding="utf-8"), path.name)


def parse_paper(text: str, source: str) -> Paper:
    """Read a paper from YAML; raises `UserError` with every fault."""
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
        return [scenario for name in paper_names() for scenario in selected(name)]
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
    declared = frozenset([*paper.open, *paper.tables[table].open, *columns.open])
    return Experiment(name, table, row, found, declared)


def undecided(configured: Configured) -> list[str]:
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
    parts = {
        part: faults.attempt(part, text, partial(SPELLING[part], text or ""))
        for part, text in at.model_dump(include=set(SPELLING)).items()
    }
    spelled = {part: text for part, text in parts.items() if text is not None}
    if cls is None or len(spelled) < len(parts):
        return None
    scenario = Scenario(**spelled)
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
    family = scenario.dataset.split("(")[0]
    if family not in paper.data:
        faults.add(f"data.{family}", None, "is required")
        return None
    readings = [text for _, layer in _layers(paper, table, row, method) for text in layer.readings]
    configured = Configured(
        name,
        scenario,
        decisions,
        column.search,
        tuple(dict.fromkeys(readings)),
        paper.data[family].drawn,
    )
    missing = [key for key in DECIDED if key not in decisions]
    if not (
        {"local_epochs", "local_steps"} & decisions.keys()
        or heterogeneity.parse(scenario.heterogeneity).changes_work
    ):
        missing.append("local_epochs or local_steps")
    missing += faults.attempt(method, None, partial(undecided, configured)) or []
    for key in missing:
        faults.add(f"{method}.{key}", None, "must be stated or chosen")
    if len(faults.found) > before:
        return None
    for variant in configured.variants:
        faults.attempt(method, None, partial(checked, configured, variant))
    return configured


def checked(configured: Configured, variant: Mapping[str, Any]) -> TrialSpec:
    """The trial of one variant; raises `UserError` when it cannot be run."""
    try:
        spec = configured.spec(variant, 0, configured.decisions["rounds"].value, 1)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise UserError(f"{key} = {first['input']!r}: {rule(first)}") from None
    spec.configured()
    return spec
