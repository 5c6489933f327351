"""Papers' rows made into experiments that can run: papers are read, checked, and perhaps set otherwise.

A paper has tables, a table methods and rows, a row published numbers. Layers say what a run needs: paper, table, method,
row, and a row's own method; the innermost wins. `settings` and `params` are what the paper states; what it leaves open is
`chosen`, with the value and the reason. A row is refused if a setting or hyperparameter is neither stated nor chosen:
there are no silent defaults. docs/reproduce.md explains the form.
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
"""Settings that must be stated or chosen; so must the local work, and every hyperparameter."""

SEEDED = ("partition_seed", "data_seed")
PER_SEED = "per seed"
"""The value of a `SEEDED` setting under which each run's seed partitions or draws the data anew."""

PLACE = tuple(Scenario._fields)
"""The parts of a scenario, which `--set` may change where they are open."""


class Layer(Written):
    """What a file says at one level (paper, table, method, row); the inner level wins."""

    settings: dict[str, Any] = {}
    params: dict[str, Any] = {}
    chosen: dict[str, tuple[Any, Annotated[str, Field(min_length=1)]]] = {}
    readings: list[str] = []


class Shared(Layer):
    """A layer for all methods. `open` names what the paper leaves open, though it has a stated or searched value here:
    `--set` may change it like what is chosen.
    """

    open: list[str] = []


class PaperMethod(Layer):
    """A column of a table. `search`: values of hyperparameters that all run; the best counts."""

    algorithm: str | None = None
    search: dict[str, list[Any]] = {}


class TableRow(Shared):
    """One experiment: data, model, level, and the printed numbers, metric -> method -> number.

    A number may be `"> 50"` where the text gives a bound, `"~ 99.7"` where it is vague; null: the target was never reached within
    the rounds. One that is `not_run` only keeps its numbers; the reason is shown. `same_as` is the TABLE/ROW of the same
    experiment: numbers that are printed there too, and its statements, count once, there.
    """

    dataset: str | None = None
    model: str | None = None
    heterogeneity: str | None = None
    methods: dict[str, Layer] = {}
    numbers: dict[str, dict[str, int | float | str | None]] = {}
    not_run: str | None = None
    same_as: str | None = None


class PaperTable(Shared):
    """A table or figure of a paper: its methods, rows and claims, and about how many GPU hours its unrun part takes."""

    source: str
    about: str
    gpu_hours: float = 0.0
    methods: dict[str, PaperMethod] = {}
    rows: dict[str, TableRow]
    claims: list[Statement] = []
    not_run: str | None = None


class Paper(Shared):
    """A paper's file. `drawn` are its data sets whose samples are random, so that each seed draws them anew."""

    paper: str
    cites: str
    drawn: list[str] = []
    tables: dict[str, PaperTable]

    def reason_not_run(self, table: str, row: str) -> str:
        """Return why a row is never run, as the file says; "" for one that can be."""
        return self.tables[table].rows[row].not_run or self.tables[table].not_run or ""

    def same(self, row: TableRow) -> tuple[PaperTable, TableRow] | None:
        """Return the table and row of the same experiment elsewhere, or None."""
        if row.same_as is None:
            return None
        table, _, name = row.same_as.partition("/")
        return self.tables[table], self.tables[table].rows[name]


@dataclass(frozen=True)
class Decision:
    """A setting's or hyperparameter's value; `why` it was chosen, None where the paper states it."""

    value: Any
    why: str | None


@dataclass(frozen=True)
class Configured:
    """A method in a row: what runs, what is stated and what is ours. All values in `search` run."""

    algorithm: str
    scenario: Scenario
    decisions: Mapping[str, Decision]
    search: Mapping[str, list[Any]]
    readings: tuple[str, ...]
    drawn: bool

    @property
    def variants(self) -> list[dict[str, Any]]:
        """The searched values, one dict a combination; one empty dict where nothing is searched."""
        combinations = itertools.product(*self.search.values())
        return [dict(zip(self.search, values, strict=True)) for values in combinations]

    @property
    def keys(self) -> set[str]:
        """The settings and hyperparameters that the method has."""
        return {*Settings.model_fields, *algorithms.resolve(self.algorithm).ranges()}

    @property
    def undecided(self) -> list[str]:
        """The hyperparameters that are neither stated nor chosen nor searched."""
        cls = algorithms.resolve(self.algorithm)
        decided = {k: d.value for k, d in only(self.decisions, cls.ranges()).items()}
        decided |= self.variants[0]
        return [key for key in cls.configured(decided).params() if key not in decided]

    def value(self, key: str) -> Any:
        """Return the value of a setting, a hyperparameter or a part of the scenario: a list if it is searched, None if it
        is undecided.
        """
        usual = {"partition_seed": PER_SEED, "data_seed": PER_SEED if self.drawn else 0}
        decided = {name: decision.value for name, decision in self.decisions.items()}
        return (usual | self.scenario.names() | decided | dict(self.search)).get(key)

    def spec(self, variant: Mapping[str, Any], seed: int, rounds: int, every: int) -> TrialSpec:
        """Return the trial of one run under the paper's protocol: no validation data; the seed also partitions the data, and
        draws them where they are random, unless it is decided otherwise.
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
        """Raise `UserError` for the first searched value, or the setting, with which it cannot be run."""
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
    """A row of a table with all its methods, ready to run. `open` are settings, hyperparameters and parts of the scenario that
    are ours to set, though they are not chosen.
    """

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
        """Return whether a value is ours to set: chosen, declared open, or what no paper states."""
        decision = self.methods[method].decisions.get(key)
        return key in (*self.open, *SEEDED) if decision is None else decision.why is not None


def paper_names() -> list[str]:
    """Return the names of the papers that are shipped."""
    folder = files("search_spaces").joinpath("papers").iterdir()
    return sorted(p.name.removesuffix(".yaml") for p in folder if p.name.endswith(".yaml"))


@cache
def read_paper(name: str) -> Paper:
    """Return a shipped paper by name, or the paper in a YAML file. Raises `UserError` when it is absent or has faults."""
    if name.endswith(".yaml"):
        return parse_paper(read_text(Path(name), "paper"), name)
    if name not in paper_names():
        raise unknown("paper", name, paper_names())
    path = files("search_spaces").joinpath("papers", f"{name}.yaml")
    return parse_paper(path.read_text(encoding="utf-8"), path.name)


def parse_paper(text: str, source: str) -> Paper:
    """Read a paper from YAML; raises `UserError` with every fault."""
    faults = Faults(source)
    paper = faults.validate(Paper, parse_mapping(text, source))
    faults.check()
    assert paper is not None
    for name, table in paper.tables.items():
        for row in table.rows:
            experiment(paper, source, name, row)
    return paper


def selected(path: str | None) -> list[tuple[str, str, str]]:
    """Return (paper, table, row) of each row of `PAPER[/TABLE[/ROW]]`, default all that are shipped. PAPER may be a file's path
    that ends in .yaml, a row may be given by its beginning.

    Raises `UserError` on an unknown part.
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
    """Make a row ready; None for one that is never run. Raises `UserError` with every fault."""
    if paper.reason_not_run(table, row):
        return None
    content, at, name = paper.tables[table], paper.tables[table].rows[row], Path(name).stem
    faults = Faults(f"{name}/{table}/{row}")
    if not content.methods:
        faults.add("methods", None, "a row that is run needs at least one")
    named = [*at.methods, *itertools.chain.from_iterable(at.numbers.values())]
    for method in dict.fromkeys(named):
        if method not in content.methods:
            faults.add(method, None, str(unknown("method", method, content.methods)))
    place: dict[str, Any] = {}
    for part, text in at.model_dump(include=set(PLACE)).items():
        place[part] = faults.attempt(part, text, partial(SPELLING[part], text or ""))
    methods = {}
    for method in content.methods if all(place.values()) else ():
        configured = _configured(faults, (paper, content, at), method, Scenario(**place))
        if configured is not None:
            methods[method] = configured
    faults.check()
    return Experiment(name, table, row, methods, frozenset([*paper.open, *content.open, *at.open]))


def _configured(
    faults: Faults, place: tuple[Paper, PaperTable, TableRow], method: str, scenario: Scenario
) -> Configured | None:
    """Return a method in a row; where it is of an unknown algorithm, None. Its faults are noted."""
    paper, content, at = place
    column = content.methods[method]
    algorithm = column.algorithm or method
    cls = faults.attempt(method, algorithm, partial(algorithms.resolve, algorithm))
    if cls is None:
        return None
    # Outermost first, and whether the layer speaks of this method alone, which has to know each key then.
    layers: list[tuple[Layer, bool]] = [(paper, False), (content, False), (column, True)]
    layers += [(at, False), (at.methods.get(method, Layer()), True)]
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
    """Return the rows with other values of what is ours, wherever it occurs; what a paper states stays. A hyperparameter
    that only such a value brings in must be given as well. `METHOD.KEY` concerns one method.

    Raises `UserError` for a key that is ours nowhere, and for impossible values.
    """
    columns = [(row, method, c) for row in rows for method, c in row.methods.items()]
    for key in other if rows else ():
        owner, _, name = key.rpartition(".")
        mine = [column for column in columns if owner in ("", column[1])]
        # A hyperparameter may come with what is ours; a setting that nothing decides would be ignored.
        comes = any(name in c.keys - {*Settings.model_fields, *c.decisions} for *_, c in mine)
        if not comes and not any(row.is_ours(m, name) for row, m, _ in mine):
            settable = {k for row, m, c in columns for k in (*c.keys, *PLACE) if row.is_ours(m, k)}
            why = "the paper's file neither chooses nor opens it"
            raise UserError(f"--set {key}: {why}; --set takes {', '.join(sorted(settable))}")
    changed, faults = [], Faults("--set")
    for row in rows:
        methods = {}
        for method, configured in row.methods.items():
            meant = {key.removeprefix(f"{method}."): value for key, value in other.items()}
            for key, value in meant.items():
                if row.is_ours(method, key):
                    configured = _with(configured, key, value)
            with suppress(UserError):  # said when the values are checked
                decisions = {**configured.decisions}
                for key, value in only(meant, configured.undecided).items():
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
    """Return the method with this value, if it has this setting. Raises `UserError` for an unknown name."""
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
