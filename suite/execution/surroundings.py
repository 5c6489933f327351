"""What Ray and Tune are set to while the suite drives them. Afterwards this process has all as it was."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray

from suite.console import say
from suite.environment import default, kept
from suite.execution.ray_internals import printing, read_authentication_again, told_as_a_death

WORKERS = {
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # relative paths mean what the person meant
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_TUNE = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # Tune's own returns normally from an interrupted sweep
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",  # the journal is what a sweep resumes from
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "600",
}
"""How Tune is wanted while the suite drives it. Other programs of the process may want it otherwise."""


@contextmanager
def ray_set(token: str | None = None) -> Iterator[None]:
    """Ray's environment while it is used: with a `token`, for a cluster of this process's own, which asks
    all who call it for that token; without, for one that is running, with whatever token a person has for it.
    """
    logger = logging.getLogger("ray")
    level = logger.level
    try:
        with kept("RAY_", "PYTHONBREAKPOINT"), printing(_first_line):
            default(**WORKERS, RAY_USAGE_STATS_ENABLED="0")
            if token is not None:
                os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
            elif not os.environ.get("RAY_AUTH_MODE"):
                os.environ["RAY_AUTH_MODE"] = "token" if _has_token() else "disabled"
            read_authentication_again()
            # Beside the main thread Ray takes no signals, and warns of it; the driver has its own handlers.
            logger.setLevel(logging.ERROR)
            yield
    finally:
        logger.setLevel(level)
        if not ray.is_initialized():
            read_authentication_again()


def _has_token() -> bool:
    """Whether a person has a token for clusters; Ray shows it only where the mode says so."""
    named = {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys()
    return bool(named) or (Path.home() / ".ray" / "auth_token").exists()


@contextmanager
def driven() -> Iterator[None]:
    """Tune as the suite wants it, and without its tracebacks: of trials that died, which start again,
    and of its own files, which nobody needs.
    """
    logger = logging.getLogger("ray.tune")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with kept("RAY_", "TUNE_"), told_as_a_death():
            default(**WORKERS, **_TUNE)
            yield
    finally:
        logger.setLevel(level)


def _first_line(message: Mapping[str, Any], *args: Any, **kwargs: Any) -> None:
    text = "\n".join(message["lines"]).strip()
    say(f"ray: {text.splitlines()[0][:300]}" if text else "ray:")
