"""`suite bench sweep`: what driving costs, as a ratio measured in one run."""

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from suite.driver import Resources, local_ray
from suite.study import read_study
from suite.sweep import Place, Sweep

PLAIN_TRIALS = 40
"""How many of the sweep's trials the plain loop runs; it is slow, and its rate is steady."""


def sweep(study: str, resources: Resources) -> dict[str, Any]:
    """Trials per minute of a sweep, recording in MLflow included, and of the same trials as a plain
    Tune function trainable without actor reuse or records. Both times include Ray's start.
    """
    name, content = read_study(study, {})
    folder = Path(tempfile.mkdtemp(prefix="suite-bench-"))
    try:
        opened = Sweep(name, content, Place(folder, "bench"), resume=False)
        started = time.perf_counter()
        opened.run(resources)
        ours = time.perf_counter() - started
        specs = [
            opened.search.spec(ask).model_dump()
            for trial_id, ask in opened.search.asks.items()
            if opened.ended[trial_id].status == "finished"
        ]
        chosen = specs[:: max(1, len(specs) // PLAIN_TRIALS)][:PLAIN_TRIALS]
        plain = _plain(chosen, resources, folder / "plain")
        rate, plain_rate = 60 * len(opened.ended) / ours, 60 * len(chosen) / plain
        return {
            "study": name,
            "trials": len(opened.ended),
            "seconds": round(ours, 2),
            "trials_per_minute": round(rate, 1),
            "plain_trials": len(chosen),
            "plain_seconds": round(plain, 2),
            "plain_trials_per_minute": round(plain_rate, 1),
            "ratio": round(rate / plain_rate, 2),
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _plain(specs: list[dict[str, Any]], resources: Resources, folder: Path) -> float:
    """Seconds for the specs as Tune's documentation would have them run."""
    from ray import tune

    os.environ.pop("TUNE_MAX_PENDING_TRIALS_PG", None)  # the suite's own setting for its searcher
    started = time.perf_counter()
    with local_ray(resources) as concurrent:
        tune.Tuner(
            tune.with_resources(
                _train, {"cpu": resources.cpus_per_trial, "gpu": resources.gpus_per_trial}
            ),
            param_space={"trial": tune.grid_search(specs)},
            tune_config=tune.TuneConfig(
                max_concurrent_trials=concurrent,
                reuse_actors=False,
                trial_dirname_creator=lambda trial: str(trial.trial_id),
            ),
            run_config=tune.RunConfig(storage_path=str(folder), verbose=0),
        ).fit()
    return time.perf_counter() - started


def _train(config: dict[str, Any]) -> None:
    from ray import tune

    from trials.trial import TrialSpec, deal_data, load_dataset, simulate

    spec = TrialSpec(**config["trial"])
    simulation = simulate(spec, deal_data(spec, load_dataset(spec, None)))
    while not simulation.finished:
        tune.report(simulation.advance())
