"""The Tune trainable, driven by hand: no cluster."""

from typing import Any

from trials.run.spec import TrialSpec
from trials.run.trainable import FederatedTrial
from trials.run.trial import load_dataset
from trials.settings import Settings


def spec(algorithm: str = "safl", level: str = "iid", **params: Any) -> TrialSpec:
    settings = Settings(rounds=9, clients=4, eval_every=1)
    return TrialSpec(
        algorithm=algorithm,
        params=params,
        dataset="digits",
        model="logreg",
        heterogeneity=level,
        settings=settings,
        seed=1,
    )


def config(trial: TrialSpec, stops: tuple[int, ...] = ()) -> dict[str, Any]:
    return {"trial": trial.model_dump(), "stops": list(stops), "device": "cpu", "threads": 1}


def actor(trial: TrialSpec, stops: tuple[int, ...] = ()) -> FederatedTrial:
    made = FederatedTrial.__new__(FederatedTrial)
    made.setup(config(trial, stops), datasets={trial.dataset_key: load_dataset(trial, None)})
    return made


def finish(made: FederatedTrial) -> list[dict[str, Any]]:
    results = [made.step()]
    while not results[-1]["done"]:
        results.append(made.step())
    return results
