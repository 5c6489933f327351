"""The YAML files of papers: they are read and checked, and their rows become experiments that can run.

A paper has tables, a table has methods and rows, and a row has published numbers. Values come from five layers: paper,
table, method, row, and one method of a row; the innermost layer wins. `settings` and `params` hold values that the paper
states. `chosen` holds values for what the paper leaves open, each with the reason. A row is refused if a setting or
hyperparameter is neither stated nor chosen, so no default is silent. docs/reproduce.md explains the format.
"""

import itertools
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from reports.claims.judged import Statement
from suite.studies.validation import Faults, Written, rule
from suite.yaml_files import parse_mapping, read_text
from trials import algorithms, heterogeneity
from trials.common.errors import UserError, unknown
from trials.common.mappings import only, without
from trials.run.spec import SPELLING, Scenario, TrialSpec, canonical
from trials.settings import Settings

DECIDED = (
    *("rounds", "clients", "participation", "selection", "batch_size", "lr_decay", "momentum"),
    *("optimizer", "weight_decay", "clip_norm", "loss", "init", "weights", "aggregation"),
)
"""Settings that every row must state or choose, as it must the local work and every hyperparameter."""

SEEDED = ("partition_seed", "data_seed")
PER_SEED = "per seed"
"""The value of a `SEEDED` setting with which every run partitions, or generates, the data by its own seed."""

PLACE = tuple(Scenario._fields)
"""The parts of a scenario: data set, model, heterogeneity. `--set` may change those that a row lists as `open`."""


class Layer(Written):
    """The values that a paper's file has at one level (paper, table, method or row); inner levels override outer ones."""

    settings: dict[str, Any] = {}
    params: dict[str, Any] = {}
    chosen: dict[str, tuple[Any, Annotated[str, Field(min_length=1)]]] = {}
    readings: list[str] = []


class Shared(Layer):
    """The values for all methods at one level of a paper's file (paper, table or row). `open` names scenario parts and searched
    values that the paper leaves open, so that `--set` may change them.
    """

    open: list[str] = []


class PaperMethod(Layer):
    """A method of a table. All combinations of the hyperparameter values in `search` are run; the best one counts."""

    algorithm: str | None = None
    search: dict[str, list[Any]] = {}


class TableRow(Shared):
    """One experiment: data set, model, level of heterogeneity, and the printed `numbers[metric][method]`.

    A number may be a bound such as `"> 50"`, vague such as `"~ 99.7"`, or null if the paper says that a target was never
    reached. `not_run` is the reason why the row is never run. `same_as` names another row, as TABLE/ROW, with the same
    experiment. Numbers and statements that both rows have are counted in the other row only.
    """

    dataset: str | None = None
    model: str | None = None
    heterogeneity: str | None = None
    methods: dict[str, Layer] = {}
    numbers: dict[str, dict[str, int | float | str | None]] = {}
    not_run: str | None = None
    same_as: str | None = None


class PaperTable(Shared):
    """A table or figure of a paper: its methods, rows and claims. `gpu_hours` estimates the time of the rows that were not run."""

    source: str
    about: str
    gpu_hours: float = 0.0
    methods: dict[str, PaperMethod] = {}
    rows: dict[str, TableRow]
    claims: list[Statement] = []
    not_run: str | None = None


class Paper(Shared):
    """The content of a paper's file. `drawn` lists the data sets of random samples, which are generated anew for each seed."""

    paper: str
    cites: str
    drawn: list[str] = []
    tables: dict[str, PaperTable]

    def reason_not_run(self, table: str, row: str) -> str:
        """Return the reason in the paper's file why a row is never run. Return "" if the row can be run."""
        return self.tables[table].rows[row].not_run or self.tables[table].not_run or ""

    def same(self, row: TableRow) -> tuple[PaperTable, TableRow] | None:
        """Return the table and row that `row.same_as` names, or None if the row has no `same_as`."""
        if row.same_as is None:
            return None
        table, _, name = row.same_as.partition("/")
        return self.tables[table], self.tables[table].rows[name]


@dataclass(frozen=True)
class Decision:
    """The value of a setting or hyperparameter, and `why` it was chosen (None: the paper states it)."""

    value: Any
    why: str | None


@dataclass(frozen=True)
class Configured:
    """A method in a row: its stated and chosen values (`decisions`), and the values in `search`, all of which are tried."""

    algorithm: str
    scenario: Scenario
    decisions: Mapping[str, Decision]
    search: Mapping[str, list[Any]]
    readings: tuple[str, ...]
    drawn: bool

    @property
    def variants(self) -> list[dict[str, Any]]:
        """The combinations of searched values, one dict each; a single empty dict if nothing is searched."""
        combinations = itertools.product(*self.search.values())
        return [dict(zip(self.search, values, strict=True)) for values in combinations]

    @property
    def keys(self) -> set[str]:
        """The names of all settings and of the method's hyperparameters."""
        return {*Settings.model_fields, *algorithms.resolve(self.algorithm).ranges()}

    @property
    def undecided(self) -> list[str]:
        """The hyperparameters to which the paper's file assigns no value."""
        cls = algorithms.resolve(self.algorithm)
        decided = {k: d.value for k, d in only(self.decisions, cls.ranges()).items()}
        decided |= self.variants[0]
        return [key for key in cls.configured(decided).params() if key not in decided]

    def value(self, key: str) -> Any:
        """Return the value of a setting, hyperparameter or scenario part. Return a list if it is searched, None if it has no value."""
        usual = {"partition_seed": PER_SEED, "data_seed": PER_SEED if self.drawn else 0}
        decided = {name: decision.value for name, decision in self.decisions.items()}
        return (usual | self.scenario.names() | decided | dict(self.search)).get(key)

    def spec(self, variant: Mapping[str, Any], seed: int, rounds: int, every: int) -> TrialSpec:
        """Return the specification of one run, with the combination `variant` of searched values. The run has no validation data and
        is evaluated every `every` rounds. Unless the paper's file says otherwise, `seed` also partitions and generates data.
        """
        values = {}
        for key in (*self.decisions, *SEEDED):
            value = self.value(key)
            values[key] = seed if key in SEEDED and value == PER_SEED else value
        values |= {"rounds": rounds, "eval_every": every, "val_fraction": 0.0, **variant}
        settings = Settings(**only(values, Settings.model_fields))
        params = without(values, Settings.model_fields)
        return canonical(self.algorithm, params, self.scenario, settings, seed)

    def refuse_unrunnable(self) -> None:
        """Raise `UserError` for the first setting or searched value with which the method cannot be run."""
        for variant in self.variants:
            try:
                spec = self.spec(variant, 0, self.value("rounds"), 1)
            except ValidationError as error:
                fault = error.errors()[0]
                what = f"{fault['loc'][0]} = {fault['input']!r}: " if fault["loc"] else ""
                raise UserError(what + rule(fault)) from None
            spec.configured()


@dataclass(frozen=True)
class Experiment:
    """A row of a table with all its methods, ready to run. `--set` may change the keys in `open`, which the paper leaves open."""

    paper: str
    table: str
    row: str
    methods: Mapping[str, Configured]
    open: frozenset[str] = frozenset()

    @property
    def path(self) -> str:
        """The row's address, such as `folb/table1/mnist`."""
        return f"{self.paper}/{self.table}/{self.row}"

    def is_ours(self, method: str, key: str) -> bool:
        """Return whether `--set` may change a method's value of a key. It may if the suite chose the value, or the paper leaves it open."""
        decision = self.methods[method].decisions.get(key)
        return key in (*self.open, *SEEDED) if decision is None else decision.why is not None


def paper_names() -> list[str]:
    """Return the names of the shipped papers, sorted."""
    folder = files("search_spaces").joinpath("papers").iterdir()
    return sorted(p.name.removesuffix(".yaml") for p in folder if p.name.endswith(".yaml"))


@cache
def read_paper(name: str) -> Paper:
    """Read a paper's file: a shipped paper by its name, or a `.yaml` path. Raise `UserError` if the file is missing or has faults."""
    if name.endswith(".yaml"):
        return parse_paper(read_text(Path(name), "paper"), name)
    if name not in paper_names():
        raise unknown("paper", name, paper_names())
    path = files("search_spaces").joinpath("papers", f"{name}.yaml")
    return parse_paper(path.read_text(encoding="utf-8"), path.name)


def parse_paper(text: str, source: str) -> Paper:
    """Return the paper that a YAML text describes, and check all its rows. Raise `UserError` with the faults of the first bad row."""
    faults = Faults(source)
    paper = faults.validate(Paper, parse_mapping(text, source))
    faults.check()
    assert paper is not None
    for name, table in paper.tables.items():
        for row in table.rows:
            experiment(paper, source, name, row)
    return paper


def selected(path: str | None) -> list[tuple[str, str, str]]:
    """Return (paper, table, row) of each row that `path` selects; None selects all shipped rows. `path` is PAPER[/TABLE[/ROW]].
    PAPER may be a `.yaml` file, and ROW the beginning of several rows' names. Raise `UserError` for an unknown part.
    """
    if path is None:
        return [*itertools.chain.from_iterable(map(selected, paper_names()))]
    file, end, rest = path.partition(".yaml")
    name, _, rest = (file + end, "", rest.strip("/")) if end else path.partition("/")
    wanted, _, beginning = rest.partition("/")
    paper = read_paper(name)
    if wanted and wanted not in paper.tables:
        raise unknown(f"table of {name}", wanted, paper.tables)
    places = []
    for table, content in paper.tables.items():
        if wanted in ("", table):
            rows = [beginning] if beginning in content.rows else content.rows
            places += [(name, table, row) for row in rows if row.startswith(beginning)]
    if not places:
        raise unknown(f"row of {name}/{wanted}", beginning, paper.tables[wanted].rows)
    return places


def experiment(paper: Paper, name: str, table: str, row: str) -> Experiment | None:
    """Return the experiment of a paper's row, or None if the row is never run. Raise `UserError` with all faults of the row."""
    if paper.reason_not_run(table, row):
        return None
    content, table_row, name = paper.tables[table], paper.tables[table].rows[row], Path(name).stem
    faults = Faults(f"{name}/{table}/{row}")
    if not content.methods:
        faults.add("methods", None, "a row that is run needs at least one")
    named = [*table_row.methods, *itertools.chain.from_iterable(table_row.numbers.values())]
    for method in dict.fromkeys(named):
        if method not in content.methods:
            faults.add(method, None, str(unknown("method", method, content.methods)))
    scenario: dict[str, Any] = {}
    for part, text in table_row.model_dump(include=set(PLACE)).items():
        scenario[part] = faults.attempt(part, text, partial(SPELLING[part], text or ""))
    methods = {}
    for method in content.methods if all(scenario.values()) else ():
        configured = _configured(faults, (paper, content, table_row), method, Scenario(**scenario))
        if configured is not None:
            methods[method] = configured
    faults.check()
    opened = frozenset([*paper.open, *content.open, *table_row.open])
    return Experiment(name, table, row, methods, opened)


def _configured(
    faults: Faults, levels: tuple[Paper, PaperTable, TableRow], method: str, scenario: Scenario
) -> Configured | None:
    """Return a method with its values from paper, table and row. Return None if the algorithm is unknown. Add all faults to `faults`."""
    paper, content, table_row = levels
    column = content.methods[method]
    algorithm = column.algorithm or method
    cls = faults.attempt(method, algorithm, partial(algorithms.resolve, algorithm))
    if cls is None:
        return None
    # Layers from outermost to innermost. One for this method alone may hold only keys that the method knows.
    layers: list[tuple[Layer, bool]] = [(paper, False), (content, False), (column, True)]
    layers += [(table_row, False), (table_row.methods.get(method, Layer()), True)]
    before, keys = len(faults.found), [*cls.ranges(), *Settings.model_fields]
    decisions: dict[str, Decision] = {}
    readings: dict[str, None] = {}
    for layer, alone in layers:
        for key, value in (layer.settings | layer.params | layer.chosen).items():
            decision = Decision(*value) if key in layer.chosen else Decision(value, None)
            if key in keys:
                decisions[key] = decision
            elif alone:
                faults.add(f"{method}.{key}", decision.value, str(unknown("key", key, keys)))
        readings |= dict.fromkeys(layer.readings)
    drawn = scenario.dataset.split("(")[0] in paper.drawn
    configured = Configured(algorithm, scenario, decisions, column.search, tuple(readings), drawn)
    missing = [key for key in DECIDED if key not in decisions]
    works = {"local_epochs", "local_steps"} & decisions.keys()
    if not (works or heterogeneity.parse(scenario.heterogeneity).changes_work):
        missing.append("local_epochs or local_steps")
    missing += faults.attempt(method, None, lambda: configured.undecided) or []
    for key in missing:
        faults.add(f"{method}.{key}", None, "must be stated or chosen")
    if len(faults.found) == before:
        faults.attempt(method, None, configured.refuse_unrunnable)
    return configured


def otherwise(rows: Sequence[Experiment], other: Mapping[str, Any]) -> list[Experiment]:
    """Return the rows, with the values in `other` (option `--set`) filled in where the paper states none. A key is KEY for all
    methods, or METHOD.KEY for one. Raise `UserError` for a key that the paper states, and for an impossible or missing value.
    """
    columns = [(row, method, c) for row in rows for method, c in row.methods.items()]
    for key in other if rows else ():
        owner, _, name = key.rpartition(".")
        matching = [column for column in columns if owner in ("", column[1])]
        # A hyperparameter may exist only under the new values; a setting that no row decides would be ignored.
        appears = any(name in c.keys - {*Settings.model_fields, *c.decisions} for *_, c in matching)
        if not appears and not any(row.is_ours(m, name) for row, m, _ in matching):
            settable = {k for row, m, c in columns for k in (*c.keys, *PLACE) if row.is_ours(m, k)}
            why = "the paper's file has it neither as chosen nor as open"
            raise UserError(f"--set {key}: {why}; --set takes {', '.join(sorted(settable))}")
    changed, faults = [], Faults("--set")
    for row in rows:
        methods = {}
        for method, configured in row.methods.items():
            values = {key.removeprefix(f"{method}."): value for key, value in other.items()}
            for key, value in values.items():
                if row.is_ours(method, key):
                    configured = _with(configured, key, value)
            with suppress(UserError):  # reported below, when the values are checked
                decisions = {**configured.decisions}
                for key, value in only(values, configured.undecided).items():
                    decisions[key] = Decision(value, "--set")
                configured = replace(configured, decisions=decisions)
            methods[method], where = configured, f"{row.path}, {method}"
            faults.attempt(where, None, configured.refuse_unrunnable)
            faults.check()
            for key in configured.undecided:
                faults.add(f"{where}: {key}", None, "has to be set too")
        changed.append(replace(row, methods=methods))
    faults.check()
    return changed


def _with(configured: Configured, key: str, value: Any) -> Configured:
    """Return the method with a new value for a key. A list means values to search. A method that lacks the key is returned
    unchanged. Raise `UserError` for an empty list, or an unknown data set, model or level of heterogeneity.
    """
    if key in PLACE:
        value = SPELLING[key](str(value))
    before = configured.value(key)
    if value == before or key not in (*PLACE, *configured.keys):
        return configured
    if value == []:
        raise UserError(f"{key} = []: must name at least one value")
    why = f"--set; the suite's own choice: {before}"
    if key in PLACE:
        readings = (*configured.readings, f"{key} = {value}: {why}")
        scenario = configured.scenario._replace(**{key: value})
        return replace(configured, scenario=scenario, readings=readings)
    decisions, search = dict(configured.decisions), dict(configured.search)
    decisions.pop(key, None)
    search.pop(key, None)
    if isinstance(value, list):
        search[key] = value
    else:
        decisions[key] = Decision(value, why)
    return replace(configured, decisions=decisions, search=search)
