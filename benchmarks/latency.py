"""Measure how long commands take in a fresh process, and compare that with their time budgets.

python benchmarks/latency.py --runs 1
"""

import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import Any

from measuring import SUITE, alone, machine, parser, scratch, show

LIBRARIES = ("torch", "mlflow")
"""Imports that commands need, timed beside them as a lower bound."""
BUDGETS: dict[tuple[str, ...], float] = {
    ("--help",): 0.3,
    ("list", "algorithms"): 1.0,
    ("status",): 1.0,
    ("tuned", "list"): 4.0,
    ("leaderboard",): 4.0,
    ("report",): 4.0,
    ("run",): 6.0,
}
"""Seconds that each command may take on an idle core, once the code is byte-compiled."""
SWEEP = 45.0
"""Seconds that a sweep of the quickstart may take on two cores."""
PLACELESS = ("--help", "list")  # commands without --storage


def latency(study: str, runs: int) -> dict[str, Any]:
    """Return the median seconds of `runs` fresh processes for each command: imports, a sweep of the study, and commands that
    read the first such sweep.
    """
    seconds: dict[str, list[float]] = defaultdict(list)
    with scratch() as folder:
        for number in range(runs):
            for name in LIBRARIES:
                command = (sys.executable, "-c", f"import {name}")
                seconds[f"import {name}"].append(_seconds(command))
            place = ("--storage", str(folder / str(number)), "--name", "measured")
            seconds[f"sweep {study}"].append(_seconds((*SUITE, "sweep", study, *place)))
            there = ("--storage", str(folder / "0"))
            for words in BUDGETS:
                where = () if words[0] in PLACELESS else there
                seconds[" ".join(words)].append(_seconds((*SUITE, *words, *where)))
    budgets = {" ".join(words): budget for words, budget in BUDGETS.items()}
    budgets["sweep quickstart"] = SWEEP
    rows = [_row(name, times, budgets.get(name)) for name, times in seconds.items()]
    return {"machine": machine(), "runs": runs, "commands": rows}


def _row(name: str, times: Sequence[float], budget: float | None) -> dict[str, Any]:
    middle = median(times)
    return {
        "command": name,
        "seconds": round(middle, 2),
        "fastest": round(min(times), 2),
        "slowest": round(max(times), 2),
        "budget": budget,
        "met": None if budget is None else middle <= budget,
    }


def _seconds(command: Sequence[str]) -> float:
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=alone())
    seconds = time.perf_counter() - started
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return seconds


def main() -> None:
    """Measure and print, as the command line says."""
    cli = parser(__doc__)
    cli.add_argument("--study", default="quickstart", help="the study to sweep and read")
    cli.add_argument("--runs", type=int, default=5, help="processes per command; the median counts")
    args = cli.parse_args()
    show(latency(args.study, args.runs), args.json)


if __name__ == "__main__":
    main()
