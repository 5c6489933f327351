"""Tune federated-learning algorithms by the same rules, compare them, and reuse what was tuned.

`suite.sweep`, `suite.run` and the other public functions are loaded from `suite.api` when they are first used.
"""

import sys
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if sys.platform == "win32":
    _message = "suite does not run on Windows: use Linux, or Linux in WSL 2 (docs/reference.md)"
    if Path(sys.argv[0]).stem == "suite":  # the command, which has no use for a traceback
        print(f"error: {_message}", file=sys.stderr)
        sys.exit(2)
    raise ImportError(_message)

if TYPE_CHECKING:
    from suite.api import *  # noqa: F403
    from trials.common.errors import UserError as UserError

_API = "leaderboard load load_model replay report run status stop study sweep trainable tuned"
__all__ = ["UserError", *_API.split()]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("suite-fl")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "trials.common.errors" if name == "UserError" else "suite.api"
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return __all__
