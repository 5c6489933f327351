"""How trials are computed on a GPU: measured there once a scenario, before the first trial of it starts."""

from collections.abc import Callable, Mapping
from typing import Any

import ray

from suite.console import say
from suite.execution.resources import Resources
from trials.run.spec import TrialSpec
from trials.sizing import calibration


def choose(
    probes: Mapping[str, TrialSpec],
    data: Mapping[str, Any],
    resources: Resources,
    packs: Mapping[str, int],
    ends: Callable[[], bool],
) -> dict[str, str]:
    """The fastest execution of each scenario (`trials.sizing.calibration.workload`). `probes` has a trial of each,
    `data` references to data sets by `TrialSpec.dataset_key`, `packs` the number of trials in a scenario's packs.
    Scenarios that cannot be measured, and those left when it `ends`, are absent and computed by rule.
    """
    measure = ray.remote(
        max_retries=0, num_cpus=resources.cpus_per_trial, num_gpus=resources.gpus_per_trial
    )(calibration.measured)
    budget = resources.budget_bytes
    running = {
        measure.remote(
            spec.model_dump(),
            data[spec.dataset_key],
            resources.gpus_per_trial,
            budget,
            packs.get(scenario, 1),
        ): scenario
        for scenario, spec in probes.items()
    }
    found: dict[str, str] = {}
    if running:
        say(f"measuring which execution is the fastest of {len(running)} scenarios")
    while running and not ends():
        for done in ray.wait(list(running), timeout=1.0)[0]:
            scenario = running.pop(done)
            try:
                found[scenario], seconds = ray.get(done)
            except ray.exceptions.RayError as error:
                say(f"{scenario} is not measured: {str(error).strip().splitlines()[-1]}")
                continue
            taken = ", ".join(f"{how} {1000 * s:.1f} ms" for how, s in seconds.items())
            say(
                f"{scenario} is computed {found[scenario]}"
                + (f" (a round: {taken})" if taken else "")
            )
    for left in running:
        ray.cancel(left, force=True)
    return found
