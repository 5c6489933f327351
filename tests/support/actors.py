"""The Tune trainable, driven by hand: no cluster."""

from typing import Any

from trials.run.spec import TrialConfig, TrialSpec, packed
from trials.run.trainable import REPORTS, FederatedTrial
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


def config(trial: TrialSpec, stops: tuple[int, ...] = (), **more: Any) -> dict[str, str]:
    return packed({"": TrialConfig(trial, stops, **more)})


def actor(trial: TrialSpec, stops: tuple[int, ...] = (), **more: Any) -> FederatedTrial:
    made = FederatedTrial.__new__(FederatedTrial)
    datasets = {trial.dataset_key: load_dataset(trial, None)}
    made.setup(config(trial, stops, **more), datasets=datasets)
    return made


def finish(made: FederatedTrial) -> list[dict[str, Any]]:
    """What the actor's only trial says, step by step."""
    results = [report(made)]
    while results[-1]["status"] == "running":
        results.append(report(made))
    return results


def report(made: FederatedTrial) -> dict[str, Any]:
    """What it says in one step."""
    said = made.step()
    (news,) = said[REPORTS].values()
    assert said["done"] == (news.status != "running")
    return {**vars(news), "round": news.last_round, "val_score": news.value}
