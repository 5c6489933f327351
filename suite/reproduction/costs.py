"""What an experiment would cost here: a short measurement of each model, kept below the storage root.

The estimate counts the samples whose gradient is taken in local training, as if every method did what
FedAvg does, and the test samples of each evaluation, which cost a third as much. Methods with a second
pass take longer: it is an order of magnitude.
"""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from suite.reproduction.experiments import Configured, Experiment
from suite.reproduction.paper import Data, Paper
from trials import datasets, heterogeneity, losses, models
from trials.models.base import Model

CLIENTS, SECONDS = 4, 0.2
"""Clients trained together, and how long a model is measured."""


class Costs:
    """Seconds of one sample's gradient by model and shape, measured when first asked for."""

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
            data = paper.data[configured.place.dataset.split("(")[0]]
            total += count * rounds * self._round(configured, data)
        return total / 60 / (os.cpu_count() or 1)

    def _round(self, configured: Configured, data: Data) -> float:
        """Seconds of one round of one run, evaluation included."""
        said = {name: decision.value for name, decision in configured.decisions.items()}
        level = heterogeneity.parse(configured.place.heterogeneity)
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
        return (selected * work + data.test / 3) * self._sample(configured, data, round(batch))

    def _sample(self, configured: Configured, data: Data, batch: int) -> float:
        """Seconds of one sample's gradient in minibatches of `batch`, one thread."""
        key = f"{configured.place.model}|{'x'.join(map(str, data.shape))}|{data.classes}|{batch}"
        if key not in self.seconds:
            self.seconds[key] = _measure(configured, data, batch)
            if self.kept:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.write_text(json.dumps(self.seconds, indent=1, sort_keys=True))
        return self.seconds[key]


def _read(path: Path) -> dict[str, float] | None:
    """What was measured before; None where the file is someone else's, which stays as it is."""
    if not path.exists():
        return {}
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    own = isinstance(found, dict) and all(k.count("|") == 3 for k in found)
    return found if own else None


def _measure(configured: Configured, data: Data, batch: int) -> float:
    architecture = models.parse(configured.place.model)
    metric = datasets.parse(configured.place.dataset).task.metric
    model = Model(architecture, data.shape, data.classes, losses.resolve(None, metric))
    rows: tuple[int, ...] = (CLIENTS,) if batch <= architecture.batched_up_to else ()
    w = torch.zeros(*rows, model.d)
    x = torch.zeros(*rows, batch, *data.shape)
    y: Any = torch.zeros(*rows, batch, dtype=torch.float32 if metric == "mse" else torch.int64)
    weight = torch.full((*rows, batch), 1 / batch)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        model.gradients(w, x, y, weight)
        steps, started = 0, time.perf_counter()
        while time.perf_counter() - started < SECONDS:
            model.gradients(w, x, y, weight)
            steps += 1
        return (time.perf_counter() - started) / steps / weight.numel()
    finally:
        torch.set_num_threads(threads)
