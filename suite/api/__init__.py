"""The Python interface: what the commands do, for scripts and notebooks, with typed results.

Bad input raises `trials.common.errors.UserError`, with the text that the command shows. Without a `tracking_uri`
that of MLFLOW_TRACKING_URI counts, as with the commands. See docs/python.md.
"""

from suite.api.results import board, leaderboard, report, status, stop, tuned
from suite.api.runs import advise, load_model, replay, run, sweep, trainable, transfer

__all__ = [
    "advise",
    "board",
    "leaderboard",
    "load_model",
    "replay",
    "report",
    "run",
    "status",
    "stop",
    "sweep",
    "trainable",
    "transfer",
    "tuned",
]
