"""The tags and params of recorded runs. A tag `x` of these is `suite.x` in the store; docs/table.md has them all."""

import contextlib
import importlib.metadata
import json
import subprocess
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from trials.common import plugins
from trials.run.outcome import TrialResult
from trials.run.spec import TrialSpec

PREFIX = "suite."


class RunKind(StrEnum):
    """What a recorded run is."""

    SWEEP = "sweep"
    SEARCH = "search"
    FINAL = "final"
    LEADERBOARD = "leaderboard"
    """A row of the leaderboard of its sweep."""
    SUPERSEDED = "superseded"
    """A final run of what is no longer the best of its scenario."""
    RUN = "run"
    REPRODUCE = "reproduce"


def dumps(value: Any) -> str:
    """Return compact JSON, keys sorted."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def spec_params(spec: TrialSpec) -> dict[str, Any]:
    """Return the params of a run: the algorithm's fields and the shared settings."""
    settings = {k: v for k, v in spec.settings.model_dump().items() if v is not None}
    return {**settings, **spec.params}


def run_tags(kind: RunKind, spec: TrialSpec, outcome: TrialResult) -> dict[str, str]:
    """Return the tags of a run that ran a trial. `spec`, and how it `ran`, are enough to replay it."""
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
    """Return what numbers depend on besides the spec: versions, and the commit of a source checkout of the suite; none where it is
    installed, whatever repository its environment lies in.
    """
    packages = {"version": "suite-fl", "torch_version": "torch", "numba_version": "numba"}
    numbers = {}
    for name, package in packages.items():
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            numbers[name] = importlib.metadata.version(package)
    root = Path(__file__).resolve().parents[3]
    if (root / ".git").exists() and (root / "pyproject.toml").exists():
        command = ["git", f"--git-dir={root / '.git'}", "rev-parse", "HEAD"]
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            numbers["git_commit"] = subprocess.check_output(
                command, text=True, stderr=subprocess.DEVNULL
            ).strip()
    return numbers
