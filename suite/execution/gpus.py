"""The GPUs of a cluster, as torch on each of its nodes sees them: looked at before any trial starts."""

from collections.abc import Mapping
from dataclasses import dataclass

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from suite.console import say
from suite.execution.resources import Resources
from trials.common import device
from trials.common.errors import UserError
from trials.common.memory import CONTEXT, part_of_card
from trials.sizing.footprint import Footprint
from trials.sizing.packing import members_on

PATIENCE = 120.0
"""Seconds that nodes may take to say what they have; a worker starts, and torch is imported."""


@dataclass(frozen=True)
class Gpu:
    """A GPU that torch can compute on, the node it is in, and its bytes of memory."""

    name: str
    node: str
    memory: int


def gpus() -> list[Gpu]:
    """Every GPU of the nodes that are alive and have any by Ray's count.

    Raises `UserError` where torch on such a node cannot use them: trials would start there and fail.
    """
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU")]
    look = ray.remote(num_cpus=0, max_retries=0)(device.look)
    asked = {
        look.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote(): node["NodeManagerHostname"]
        for node in nodes
    }
    answered, silent = ray.wait(list(asked), num_returns=len(asked), timeout=PATIENCE)
    for late in silent:
        say(f"node {asked[late]} did not say what its GPUs are within {PATIENCE:g} s")
    found = []
    for reference in answered:
        node = asked[reference]
        try:
            reason, there = ray.get(reference)
        except ray.exceptions.RayError as error:
            say(f"node {node} did not say what its GPUs are: {str(error).strip().splitlines()[-1]}")
            continue
        if reason:
            raise UserError(
                f"node {node} has a GPU, but trials cannot use it: {reason}. Nothing was started"
            )
        found += [Gpu(name, node, memory) for name, memory in there]
    return found


def refuse(found: list[Gpu], takes: Mapping[str, Footprint], resources: Resources) -> None:
    """Raise `UserError` when a trial of an entry needs more (`takes[name]`) than its part of the smallest GPU: Ray
    counts GPUs, not their memory.
    """
    if not found:
        return
    part, described = _smallest(found, resources)
    for name, wanted in takes.items():
        if wanted.device > part:
            raise UserError(
                f"a trial of {name} takes {wanted.device / 1e9:.1f} GB of a GPU at least, by estimate, and "
                f"{described}: a larger gpus_per_trial, fewer clients a round, smaller minibatches or "
                "another model would do"
            )


def limited(
    found: list[Gpu],
    packs: Mapping[str, int],
    takes: Mapping[str, Footprint],
    resources: Resources,
) -> dict[str, int]:
    """How many trials of an entry share a pack, by its id: at most `packs[id]`, and at most as many as their part
    of the smallest GPU holds, if one `takes[id]`. Entries with packs of equal size keep equal sizes, the
    smallest, since they may share a pack.
    """
    if not found:
        return dict(packs)
    part, described = _smallest(found, resources)
    fitting: dict[int, int] = {}
    for entry, size in packs.items():
        fitting[size] = min(fitting.get(size, size), members_on(takes[entry], part))
    for size, fits in fitting.items():
        if fits < size:
            say(f"a pack has {fits} trials, not {size}: {described}")
    return {entry: fitting[size] for entry, size in packs.items()}


def _smallest(found: list[Gpu], resources: Resources) -> tuple[float, str]:
    """The bytes of a trial's part of the card with the least memory, and what that is in words."""
    card, share = min(found, key=lambda card: card.memory), min(1.0, resources.gpus_per_trial)
    part = CONTEXT + part_of_card(card.memory, share)
    return part, f"{share:g} of {card.name} (node {card.node}) is {part / 1e9:.1f} GB"
