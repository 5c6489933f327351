"""What an experiment would cost here: a short measurement of each model, kept below the storage root.

The estimate counts the samples of local training, as if every method did what FedAvg does, and the test
samples of each evaluation, at what they take in rounds of FedAvg on made-up data, computed as trials are.
Methods with a second pass take longer: it is an order of magnitude.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from suite.console import say
from suite.reproduction.experiments import Configured, Experiment
from suite.reproduction.paper import Data, Paper
from suite.yaml_files import write_whole
from trials import datasets, heterogeneity, models
from trials.common.machine import usable_cpus
from trials.datasets.base import Dataset
from trials.federated_data import FederatedData
from trials.models.base import Model
from trials.run.spec import canonical
from trials.settings import Settings
from trials.sizing import pace

CLIENTS, STEPS, TESTS, SECONDS = 4, 20, 2000, 0.2
"""Clients that train together, the most steps of each, the most test samples, and about how long either
is measured.
"""


class Costs:
    """Seconds of a training and of a test sample by model and shape, measured when first asked for."""

    def __init__(self, storage: Path) -> None:
        self.path = storage / "calibration.json"
        found = _read(self.path)
        self.kept = found is not None
        self.seconds: dict[str, float] = found or {}

    def minutes(
        self, paper: Paper, made: Experiment, runs: Mapping[str, int], rounds: int
    ) -> float:
        """Minutes that so many runs of each method of a row take on this machine's cores."""
        total = 0.0
        for method, count in runs.items():
            configured = made.methods[method]
            data = paper.data[configured.scenario.dataset.split("(")[0]]
            total += count * rounds * self._round(configured, data)
        return total / 60 / usable_cpus()

    def _round(self, configured: Configured, data: Data) -> float:
        """Seconds of one round of one run, evaluation included."""
        said = {name: decision.value for name, decision in configured.decisions.items()}
        level = heterogeneity.parse(configured.scenario.heterogeneity)
        mean = getattr(level.partition, "mean", data.samples / said["clients"])
        batch = mean if said["batch_size"] == "full" else min(said["batch_size"], mean)
        work = said["local_epochs"] * mean if "local_epochs" in said else 0
        if "local_steps" in said:
            work = said["local_steps"] * batch
        for modifier in level.modifiers:
            for unit, samples in (("steps", batch), ("epochs", mean)):
                if (bounds := getattr(modifier, unit, None)) is not None:
                    work = sum(bounds) / 2 * samples
        selected = max(1, round(said["participation"] * said["clients"]))
        train, test = self._sample(configured, data, max(1, round(batch)))
        return selected * work * train + data.test * test

    def _sample(self, configured: Configured, data: Data, batch: int) -> tuple[float, float]:
        """Seconds of one training sample in minibatches of `batch`, and of one test sample; one thread."""
        shape = "x".join(map(str, data.shape))
        key = f"{configured.scenario.model}|{shape}|{data.classes}|{batch}"
        kinds = [f"{key}|{kind}" for kind in ("train", "test")]
        if kinds[0] not in self.seconds:
            if not self.seconds:
                say(f"measuring what rounds of each model take here: once, kept in {self.path}")
            self.seconds |= zip(kinds, _measure(configured, data, batch), strict=True)
            if self.kept:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(self.path, json.dumps(self.seconds, indent=1, sort_keys=True))
        train, test = (self.seconds[kind] for kind in kinds)
        return train, test


def _read(path: Path) -> dict[str, float] | None:
    """What was measured before; None where the file is someone else's, which stays as it is."""
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    own = isinstance(found, dict) and all(k.count("|") == 4 for k in found)
    return found if own else None


def _measure(configured: Configured, data: Data, batch: int) -> tuple[float, float]:
    """Seconds of a training and of a test sample, of enough of them to tell."""
    model = Model(models.parse(configured.scenario.model), data.shape, data.classes)
    clients = CLIENTS if not model.network.why_alone and batch <= model.batched_up_to else 1
    steps, tests = 1, batch
    train, test = _rounds(configured, data, batch, clients, steps, tests)
    if (more := int(SECONDS / train)) > 1:
        steps, tests = min(STEPS, more), max(batch, min(TESTS, more * clients * batch))
        train, test = _rounds(configured, data, batch, clients, steps, tests)
    return train / (steps * clients * batch), test / tests


def _rounds(
    configured: Configured, data: Data, batch: int, clients: int, steps: int, tests: int
) -> tuple[float, float]:
    """Seconds of a round in which each client takes so many steps, and of an evaluation on so many samples."""
    task = datasets.parse(configured.scenario.dataset).task
    train = clients * batch
    kind = np.float32 if task.metric == "mse" else np.int64
    samples = Dataset(
        np.zeros((train + tests, *data.shape), np.float32),
        np.zeros(train + tests, kind),
        np.arange(train + tests) >= train,
        data.classes,
        task=task,
    )
    ids = np.arange(train + tests)
    offsets = np.arange(0, train + 1, batch)
    partitioned = FederatedData(samples, ids[:train], offsets, ids[:0], ids[train:])
    settings = Settings(
        clients=clients,
        participation=1.0,
        batch_size=batch,
        local_steps=steps,
        val_fraction=0.0,
    )
    scenario = configured.scenario._replace(heterogeneity="iid")
    _, a_round, an_evaluation = pace(
        canonical("fedavg", {"lr": 1e-6}, scenario, settings, 0), partitioned
    )
    return a_round, an_evaluation
