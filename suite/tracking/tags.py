"""What a run's tags and params say."""

import contextlib
import importlib.metadata
import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from trials.outcome import Outcome
from trials.spec import TrialSpec


def spec_params(spec: TrialSpec) -> dict[str, Any]:
    """The params of a run: the algorithm's fields and the shared settings."""
    settings = {k: v for k, v in spec.settings.model_dump().items() if v is not None}
    return {**settings, **spec.params}


def run_tags(kind: str, spec: TrialSpec, outcome: Outcome) -> dict[str, Any]:
    """The tags of a run that ran a trial; `spec` alone is enough to replay it."""
    return {
        "kind": kind,
        "seed": spec.seed,
        "status": outcome.status,
        "partition_fingerprint": outcome.fingerprint,
        "execution": outcome.execution or None,
        "chunk": outcome.chunk,
        "spec": dumps(spec.model_dump(mode="json")),
        "not_finite": " ".join(outcome.not_finite) or None,
        "error": outcome.error[-5000:] or None,
        **versions(),
    }


@cache
def versions() -> dict[str, str]:
    """What numbers depend on besides the spec: versions, and the commit of a source checkout."""
    found = {
        "version": importlib.metadata.version("suite-fl"),
        "torch_version": importlib.metadata.version("torch"),
    }
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        found["numba_version"] = importlib.metadata.version("numba")
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found["git_commit"] = done.stdout.strip()
    return found


def dumps(value: Any) -> str:
    """Compact JSON, keys sorted."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
