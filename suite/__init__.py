"""Federated-learning algorithms, tuned fairly, compared, reused: the command line and `suite.api`.

`suite.sweep`, `run`, `load_model`, `leaderboard`, `tuned` and `trainable` are imported when they are first used.
"""

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if sys.platform == "win32":
    _said = "suite does not run on Windows: use Linux, or Linux in WSL 2 (docs/compatibility.md)"
    if Path(sys.argv[0]).stem == "suite":  # the command, which has no use for a traceback
        print(f"error: {_said}", file=sys.stderr)
        sys.exit(2)
    raise ImportError(_said)

if TYPE_CHECKING:
    from suite.api import leaderboard, load_model, run, sweep, trainable, tuned
    from trials.common.errors import UserError

_HOMES = {
    **dict.fromkeys(
        ("leaderboard", "load_model", "run", "sweep", "trainable", "tuned"), "suite.api"
    ),
    "UserError": "trials.common.errors",
}
__all__ = [
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
