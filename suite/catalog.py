"""What there is: algorithms, data sets, models, heterogeneity levels, samplers, studies, papers."""

import inspect
import re
import sys
from collections import defaultdict
from typing import Any

from suite.studies.samplers import OWN_SUMMARY, SAMPLERS
from suite.studies.space import space_file
from suite.studies.study import study_names
from trials import algorithms
from trials.common import names
from trials.common.errors import unknown
from trials.common.registry import Registry
from trials.datasets import DATASETS, PATHS
from trials.datasets.own import Function
from trials.heterogeneity import MODIFIERS, PARTITIONS
from trials.models import MODELS


def listing(kind: str) -> list[dict[str, Any]]:
    """One object for each thing of a kind; raises `UserError` on an unknown kind."""
    if kind not in KINDS:
        raise unknown("listing", kind, KINDS)
    return KINDS[kind]()


REGISTRIES: dict[str, tuple[Registry[Any], ...]] = {
    "algorithms": (algorithms.ALGORITHMS,),
    "datasets": (DATASETS,),
    "heterogeneity": (PARTITIONS, MODIFIERS),
}


def broken(kind: str) -> list[str]:
    """Why classes of a kind in installed packages are left out of its listing."""
    return [fault for registry in REGISTRIES.get(kind, ()) for fault in registry.broken()]


def _algorithms() -> list[dict[str, Any]]:
    found = []
    for name, cls in algorithms.known().items():
        defaults, told = cls(), space_file(name)
        found.append(
            {
                "name": name,
                "paper": cls.paper,
                "summary": _summary(cls),
                "reference": cls.reference,
                "requires": {
                    setting: {"value": value, "reason": reason}
                    for setting, (value, reason) in cls.requires.items()
                },
                "home": dict(cls.home),
                "hyperparameters": {
                    key: {
                        "type": spec.type,
                        "default": getattr(defaults, key),
                        "low": spec.low,
                        "high": spec.high,
                        "log": spec.log,
                        "choices": spec.choices,
                        "when": spec.when,
                        "searched": spec.searched,
                    }
                    for key, spec in cls.ranges().items()
                },
                "published": [
                    {
                        "params": p.params,
                        "source": p.source,
                        "datasets": p.datasets,
                        "models": p.models,
                    }
                    for p in told.published
                ],
                "defaults": [one.model_dump() for one in told.defaults],
            }
        )
    return found


def _datasets() -> list[dict[str, Any]]:
    found = _named(DATASETS)
    found += [{"name": f"{n}:PATH", "summary": cls.summary} for n, cls in PATHS.items()]
    return [*found, {"name": "FILE.py:NAME", "summary": Function.summary}]


def _models() -> list[dict[str, Any]]:
    return [{"name": names.usage(n, cls), "summary": cls.summary} for n, cls in MODELS.items()]


def _named(registry: Registry[Any], sign: str = "") -> list[dict[str, Any]]:
    """How each class of a registry is written, and what it is."""
    return [
        {"name": sign + names.usage(name, cls), "summary": cls.summary}
        for name, cls in registry.known().items()
    ]


def _samplers() -> list[dict[str, Any]]:
    found = [{"name": name, "summary": sampler.summary} for name, sampler in SAMPLERS.items()]
    return [*found, {"name": "FILE.py:make", "summary": OWN_SUMMARY}]


def _studies() -> list[dict[str, Any]]:
    return [{"name": name, "summary": text} for name, text in study_names().items()]


def _papers() -> list[dict[str, Any]]:
    by_paper: dict[str, list[str]] = defaultdict(list)
    for name, cls in algorithms.known().items():
        by_paper[cls.paper].append(name)
    return [{"name": paper, "algorithms": found} for paper, found in by_paper.items()]


def _summary(cls: type) -> str:
    """The first sentence of the module's docstring, or of the class's where the module has none."""
    text = sys.modules[cls.__module__].__doc__ or cls.__doc__ or ""
    return text.strip().split("\n\n")[0].replace("\n", " ")


FACTS = ("Equations", "Keeps", "Down", "Up", "Reading")
"""What an algorithm's docstring says about it, each on a line that begins with the word."""


def facts(cls: type) -> dict[str, str]:
    """The facts in an algorithm's docstring; "" for those it does not give."""
    docstring = inspect.getdoc(cls) or ""
    _, *parts = re.split(rf"^({'|'.join(FACTS)}):", docstring, flags=re.MULTILINE)
    given = {key: " ".join(text.split()) for key, text in zip(parts[::2], parts[1::2], strict=True)}
    return {key: given.get(key, "") for key in FACTS}


def algorithms_page() -> str:
    """docs/algorithms.md: the table of all algorithms, from their docstrings and search spaces."""
    rows = [
        "# Algorithms",
        "",
        "Generated by `suite list algorithms --markdown`. Floats per round: N clients, K selected, d "
        "weights. A range marked log is searched on a log scale; fixed values are searched only "
        "where a study gives them a range. References are shown without a rank.",
        "",
    ]
    columns = ["algorithm", "paper", "equations", "hyperparameters", "published", "a client keeps"]
    columns += ["down", "up", "reading taken"]
    rows += ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for item in _algorithms():
        found = facts(algorithms.resolve(item["name"]))
        values = [
            f"`{item['name']}`" + (" (reference)" if item["reference"] else ""),
            item["paper"],
            found["Equations"],
            "<br>".join(hyperparameter(name, h) for name, h in item["hyperparameters"].items()),
            "<br>".join(
                [*map(_default, item["defaults"]), *(published(p) for p in item["published"])]
            ),
            *(found[key] for key in FACTS[1:-1]),
            " ".join(filter(None, [found["Reading"], *_assumed(item)])),
        ]
        rows.append("| " + " | ".join(v.replace("|", "\\|") for v in values) + " |")
    return "\n".join([*rows, ""])


def hyperparameter(name: str, given: dict[str, Any]) -> str:
    """One line: `lr = 0.1 (0.001..1 log)`, from what `listing("algorithms")` says of it."""
    if given["choices"] is not None:
        text = ", ".join(map(str, given["choices"]))
    else:
        text = f"{given['low']:.4g}..{given['high']:.4g}" + " log" * given["log"]
    default = given["default"]
    shown = f"{default:.4g}" if isinstance(default, float) else str(default)
    when = "".join(f" when {k}={v}" for k, v in (given["when"] or {}).items())
    return f"{name} = {shown} ({text if given['searched'] else f'fixed; {text}'}){when}"


def _assumed(item: dict[str, Any]) -> list[str]:
    ranked = [
        f"Ranked only at `{setting}={what['value']}`: {what['reason']}."
        for setting, what in item["requires"].items()
    ]
    return [*ranked, *(f"Marked where this is not so: {why}." for why in item["home"].values())]


def _default(given: dict[str, Any]) -> str:
    parts = {name: f"{share:g} of the rounds" for name, share in given["of_rounds"].items()}
    shown = published({**given, "params": {**given["params"], **parts}})
    on = ", ".join([*given["datasets"], *given["models"]])
    return f"default configuration ({on}): {shown}" if on else f"default configuration: {shown}"


def published(given: dict[str, Any]) -> str:
    """A published configuration and its source in a line, from the same listing."""
    params = " ".join(
        f"{k}={v:g}" if isinstance(v, float) else f"{k}={v}" for k, v in given["params"].items()
    )
    return f"{params}: {given['source']}"


KINDS = {
    "algorithms": _algorithms,
    "datasets": _datasets,
    "models": _models,
    "heterogeneity": lambda: [*_named(PARTITIONS), *_named(MODIFIERS, "+")],
    "samplers": _samplers,
    "studies": _studies,
    "papers": _papers,
}
