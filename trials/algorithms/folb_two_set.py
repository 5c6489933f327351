"""FOLB with two sets of devices: one gives models and gradients, the other only normalises."""

from dataclasses import dataclass

from trials.algorithm import State
from trials.algorithms.fedprox import FedProx
from trials.common.tensors import Tensor, torch
from trials.engine.federation import Federation

FLOOR = 1e-12
"""Least denominator: a vanishing G2 must not divide, so the server stays where it is."""


@dataclass(frozen=True)
class FOLBTwoSet(FedProx):
    """w <- w + sum_{S1} <g_k, G1> / (sum_{S2} <g_k', G2>) delta_k, G1 = mean_{S1} g, G2 = mean_{S2} g.

    The total weight is |G1|^2 / |G2|^2, a random factor, and devices that disagree subtract.

    Equations: FOLB Algorithm 2, (9), (10).
    Keeps: nothing.
    Down: 2 K d.
    Up: 3 K d (S1: gradient and model; S2: gradient).
    Reading: both sets are selected as the study says (the paper: `selection=with_replacement`), from
        two independent series of uniform numbers. Where the denominator K |G2|^2 is below 1e-12 the
        server keeps w.
    """

    paper = "FOLB"
    any_optimizer = True
    unsupported = {"init=own": "gradients are compared at one common model w"}

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        """Select a second set of devices, and weigh the first set's updates as in (9)."""
        others = fed.select("second")
        second = fed.gradient(others, fed.broadcast(others, state["w"]))
        second = fed.upload(others, second)
        first = fed.upload(ids, fed.gradient(ids, start))
        # sum_{S2} <g_k, G2> = K |G2|^2
        normal = (second @ second.mean(0)).sum()
        delta = fed.upload(ids, local) - start
        p = torch.where(normal > FLOOR, first @ first.mean(0) / normal, 0.0)
        return {**state, "w": state["w"] + p @ delta}
