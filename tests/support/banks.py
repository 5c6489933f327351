"""Banks that are made up: how scores depend on the configuration is known."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

ROUNDS = (0, 1, 2, 4)


def trials(
    dataset: str,
    score: Callable[[dict[str, Any]], float],
    algorithm: str = "fedprox",
    count: int = 40,
    low: float = 1e-3,
    high: float = 10.0,
    **given: Any,
) -> pd.DataFrame:
    """Random search trials of an algorithm with learning rates and mu spread over decades; a score of NaN is a divergence.
    Curves rise from 0 to the score.
    """
    draw = np.random.default_rng(sum(map(ord, dataset)))
    rows = []
    for number in range(count):
        share = (number + 0.5) / count
        configuration = {"lr": low * (high / low) ** share}
        if algorithm == "fedprox":
            configuration["mu"] = float(10 ** draw.uniform(-4, 0))
        value = score(configuration)
        lost = value != value
        at = ROUNDS[:2] if lost else ROUNDS
        row = {"algorithm": algorithm, "dataset": dataset, "model": "logreg"}
        row |= {"heterogeneity": "iid", "family": dataset, "metric": "accuracy", "settings": "{}"}
        row |= {"kind": "search", "status": "diverged" if lost else "finished"}
        row |= {"configuration": json.dumps(configuration), "val_score": None if lost else value}
        row |= {"evaluations": list(at), "val_curve": [0.0 if lost else value * r / 4 for r in at]}
        rows.append(row | given)
    return pd.DataFrame(rows)


def peak(at: float, width: float = 1.0) -> Callable[[dict[str, Any]], float]:
    """Accuracy 0.9 at this learning rate, 0.1 less a decade (of so many, squared) away, and 0.5 at least."""
    return lambda one: max(0.5, 0.9 - 0.1 * (np.log10(one["lr"] / at) / width) ** 2)


def bank(*of: pd.DataFrame) -> pd.DataFrame:
    return pd.concat(of, ignore_index=True)


def peaks(rates: Sequence[float], width: float = 1.0) -> pd.DataFrame:
    """A family of data sets for each of these best learning rates."""
    return bank(*(trials(f"family{i}", peak(at, width)) for i, at in enumerate(rates)))
