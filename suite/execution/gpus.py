"""The GPUs of a cluster, as torch on each of its nodes sees them: looked at before any trial starts, and measured once
a scenario.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from suite.console import say
from suite.execution.resources import Resources
from trials.common import device
from trials.common.errors import UserError
from trials.common.memory import CONTEXT, part_of_card
from trials.run.spec import TrialSpec
from trials.sizing import calibration
from trials.sizing.footprint import Footprint
from trials.sizing.packing import members_on

PATIENCE = 120.0
"""Seconds that a node may take to say what it has; a worker starts, and torch is imported."""


@dataclass(frozen=True)
class Gpu:
    """A GPU that torch can compute on, the node it is in, and its bytes of memory."""

    name: str
    node: str
    memory: int


def look() -> list[Gpu]:
    """Return every GPU of the nodes that are alive and have any by Ray's count.

    Raises `UserError` where torch on such a node cannot use them: trials would start there and fail.
    """
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU")]
    task, hosts = ray.remote(num_cpus=0, max_retries=0)(device.look), {}
    for node in nodes:
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        hosts[task.options(scheduling_strategy=there).remote()] = node["NodeManagerHostname"]
    cards = []
    for answer, host in hosts.items():
        try:
            reason, memory_by_name = ray.get(answer, timeout=PATIENCE)
        except ray.exceptions.RayError as error:
            say(f"node {host} did not say what its GPUs are: {_last_line(error)}")
            continue
        if reason:
            raise UserError(
                f"node {host} has a GPU, but trials cannot use it: {reason}. Nothing was started"
            )
        cards += [Gpu(name, host, memory) for name, memory in memory_by_name]
    return cards


def refuse(cards: list[Gpu], takes: Mapping[str, Footprint], resources: Resources) -> None:
    """Raise `UserError` when a trial of an entry needs more (`takes[name]`) than its part of the smallest GPU: Ray
    counts GPUs, not their memory.
    """
    part, described = _smallest(cards, resources)
    for name, wanted in takes.items():
        if wanted.device > part:
            raise UserError(
                f"a trial of {name} takes {wanted.device / 1e9:.1f} GB of a GPU at least, by estimate, and "
                f"{described}: a larger gpus_per_trial, fewer clients a round, smaller minibatches or "
                "another model would do"
            )


def limited(
    cards: list[Gpu],
    packs: Mapping[str, int],
    takes: Mapping[str, Footprint],
    resources: Resources,
) -> dict[str, int]:
    """Return how many trials of an entry begin together, by its id: at most `packs[id]`, and for all entries at most as
    many as their part of the smallest GPU holds of those that take the most of it.
    """
    part, described = _smallest(cards, resources)
    sharing = [entry for entry, size in packs.items() if size > 1]
    largest = max((packs[entry] for entry in sharing), default=1)
    most = min((members_on(takes[entry], part) for entry in sharing), default=1)
    if most < largest:
        say(f"a pack has {most} trials, not {largest}: {described}")
    return {entry: min(size, most) for entry, size in packs.items()}


def choose(
    probes: Mapping[str, TrialSpec],
    data: Mapping[str, Any],
    resources: Resources,
    packs: Mapping[str, int],
    ends: Callable[[], bool],
) -> dict[str, str]:
    """Return the fastest execution of each scenario (`calibration.workload`). `probes` has a trial of each, `data`
    references to data sets by `TrialSpec.dataset_key`, `packs` the number of trials in a scenario's packs.

    Scenarios that cannot be measured, and those left when it `ends`, are absent and computed by rule.
    """
    share, memory = resources.gpus_per_trial, resources.budget_bytes
    options = {"num_cpus": resources.cpus_per_trial, "num_gpus": share}
    measure = ray.remote(max_retries=0, **options)(calibration.measured)
    running = {}
    for name, spec in probes.items():
        given = spec.model_dump(), data[spec.dataset_key], share, memory, packs.get(name, 1)
        running[measure.remote(*given)] = name
    fastest: dict[str, str] = {}
    if running:
        say(f"measuring which execution is the fastest of {len(running)} scenarios")
    while running and not ends():
        for task in ray.wait(list(running), timeout=1.0)[0]:
            name = running.pop(task)
            try:
                fastest[name], seconds = ray.get(task)
            except ray.exceptions.RayError as error:
                say(f"{name} is not measured: {_last_line(error)}")
                continue
            rounds = ", ".join(f"{how} {1000 * s:.1f} ms" for how, s in seconds.items())
            measured = f" (a round: {rounds})" if rounds else ""
            say(f"{name} is computed {fastest[name]}{measured}")
    for left in running:
        ray.cancel(left, force=True)
    return fastest


def _last_line(error: Exception) -> str:
    return (str(error).strip() or repr(error)).splitlines()[-1]


def _smallest(cards: list[Gpu], resources: Resources) -> tuple[float, str]:
    """Return the bytes of a trial's part of the card with the least memory, and what that is in words."""
    card, share = min(cards, key=lambda card: card.memory), min(1.0, resources.gpus_per_trial)
    part = CONTEXT + part_of_card(card.memory, share)
    return part, f"{share:g} of {card.name} (node {card.node}) is {part / 1e9:.1f} GB"
