"""What is wrong with a study or a run, all of it at once."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from suite.studies.samplers import find_sampler
from trials import algorithms, datasets, heterogeneity, models
from trials.common import plugins
from trials.common.errors import UserError, unknown
from trials.common.names import split_top
from trials.settings import Settings

T = TypeVar("T")


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
        broken: dict[str, tuple[Any, list[str]]] = {}
        try:
            model.model_validate(data)
        except ValidationError as error:
            for e in error.errors():
                key = prefix + _path(tuple(p for p in e["loc"] if not set(str(p)) & set("-[")))
                value = None if e["type"] == "missing" else e["input"]
                broken.setdefault(key, (value, []))[1].append(_rule(model, e))
        for key, (value, (first, *others)) in broken.items():  # one of each form it may have
            forms = [first, *(other.removeprefix("must be ") for other in others)]
            self.add(key, value, " or ".join(forms))

    def check(self) -> None:
        """Raise one `UserError` with all faults, if there are any."""
        if self.found:
            shown = list(dict.fromkeys(self.found))
            count = "1 fault" if len(shown) == 1 else f"{len(shown)} faults"
            raise UserError("\n  ".join([f"{self.source}: {count}, nothing was started", *shown]))


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
    if isinstance(sampler := content.get("sampler"), str):
        faults.attempt("sampler", sampler, partial(find_sampler, sampler))
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
    for key, spec in search.items() if isinstance(search, dict) else []:
        if isinstance(key, str) and key not in known:
            faults.add(f"search.{key}", None, str(unknown("hyperparameter or setting", key, known)))
        on = spec.get("datasets") if isinstance(spec, dict) else None
        for name in on if isinstance(on, dict) else []:
            if isinstance(name, str) and name not in datasets.DATASETS:
                faults.attempt(f"search.{key}.datasets", name, partial(datasets.parse, name))


def check_run(faults: Faults, run: Mapping[str, Any], resolves: bool = True) -> None:
    """Note what is wrong with one configuration: `algorithm`, `dataset`, `model`, `heterogeneity`
    and `params`. Where nothing `resolves`, for it is only read, an algorithm of others' code stays as it is.
    """
    name = run["algorithm"]
    cls = None
    if resolves or not plugins.named(name):
        cls = faults.attempt("algorithm", name, partial(algorithms.resolve, name))
    faults.attempt("dataset", run["dataset"], partial(datasets.parse, run["dataset"]))
    faults.attempt("model", run["model"], partial(models.parse, run["model"]))
    level = run["heterogeneity"]
    if resolves or not any(map(plugins.named, split_top(level, "+"))):
        faults.attempt("heterogeneity", level, partial(heterogeneity.parse, level))
    if cls is not None:
        before = len(faults.found)
        for name, value in run["params"].items():
            faults.attempt(f"params.{name}", value, partial(cls.checked, name, value))
        if len(faults.found) == before:
            faults.attempt("params", None, partial(cls.configured, run["params"]))


def rule(fault: Mapping[str, Any]) -> str:
    """The rule that pydantic found broken, as the other messages put it."""
    if fault["type"] in ("model_type", "dict_type"):
        return "must be a mapping of keys to values"
    if fault["type"] == "too_short" and fault["ctx"]["min_length"] == 1:
        return "must not be empty"
    return str(fault["msg"]).removeprefix("Value error, ").replace("Input should", "must")


def _rule(model: type[BaseModel], fault: Mapping[str, Any]) -> str:
    """The rule that is broken; of a name where a list of them belongs, how that is written."""
    kind, value = fault["type"], fault["input"]
    if kind == "extra_forbidden":
        known, name = _fields_at(model, fault["loc"]), str(fault["loc"][-1])
        if "settings" in known and name in Settings.model_fields:
            return f"is a shared setting: write it as `settings: {{{name}: ...}}`"
        return str(unknown("key", name, known))
    if kind == "list_type" and isinstance(value, str):
        return f"must be a list: [{value}]"
    if kind != "missing":
        return rule(fault)
    return "is required" + ", as in --datasets npz:my.npz" * (fault["loc"] == ("datasets",))


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
