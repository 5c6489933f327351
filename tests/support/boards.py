"""Final runs and search trials made by hand, and their leaderboards."""

import io
import json
from collections.abc import Mapping, Sequence
from math import nan
from typing import Any

import pandas as pd
from rich.console import Console

from reports.leaderboard.board import Leaderboard
from reports.leaderboard.leaderboard import leaderboard
from reports.leaderboard.replication import Draw
from reports.wording.tables import terminal
from suite.results.table import PLAIN
from trials.scoring.metrics import COUNTED, REACHED

A = [0.91, 0.92, 0.90, 0.93, 0.89]
B = [0.90, 0.92, 0.88, 0.92, 0.90]
C = [0.70, 0.71, 0.69, 0.70, 0.72]
LEVELS = ("iid", "labels(2)")
LEVEL = "dirichlet(0.1)+system(steps=1..20)"


def run(algorithm: str, seed: int, score: float, **given: Any) -> dict[str, Any]:
    """A final run; `spent` and `reached` have several of its columns, `params` is a mapping."""
    row = {
        **dict.fromkeys(PLAIN, ""),
        **dict.fromkeys(COUNTED, 0.0),
        **dict.fromkeys(REACHED, nan),
        "client_steps": 1000.0,
        "sample_gradients": 9000.0,
        "uploaded_bytes": 2e6,
        **dict.fromkeys(("val_score", "worst_clients", "client_spread"), nan),
        **dict.fromkeys(("split", "partition", "tuning"), 0),
        "sweep": "night",
        "study": "quick",
        "algorithm": algorithm,
        "seed": seed,
        "score": score,
        "paper": f"paper of {algorithm}",
        "dataset": "digits",
        "model": "logreg",
        "heterogeneity": "iid",
        "metric": "accuracy",
        "reference": False,
        "lost": False,
        "warm": False,
        "curve": (),
        "shared": "{}",
        "page": "",
        "own_models": False,
        "test_samples": 360,
        **given.pop("spent", {}),
        **given.pop("reached", {}),
        "params": json.dumps(given.pop("params", {"lr": 0.1})),
        **given,
    }
    entry = "|".join([algorithm, row["dataset"], row["model"], row["heterogeneity"]])
    return row | {"compared": row["metric"], "entry_id": entry}


def by_seed(scores: Mapping[int, float]) -> dict[Draw, float]:
    """Final runs of one tuned configuration by what they were drawn by."""
    return {Draw(0, 0, 0, seed): score for seed, score in scores.items()}


def runs(algorithm: str, scores: list[float], **given: Any) -> list[dict[str, Any]]:
    return [run(algorithm, seed, score, **given) for seed, score in enumerate(scores, 1)]


def at(rounds: int) -> dict[str, float]:
    """The target, reached after so many rounds."""
    return dict(zip(REACHED, (rounds, 1000.0 * rounds, 2e6 * rounds), strict=True))


def board_of(
    *found: list[dict[str, Any]],
    target: float | None = None,
    trials: dict[tuple[str, str], int] | None = None,
    margin: float | None = None,
) -> Leaderboard:
    rows = [r for part in found for r in part]
    frame = pd.DataFrame(rows, columns=[*run("a", 1, 0.0)])
    return leaderboard(frame, trials or {}, target, margin=margin)


def searched(
    *scores: float | None, status: Sequence[str] | str = "finished", replicate: str = ""
) -> pd.DataFrame:
    """Search trials of an entry with these validation scores."""
    columns = {"status": status, "val_score": scores, "replicate": replicate}
    return pd.DataFrame({"number": range(len(scores)), **columns})


def shown(board: Leaderboard, width: int, **asked: Any) -> list[str]:
    """The lines that a terminal of this width shows."""
    return printed(terminal(board, width, **asked), width)


def printed(text: Any, width: int = 400) -> list[str]:
    """The lines in which a terminal prints something."""
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(text)
    return console.file.getvalue().splitlines()
