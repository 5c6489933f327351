"""FOLB with two sets of devices: the first sends models and gradients, the second only gradients that normalise."""

from dataclasses import dataclass

from trials.algorithm import State
from trials.algorithms.fedprox import FedProx
from trials.common.tensors import Tensor, torch
from trials.engine.federation import Federation

FLOOR = 1e-12
"""The denominator up to which the server keeps its weights, since a vanishing G2 must not divide."""


@dataclass(frozen=True)
class FOLBTwoSet(FedProx):
    """FedProx on a set S1 of clients, with updates weighted by agreement of gradients and normalised by a second set S2.
    w <- w + sum_{S1} <g_k, G1> / (sum_{S2} <g_k', G2>) delta_k, delta_k = w_k - w, G1 = mean_{S1} g, G2 = mean_{S2} g.
    The weights add up to |G1|^2 / |G2|^2, a random factor. Updates of devices that disagree with G1 are subtracted.

    Equations: FOLB Algorithm 2, (9), (10).
    Keeps: nothing.
    Down: 2 K d.
    Up: 3 K d (S1: gradient and model; S2: gradient).
    Reading: both sets are selected by the study's rule (the paper: `selection=with_replacement`), from two independent
        series of uniform numbers. If the denominator in (9) is at most 1e-12, the server keeps its model.
    """

    paper = "FOLB"
    any_optimizer = True
    unsupported = {"init=own": "gradients are compared at one common model w"}

    def aggregate(
        self, state: State, ids: Tensor, start: Tensor, local: Tensor, fed: Federation
    ) -> State:
        """Return the state after updates from one set of devices. Equation (9) weighs the updates by gradients of this set and a second set."""
        others = fed.select("second")
        second = fed.gradient(others, fed.broadcast(others, state["w"]))
        second = fed.upload(others, second)
        first = fed.upload(ids, fed.gradient(ids, start))
        # sum_{S2} <g_k, G2> = K |G2|^2
        normal = (second @ second.mean(0)).sum()
        delta = fed.upload(ids, local) - start
        p = torch.where(normal > FLOOR, first @ first.mean(0) / normal, 0.0)
        return {**state, "w": state["w"] + p @ delta}
