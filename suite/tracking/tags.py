"""The tags, params and pages of MLflow runs. A tag `x` here is called `suite.x` in MLflow; docs/table.md lists all tags."""

import contextlib
import importlib.metadata
import json
import subprocess
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from trials.common import plugins
from trials.run.outcome import TrialResult
from trials.run.spec import TrialSpec

PREFIX = "suite."
PACKAGES = {"version": "suite-fl", "torch_version": "torch", "numba_version": "numba"}
"""Packages whose versions affect results, by the tag for the version. Numba is optional."""


class RunKind(StrEnum):
    """The kind of an MLflow run."""

    SWEEP = "sweep"
    SEARCH = "search"
    FINAL = "final"
    LEADERBOARD = "leaderboard"
    """A row of a sweep's leaderboard."""
    RUN = "run"
    REPRODUCE = "reproduce"


def dumps(value: Any) -> str:
    """Return a value as compact JSON with sorted keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def spec_params(spec: TrialSpec) -> dict[str, Any]:
    """Return the MLflow params of a run: the algorithm's hyperparameters, and the settings that are not None."""
    settings = {k: v for k, v in spec.settings.model_dump().items() if v is not None}
    return {**settings, **spec.params}


def run_tags(kind: RunKind, spec: TrialSpec, outcome: TrialResult) -> dict[str, str]:
    """Return the MLflow tags of a trial's run. The tags `spec` and `ran` suffice to replay the run."""
    names = ("execution", "chunk", "halved", "device", "fingerprint")
    ran = {name: getattr(outcome, name) for name in names}
    ran["code"] = plugins.hashes(*spec.code)
    tags = {
        "kind": str(kind),
        "algorithm": spec.algorithm,
        **spec.scenario.names(),
        "seed": str(spec.seed),
        "status": str(outcome.status),
        "spec": dumps(spec.model_dump(mode="json")),
        "ran": dumps({name: value for name, value in ran.items() if value}),
        "not_finite": " ".join(outcome.not_finite),
        "error": outcome.error[-4000:],
        "model_note": outcome.model_note,
        "data_note": outcome.data_note,
    }
    return {name: text for name, text in tags.items() if text} | versions()


@cache
def versions() -> dict[str, str]:
    """Return the versions of suite, torch and numba by tag. A source checkout adds its Git commit."""
    numbers = {}
    for name, package in PACKAGES.items():
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            numbers[name] = importlib.metadata.version(package)
    root = Path(__file__).resolve().parents[2]
    # An installed suite may lie in the Git repository of another project.
    if (root / ".git").exists() and (root / "pyproject.toml").exists():
        command = ["git", f"--git-dir={root / '.git'}", "rev-parse", "HEAD"]
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            commit = subprocess.check_output(command, text=True, stderr=subprocess.DEVNULL)
            numbers["git_commit"] = commit.strip()
    return numbers


def experiments_page(path: str = "", **query: str) -> str:
    """Return the URL path of MLflow's experiments page, or of the page `path` below it. `query` are URL parameters."""
    # By default MLflow opens its view for language models, which shows no runs.
    return f"/#/experiments{path}?{urlencode({'workflowType': 'machine_learning', **query})}"


def run_page(experiment: str, run_id: str) -> str:
    """Return the URL path of a run's page in MLflow."""
    return experiments_page(f"/{experiment}/runs/{run_id}")


def leaderboard_page(experiment: str, sweep: str) -> str:
    """Return the URL path of the MLflow page with a sweep's leaderboard rows, in leaderboard order."""
    quote = '"' if "'" in sweep else "'"
    rows = f"tags.`{PREFIX}kind` = '{RunKind.LEADERBOARD}' and tags.`{PREFIX}sweep` = {quote}{sweep}{quote}"
    order = {"orderByKey": f"tags.`{PREFIX}row`", "orderByAsc": "true"}
    return experiments_page(f"/{experiment}/runs", searchFilter=rows, **order)
