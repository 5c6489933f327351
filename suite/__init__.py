"""Federated-learning algorithms, tuned fairly, compared, reused: the command line and `suite.api`.

`suite.sweep`, `run`, `load_model`, `leaderboard`, `tuned` and `trainable` are imported when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suite.api import leaderboard, load_model, run, sweep, trainable, tuned
    from suite.execution.cluster import Resources
    from trials.errors import UserError

_HOMES = {
    **dict.fromkeys(
        ("leaderboard", "load_model", "run", "sweep", "trainable", "tuned"), "suite.api"
    ),
    "Resources": "suite.execution.cluster",
    "UserError": "trials.errors",
}
__all__ = [
    "Resources",
    "UserError",
    "leaderboard",
    "load_model",
    "run",
    "sweep",
    "trainable",
    "tuned",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
