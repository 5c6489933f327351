"""Studies: YAML in, cells out; every fault found is shown at once."""

import hashlib
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from suite.search import population
from suite.studies.search_settings import SearchSettings
from suite.studies.space import Published, RangeSpec, Space, published
from suite.yaml_files import parse_mapping, read_text
from trials import algorithms, datasets, heterogeneity, models
from trials.datasets.base import Dataset
from trials.errors import UserError, unknown
from trials.heterogeneity.partitions import Natural
from trials.metrics import Task
from trials.settings import Settings
from trials.spec import TrialSpec, outside, refuse
from trials.trial import deal_data, fit_model, load_dataset

T = TypeVar("T")
Names = Annotated[list[str], Field(min_length=1)]


class Study(SearchSettings):
    """What a study file says. Budgets (`trials`, `seeds`) are per cell.

    `search` overrides ranges: `lr` for every algorithm, `batch_size` moves a shared setting into the
    search of all, `fedprox.mu` is one algorithm's. Search runs use run seed `seed`; final runs
    `seed + 1, seed + 2, ...`. A trial that dies is started again from its checkpoint; when it has died
    once and `retries` times more without getting any further, it has failed. `target` is a test score for "rounds to target".
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    description: str = ""
    algorithms: Names
    datasets: Names
    models: Names
    heterogeneity: Names
    trials: Annotated[int, Field(ge=1)] = 20
    seeds: Annotated[int, Field(ge=1)] = 5
    seed: Annotated[int, Field(ge=0)] = 0
    vary_partition: bool = False
    retries: Annotated[int, Field(ge=0)] = 2
    settings: Settings = Settings()
    search: dict[str, RangeSpec] = {}

    def contradictions(self) -> Iterator[tuple[str, Any, str]]:
        """Settings that do not go together: key, value, rule."""
        yield from super().contradictions()
        if self.scheduler == "pbt":
            yield from population.contradictions(self.trials, self.settings)


@dataclass(frozen=True)
class Cell:
    """One question: how good can this algorithm get on this data set, model and level?"""

    algorithm: str
    dataset: str
    model: str
    heterogeneity: str
    settings: Settings
    space: Space
    known: tuple[Published, ...]
    task: Task
    constraints: Mapping[str, float] = field(default_factory=dict)
    apart: tuple[str, ...] = ()
    """The names that tell the cells of one joint search apart (`Joint.over`)."""

    @property
    def paper(self) -> str:
        """The algorithm's source."""
        return algorithms.resolve(self.algorithm).paper

    def outside(self, params: Mapping[str, Any] | None = None) -> str:
        """How the settings of a configuration, by default of the anchor, are not those that the
        algorithm's paper assumes; "" where they are.
        """
        spec = self.spec(params or self.space.anchor(), 0, self.settings.partition_seed)
        return outside(algorithms.resolve(self.algorithm), spec.settings)

    def reference(self, params: Mapping[str, Any] | None = None) -> bool:
        """Whether a configuration, by default the anchor, is shown without a rank."""
        return algorithms.resolve(self.algorithm).reference or bool(self.outside(params))

    @cached_property
    def id(self) -> str:
        """A hash of all that decides what is asked: not of budgets, seeds and how it is executed."""
        apart = {"data_seed", "partition_seed", "execution", "chunk"}
        fixed = self.settings.model_dump(exclude=apart, exclude_defaults=True)
        content = [
            self.algorithm,
            self.dataset,
            self.model,
            self.heterogeneity,
            fixed,
            self.space.describe(),
        ]
        if self.constraints:
            content.append({"constraints": dict(self.constraints)})
        if self.apart:
            content.append({"joint over": sorted(self.apart)})
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]

    @property
    def group(self) -> tuple[str, ...]:
        """What the cells that share one configuration have in common; the id of one searched alone."""
        if not self.apart:
            return (self.id,)
        names = {"datasets": self.dataset, "models": self.model}
        names |= {"heterogeneity": self.heterogeneity}
        return (self.algorithm, *("" if k in self.apart else v for k, v in names.items()))

    @property
    def name(self) -> str:
        """Readable: `folb · digits · dirichlet(0.3) · logreg`."""
        return f"{self.label} · {self.dataset} · {self.heterogeneity} · {self.model}"

    @property
    def label(self) -> str:
        """The algorithm's short name; a third party's class name."""
        return self.algorithm.rpartition(":")[2]

    @property
    def stops(self) -> tuple[int, ...]:
        """Rounds at which early stopping decides: gap, 3 gap, 9 gap, ... below the last round."""
        gap, rounds = self.settings.evaluation_gap, self.settings.rounds
        return tuple(itertools.takewhile(lambda r: r < rounds, (gap * 3**k for k in range(64))))

    def spec(self, params: Mapping[str, Any], seed: int, partition_seed: int) -> TrialSpec:
        """The trial that runs these params; names that are settings go there."""
        own = algorithms.resolve(self.algorithm).ranges()
        moved = {k: v for k, v in params.items() if k not in own}
        settings = {**self.settings.model_dump(), "partition_seed": partition_seed, **moved}
        return TrialSpec(
            algorithm=self.algorithm,
            params={k: v for k, v in params.items() if k in own},
            dataset=self.dataset,
            model=self.model,
            heterogeneity=self.heterogeneity,
            settings=Settings(**settings),
            seed=seed,
        )


@dataclass
class Faults:
    """Faults of one input, collected so that all are shown at once."""

    source: str
    found: list[str] = field(default_factory=list)

    def add(self, key: str, value: Any, rule: str) -> None:
        """Note that `key` has a `value` that breaks `rule`."""
        self.found.append(f"{key} = {value!r}: {rule}" if value is not None else f"{key}: {rule}")

    def attempt(self, key: str, value: Any, action: Callable[[], T]) -> T | None:
        """The action's result, or None with its `UserError` noted."""
        try:
            return action()
        except UserError as error:
            self.add(key, value, str(error))
            return None

    def validate(self, model: type[BaseModel], data: Any, prefix: str = "") -> None:
        """Note all that pydantic finds wrong."""
        try:
            model.model_validate(data)
        except ValidationError as error:
            for e in error.errors():
                key = prefix + _path(tuple(p for p in e["loc"] if not set(str(p)) & set("-[")))
                if e["type"] == "extra_forbidden":
                    known = _fields_at(model, e["loc"])
                    self.add(key, e["input"], str(unknown("key", str(e["loc"][-1]), known)))
                elif e["type"] == "missing":
                    self.add(key, None, "is required")
                else:
                    rule = e["msg"].removeprefix("Value error, ").replace("Input should", "must")
                    self.add(key, e["input"], rule)

    def check(self) -> None:
        """Raise one `UserError` with all faults, if there are any."""
        if self.found:
            shown = list(dict.fromkeys(self.found))
            count = "1 fault" if len(shown) == 1 else f"{len(shown)} faults"
            raise UserError("\n  ".join([f"{self.source}: {count}, nothing was started", *shown]))


def study_names() -> dict[str, str]:
    """The shipped studies and their descriptions."""
    found = {}
    for path in files("search_spaces").joinpath("studies").iterdir():
        if path.name.endswith(".yaml"):
            content = parse_mapping(path.read_text(), path.name)
            found[path.name.removesuffix(".yaml")] = content.get("description", "")
    return dict(sorted(found.items()))


def read_study(name_or_path: str, overrides: Mapping[str, Any]) -> tuple[str, Study]:
    """The name and content of a study; `overrides` are dotted keys from the command line.

    Raises `UserError` with every fault of the file's form.
    """
    path = Path(name_or_path).expanduser()
    if path.suffix in (".yaml", ".yml"):
        name, text = path.stem, read_text(path, "study")
    else:
        if name_or_path not in study_names():
            raise unknown("study", name_or_path, study_names())
        name = name_or_path
        text = files("search_spaces").joinpath("studies", f"{name}.yaml").read_text()
    faults = Faults(str(path) if path.suffix else f"study {name}")
    content = parse_mapping(text, faults.source)
    content = override(content, overrides)
    faults.validate(Study, content)
    check_names(faults, content)
    faults.check()
    return name, Study.model_validate(content)


def override(content: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """A study's content with keys replaced; `settings.rounds` is a key inside another."""
    changed = dict(content)
    for key, value in overrides.items():
        outer, dot, inner = key.partition(".")
        if not dot:
            changed[outer] = value
        elif isinstance(changed.get(outer) or {}, dict):
            changed[outer] = {**(changed.get(outer) or {}), inner: value}
    return changed


def small(study: Study) -> dict[str, Any]:
    """Overrides that make a study a matter of seconds: 4 clients, all in every round. Under `natural`
    the data say how many clients there are, and the study's participation stays.
    """
    trials = population.FEWEST if study.scheduler == "pbt" else 3
    few = {"trials": trials, "seeds": 2, "settings.rounds": 2, "settings.eval_every": 1}
    levels = [heterogeneity.parse(level) for level in study.heterogeneity]
    if any(isinstance(level.partition, Natural) for level in levels):
        return {**few, "settings.clients": None}
    return {**few, "settings.clients": 4, "settings.participation": 1.0}


def check_names(faults: Faults, content: Mapping[str, Any]) -> None:
    """Note unknown algorithms, data sets, models, levels and searched names."""
    checks: dict[str, Callable[[str], Any]] = {
        "algorithms": algorithms.resolve,
        "datasets": datasets.parse,
        "models": models.parse,
        "heterogeneity": heterogeneity.parse,
    }
    for key, check in checks.items():
        listed = content.get(key)
        for i, value in enumerate(listed if isinstance(listed, list) else []):
            if isinstance(value, str):
                faults.attempt(f"{key}[{i}]", value, partial(check, value))
    search, listed = content.get("search"), content.get("algorithms")
    classes = {}
    for name in listed if isinstance(listed, list) else []:
        if isinstance(name, str):
            with suppress(UserError):
                classes[name] = algorithms.resolve(name)
    # Where an algorithm is unknown itself, a key may be any algorithm's.
    whole = isinstance(listed, list) and all(name in classes for name in map(str, listed))
    owners = classes if whole else {**algorithms.known(), **classes}
    known = set(Settings.model_fields) | {h for cls in owners.values() for h in cls.ranges()}
    known |= {f"{name}.{h}" for name, cls in owners.items() for h in cls.ranges()}
    for key in search if isinstance(search, dict) else []:
        if isinstance(key, str) and key not in known:
            faults.add(f"search.{key}", None, str(unknown("hyperparameter or setting", key, known)))


def check_run(faults: Faults, run: Mapping[str, Any]) -> None:
    """Note what is wrong with one configuration: `algorithm`, `dataset`, `model`, `heterogeneity`
    and `params`.
    """
    cls = faults.attempt(
        "algorithm", run["algorithm"], partial(algorithms.resolve, run["algorithm"])
    )
    faults.attempt("dataset", run["dataset"], partial(datasets.parse, run["dataset"]))
    faults.attempt("model", run["model"], partial(models.parse, run["model"]))
    level = run["heterogeneity"]
    faults.attempt("heterogeneity", level, partial(heterogeneity.parse, level))
    if cls is not None:
        before = len(faults.found)
        for name, value in run["params"].items():
            faults.attempt(f"params.{name}", value, partial(cls.checked, name, value))
        if len(faults.found) == before:
            faults.attempt("params", None, partial(cls.configured, run["params"]))


def make_cells(study: Study, source: str) -> list[Cell]:
    """Every combination, algorithms innermost. Raises `UserError` with every fault: ranges that are
    none, settings that an algorithm refuses.
    """
    faults = Faults(source)
    if study.settings.val_fraction == 0:
        faults.add(
            "settings.val_fraction", 0, "a search needs validation data, so it must be above 0"
        )
    for fault in study.contradictions():
        faults.add(*fault)
    bounds: dict[str, float] = {name: bound.max for name, bound in study.constraints.items()}
    cells = []
    for dataset, model, level, algorithm in itertools.product(
        study.datasets, study.models, study.heterogeneity, study.algorithms
    ):
        cls = algorithms.resolve(algorithm)
        name = algorithms.canonical(algorithm)
        faults.attempt(
            "algorithms", algorithm, partial(refuse, algorithm, cls, study.settings, level)
        )
        space = faults.attempt(
            "search",
            None,
            partial(Space.build, algorithm, cls, study.settings, study.search, study.costs),
        )
        if space is None:
            continue
        dataset, model = datasets.canonical(dataset), models.canonical(model)
        known = tuple(p for p in published(name) if p.matches(dataset, model))
        task = datasets.parse(dataset).task
        cells.append(
            Cell(
                name,
                dataset,
                model,
                heterogeneity.parse(level).name,
                study.settings,
                space,
                known,
                task,
                bounds,
                tuple(study.joint.over) if study.joint else (),
            )
        )
    faults.check()
    return list({cell.id: cell for cell in cells}.values())


def load_data(cells: list[Cell], root: str | None, source: str) -> dict[str, Dataset]:
    """The data sets of all cells by `TrialSpec.dataset_key`, each dealt and fitted once to see that
    it can be, and every algorithm asked whether it can run there. Raises `UserError` with every
    fault.
    """
    faults = Faults(source)
    found: dict[tuple[str, str, str], Any] = {}

    def once(name: str, key: str, value: str, make: Callable[[], Any]) -> Any:
        if (name, key, value) not in found:
            found[name, key, value] = faults.attempt(name, value, make)
        return found[name, key, value]

    for cell in cells:
        spec = cell.spec(cell.space.anchor(), 0, cell.settings.partition_seed)
        key = spec.dataset_key
        data = once("datasets", key, cell.dataset, partial(load_dataset, spec, root))
        if data is None:
            continue
        model = once("models", key, cell.model, partial(fit_model, spec, data))
        clients = once("heterogeneity", key, cell.heterogeneity, partial(_clients, spec, data))
        if model is None or clients is None:
            continue
        for params in cell.space.corners():
            one = cell.spec(params, 0, cell.settings.partition_seed)
            check = partial(one.configured().check, clients, model, one.settings)
            faults.attempt("algorithms", cell.label, check)
    faults.check()
    return {key: data for (name, key, _), data in found.items() if name == "datasets"}


def _clients(spec: TrialSpec, data: Dataset) -> int:
    """How many clients there are once the data are dealt."""
    return deal_data(spec, data).clients


def _path(loc: tuple[int | str, ...]) -> str:
    parts = [f"[{p}]" if isinstance(p, int) else f".{p}" for p in loc]
    return "".join(parts).removeprefix(".")


def _fields_at(model: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """The keys that are known where an unknown one was found."""
    owner = model
    for part in loc[:-1]:
        inner = owner.model_fields.get(str(part))
        if inner is not None:
            owner = _model_in(inner.annotation) or owner
    return list(owner.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model in an annotation such as `Settings`, `Confirm | None` or `dict[str, Bound]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part))), None)
