"""A trial as a Ray Tune trainable whose actor is reused for the next one."""

import time
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

import ray
from ray import tune

from trials import algorithms
from trials.checkpoint import Checkpoint, StorageError
from trials.datasets import Task
from trials.federated_data import FederatedData
from trials.simulation import Simulation, score
from trials.spec import TrialSpec
from trials.tensors import torch
from trials.trial import deal_data, simulate

REPORT_SECONDS = 1.0
"""A step ends at the first evaluation after this long: a Tune report costs more than many rounds."""

KEPT = 16
"""Deals that an actor keeps, oldest out first. A deal is indices; its samples are shared."""


class FederatedTrial(tune.Trainable):
    """Runs the trial that its config holds under `trial` (a `TrialSpec` as a dict).

    `config["stops"]` are rounds at which a scheduler wants to decide, so that each is the last of a
    step; when a step ends besides that depends on time and changes no number. `config["checkpoint"]`
    names the trial's own checkpoint and `config["checkpoint_seconds"]` how often it is written: a
    trial whose checkpoint is there continues from it, else from that of `config["begins"]`, of a trial
    that was the same up to there. `config["pause"]` is a round at which it ends as paused, once its
    state is in the checkpoint `config["paused"]`.

    A result has `round`, `val_score`, `status` (running | paused | finished | diverged | failed | halted),
    `done`, the new `history` entries, `fingerprint`, `execution`, `chunk`, and `error` when it failed or was halted by a
    storage that does not work. After a restart the first result has the whole history, and `earlier`:
    (round, score) of what was reported before. An exception does not raise: it would cost the actor.
    """

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
        """What Ray sets aside for the trial: `config["need"]`."""
        return tune.PlacementGroupFactory([config.get("need", {"CPU": 1})])

    def setup(
        self,
        config: dict[str, Any],
        datasets: dict[str, Any] | None = None,
        sources: dict[str, str] | None = None,
    ) -> None:
        """`datasets` maps `TrialSpec.dataset_key` to a data set in Ray's object store, `sources` the
        paths of third parties' algorithm files to their text.
        """
        import_module("torch")  # two seconds of the actor's start, not of its first trial
        for path, text in (sources or {}).items():
            algorithms.supply(path, text)
        self._datasets = datasets or {}
        self._data: dict[str, FederatedData] = {}
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Take over another trial; data that are already dealt stay."""
        self._simulation: Simulation | None = None
        self._reported = 0
        self._scores: dict[int, float] = {}
        self._earlier: list[tuple[int, float]] = []
        self._spec = TrialSpec(**new_config["trial"])
        place, seconds = new_config.get("checkpoint"), new_config.get("checkpoint_seconds", 60.0)
        self._checkpoint = Checkpoint(place, seconds) if place else None
        self._begins, self._pause = new_config.get("begins"), new_config.get("pause")
        paused = new_config.get("paused")
        self._paused = Checkpoint(paused) if paused else None
        self._stops = {*new_config["stops"], self._pause}
        self._device, self._threads = new_config["device"], new_config["threads"]
        self._budget = new_config.get("memory_budget")
        if self._device == "cuda":
            # Trials that share a GPU share its memory; one that takes more than its part fails alone.
            torch.cuda.empty_cache()
            share = new_config.get("need", {}).get("GPU", 1.0)
            torch.cuda.set_per_process_memory_fraction(min(1.0, share))
        return True

    def step(self) -> dict[str, Any]:
        """The rounds up to the next report."""
        try:
            return self._step()
        except StorageError as fault:
            return {"status": "halted", "error": str(fault), "done": True, "history": []}
        except Exception:
            error = traceback.format_exc()
            return {"status": "failed", "error": error, "done": True, "history": []}

    def _step(self) -> dict[str, Any]:
        simulation, started = self._started(), time.monotonic()
        while not simulation.finished:
            entry = simulation.advance()
            if entry["round"] in self._stops or time.monotonic() - started > REPORT_SECONDS:
                break
        news = simulation.history[self._reported :]
        self._reported = len(simulation.history)
        status = "diverged" if simulation.diverged else "finished"
        result: dict[str, Any] = {
            "round": simulation.fed.round,
            "val_score": score(simulation.history, f"val_{self._task.metric}"),
            "status": status if simulation.finished else "running",
            "done": simulation.finished,
            "history": news,
            "fingerprint": simulation.fed.data.fingerprint,
            "execution": simulation.fed.execution,
            "chunk": simulation.fed.chunk,
        }
        if self._earlier:
            result["earlier"], self._earlier = self._earlier, []
        self._scores[result["round"]] = result["val_score"]
        if simulation.finished:
            return result
        if self._paused and result["round"] == self._pause:
            self._paused.save(self._state())
            return {**result, "status": "paused", "done": True}
        if self._checkpoint and self._checkpoint.due:
            self._checkpoint.save(self._state())
        return result

    def _state(self) -> dict[str, Any]:
        """All that a restart needs; the spec says whose it is."""
        spec = self._spec.model_dump_json()
        return {"spec": spec, "scores": self._scores, "simulation": self._started().save()}

    @property
    def _task(self) -> Task:
        return self._dealt().dataset.task

    def _started(self) -> Simulation:
        if self._simulation is None:
            self._simulation = simulate(
                self._spec, self._dealt(), self._device, self._threads, self._budget
            )
            begins = Checkpoint(self._begins) if self._begins else None
            for checkpoint in filter(None, [self._checkpoint, begins]):
                saved = checkpoint.load()
                if saved is not None and self._continues(saved):
                    self._simulation.load(saved["simulation"])
                    self._scores = saved["scores"]
                    self._earlier = list(self._scores.items())
                    break
        return self._simulation

    def _continues(self, saved: dict[str, Any]) -> bool:
        """Whether a checkpoint is of a trial that was the same as this one up to there."""
        reached = saved["simulation"]["round"]
        of = TrialSpec.model_validate_json(saved["spec"]).until(reached)
        return of.model_dump_json() == self._spec.until(reached).model_dump_json()

    def _dealt(self) -> FederatedData:
        key = self._spec.data_key
        if key not in self._data:
            if len(self._data) == KEPT:
                self._data.pop(next(iter(self._data)))
            dataset = ray.get(self._datasets[self._spec.dataset_key])
            self._data[key] = deal_data(self._spec, dataset)
        return self._data[key]

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """Write the simulation's state: tensors and plain values, nothing that runs code on load."""
        torch.save(self._started().save(), Path(checkpoint_dir) / "state.pt")

    def load_checkpoint(self, checkpoint: str | dict[str, Any] | None) -> None:
        """Continue from a checkpoint directory; a resumed run equals an uninterrupted one."""
        assert isinstance(checkpoint, str)
        saved = torch.load(Path(checkpoint) / "state.pt", weights_only=True)
        self._started().load(saved)
        self._reported = len(self._started().history)
