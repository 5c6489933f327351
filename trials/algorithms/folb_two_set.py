"""FOLB with two sets of devices: one gives models and gradients, the other only normalises."""

from dataclasses import dataclass

from torch import Tensor

from trials.algorithm import State
from trials.algorithms.fedprox import FedProx
from trials.federation import Federation

FLOOR = 1e-12
"""Least denominator: a vanishing G2 must not divide."""


@dataclass(frozen=True)
class FOLBTwoSet(FedProx):
    """w <- w + sum_{S1} <g_k, G1> / (sum_{S2} <g_k', G2>) delta_k, G1 = mean_{S1} g, G2 = mean_{S2} g.

    The total weight is |G1|^2 / |G2|^2, a random factor, and devices that disagree subtract.

    Equations: FOLB Algorithm 2, (9), (10).
    Keeps: nothing.
    Down: 2 K d.
    Up: 3 K d (S1: gradient and model; S2: gradient).
    Reading: both sets are selected as the study says (the paper: `selection=with_replacement`), from
        two independent series of uniform numbers. The denominator K |G2|^2 is at least 1e-12.
    """

    paper = "FOLB"
    refuses = {"init=own": "gradients are compared at one common model w"}

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        """(9)."""
        others = fed.select("second")
        second = fed.gradient(others, fed.broadcast(others, state["w"]))
        second = fed.upload(others, second)
        first = fed.upload(ids, fed.gradient(ids, start))
        normal = (second @ second.mean(0)).sum().clamp(min=FLOOR)
        p = first @ first.mean(0) / normal
        return {**state, "w": state["w"] + p @ (fed.upload(ids, local) - start)}
