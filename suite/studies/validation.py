"""The faults of a study or a run, collected so that one error shows all of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from trials import algorithms, datasets, heterogeneity, models
from trials.common import plugins
from trials.common.errors import LONGEST, UserError, unknown
from trials.common.names import split_top
from trials.settings import Settings

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
MOST_FAULTS = 20
"""The most faults that one error message lists."""
FORMS = ("function-", "literal[", "constrained-", "nullable[", "list[", "dict[", "[key]")
"""Steps in the location of a pydantic error that are forms of a value and not keys of the input."""
RULES = dict.fromkeys(("model_type", "dict_type"), "must be a mapping of keys to values")
RULES |= {"too_short": "must not be empty", "missing": "is required"}
"""The rule that a message states, by the type of the pydantic error."""


class Written(BaseModel):
    """The base of pydantic models for what people write, such as studies. Unknown keys are refused; instances are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)


@dataclass
class Faults:
    """The faults of one input, collected so that all are shown at once."""

    source: str
    found: list[str] = field(default_factory=list)

    def add(self, key: str, value: Any, rule: str) -> None:
        """Record that the value of `key` breaks `rule`. The message shows the value unless it is None."""
        where = key if value is None else f"{key} = {value!r:.{LONGEST}}"
        self.found.append(f"{where}: {rule}")

    def attempt(self, key: str, value: Any, action: Callable[[], T]) -> T | None:
        """Return the result of `action`. If `action` raises `UserError`, record the error as a fault of `key`, and return None."""
        try:
            return action()
        except UserError as error:
            self.add(key, value, str(error))
            return None

    def validate(self, model: type[M], data: Any, prefix: str = "") -> M | None:
        """Return `data` as an instance of the pydantic class `model`. If `data` is invalid, record the errors, and return None."""
        try:
            return model.model_validate(data)
        except ValidationError as error:
            errors = error.errors()
        rules: dict[str, tuple[Any, list[str]]] = {}
        for fault in errors:
            path = [f"[{k}]" if isinstance(k, int) else f".{k}" for k in fault["loc"]]
            path = [step for step in path if not step.lstrip(".").startswith(FORMS)]
            key = prefix + "".join(path).removeprefix(".")
            nameless = fault["type"] == "missing" or fault["loc"][-1:] == ("[key]",)
            value = None if nameless else fault["input"]
            rules.setdefault(key, (value, []))[1].append(_rule(model, fault))
        for key, (value, forms) in rules.items():  # one rule for each form that the value may have
            self.add(key, value, " or ".join(forms).replace(" or must be ", " or "))
        return None

    def check(self) -> None:
        """Raise one `UserError` that lists all faults, if there are any."""
        if not self.found:
            return
        faults = list(dict.fromkeys(self.found))
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        lines = [f"{self.source}: {count}, nothing was started", *faults[:MOST_FAULTS]]
        if len(faults) > MOST_FAULTS:
            lines.append(f"and {len(faults) - MOST_FAULTS} more")
        raise UserError("\n  ".join(lines))


def check_run(faults: Faults, run: Mapping[str, Any], resolves: bool = True) -> None:
    """Check a run's `algorithm`, `dataset`, `model`, `heterogeneity` and `params`, and add the errors to `faults`. If
    `resolves` is false, skip names that would load third-party code.
    """
    name, level, cls = run["algorithm"], run["heterogeneity"], None
    if resolves or not plugins.named(name):
        cls = faults.attempt("algorithm", name, partial(algorithms.resolve, name))
    faults.attempt("dataset", run["dataset"], partial(datasets.parse, run["dataset"]))
    faults.attempt("model", run["model"], partial(models.parse, run["model"]))
    if resolves or not any(map(plugins.named, split_top(level, "+"))):
        faults.attempt("heterogeneity", level, partial(heterogeneity.parse, level))
    if cls is not None:
        faults.attempt("params", None, partial(cls.configured, run["params"]))


def rule(fault: Mapping[str, Any]) -> str:
    """Return which rule is broken according to a pydantic error, such as "must be greater than 0", in the suite's wording."""
    text = str(fault["msg"]).removeprefix("Value error, ").replace("Input should", "must")
    return RULES.get(fault["type"], text)


def _rule(model: type[BaseModel], fault: Mapping[str, Any]) -> str:
    """Return which rule a fault breaks, such as "must be greater than 0". For an unknown key, suggest the key probably meant."""
    if fault["type"] != "extra_forbidden":
        return rule(fault)
    owner: Any = model
    *path, key = fault["loc"]
    for step in path:
        if str(step) in owner.model_fields:
            owner = _model_in(owner.model_fields[step].annotation) or owner
    if "settings" in owner.model_fields and key in Settings.model_fields:
        return f"is a shared setting: write it as `settings: {{{key}: ...}}`"
    return str(unknown("key", str(key), owner.model_fields))


def _model_in(annotation: Any) -> Any:
    """Return the pydantic class in an annotation such as `Confirm | None` or `dict[str, Bound]`. Return None without one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)
