"""Tuned configurations made by hand."""

from pathlib import Path

from suite.configurations.configuration import Tuned
from trials.settings import Settings


def a_tuned(algorithm="fedavg", dataset="digits", level="iid", model="logreg", score=0.9, **more):
    return Tuned(
        algorithm=algorithm,
        dataset=dataset,
        heterogeneity=level,
        model=model,
        params={"lr": more.pop("lr", 0.1)},
        settings=Settings(rounds=5, clients=10),
        scores={
            "val_accuracy": score,
            "test_accuracy": more.pop("test", score),
            "test_by_seed": {1: score},
            "test_interval_95": [None, None],
        },
        budget={"trials": 16},
        **more,
    )


def folder(path: Path, *items: Tuned) -> Path:
    for item in items:
        file = path / item.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(item.text())
    return path
