"""Private names of other libraries stand in one file a library, `*_internals.py`, each with its reason; and the
versions that are installed have them.
"""

import ast
import importlib
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import optuna
import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("suite", "trials", "reports", "search_spaces")
PUBLIC = {"_replace", "_asdict", "_fields", "_make", "_exit", "_getframe"}
"""Of named tuples, of os and of sys: documented."""

USED = {
    "ray._raylet.Config.initialize": "the mode of authentication would be read once a process",
    "ray._raylet.AuthenticationTokenLoader.instance": "a token would be read once a process",
    "ray.job_config.JobConfig._get_proto_job_config": "workers would import from the current folder",
    "optuna.storages.BaseStorage.set_trial_system_attr": "constraints would not reach samplers",
    "optuna.storages.BaseStorage.set_trial_intermediate_value": "pruned trials would have no intermediate values",
    "mlflow.server.fastapi_app.app": "`suite ui` would have no pages of MLflow",
    "mlflow.server.constants.BACKEND_STORE_URI_ENV_VAR": "`suite ui` would have no pages of MLflow",
    "mlflow.store.artifact.artifact_repository_registry.get_registered_artifact_repositories": "`suite ui` would serve any folder",
    "mlflow.store.artifact.local_artifact_repo.LocalArtifactRepository.artifact_dir": "`suite ui` would serve any folder",
    "rich.control._CONTROL_STRIP_TRANSLATE": "names of others could write over a terminal",
}
"""Each private name, and what a version of its library without it would break."""


def sources() -> list[str]:
    found = (path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))
    return sorted(str(p.relative_to(ROOT)) for p in found if not p.stem.endswith("_internals"))


def private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC


def names(tree: ast.Module) -> Iterator[str]:
    """Private names that a module takes from other libraries, or from objects that are not its own classes'."""
    nodes = list(ast.walk(tree))
    selves = [n for n in nodes if isinstance(n, ast.Attribute) and _is_self(n.value)]
    own = {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    own |= {n.attr for n in selves}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] not in PACKAGES:
            parts = [*(node.module or "").split("."), *(one.name for one in node.names)]
            yield from filter(private, parts)
        if isinstance(node, ast.Import):
            yield from filter(private, (part for one in node.names for part in one.name.split(".")))
        if isinstance(node, ast.Attribute) and not _is_self(node.value) and node.attr not in own:
            yield from filter(private, [node.attr])


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


@pytest.mark.parametrize("path", sources())
def test_a_module_takes_no_private_name_of_others(path: str) -> None:
    assert not list(names(ast.parse((ROOT / path).read_text())))


def has(name: str) -> bool:
    """Whether a dotted name is there: of a module, or of what is in one."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@pytest.mark.parametrize("name", USED)
def test_the_installed_version_has(name: str) -> None:
    library = name.partition(".")[0]
    assert has(name), f"{library} {version(library)} has no {name} any more: {USED[name]}"


def test_a_study_says_where_it_keeps_its_trials() -> None:
    study = optuna.create_study()
    study.ask()
    assert hasattr(study, "_storage"), "pruned trials would have no intermediate values"
    assert hasattr(study.trials[0], "_trial_id"), "pruned trials would have no intermediate values"
