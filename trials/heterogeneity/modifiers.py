"""Modifiers of a level: clients' sizes, how much local work devices manage, how fast, who answers.

Everything a device does is a function of (run seed, round, client), so that it is the same for every
algorithm.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from trials.common import names, randomness
from trials.common.errors import UserError
from trials.common.names import Range
from trials.heterogeneity.partitions import Array, Partition
from trials.heterogeneity.sizes import LAWS, Law


class Modifier:
    """What an entry of `MODIFIERS` is; by default a hook changes nothing. Clients are `ids` (k,)."""

    summary: ClassVar[str] = ""
    changes_work: ClassVar[bool] = False
    """Whether devices do different amounts of work, which an algorithm may refuse as `system`."""
    timed: ClassVar[bool] = False
    """Whether it says how fast devices are, so that runs record their simulated time."""
    deadline: float = math.inf
    """Simulated seconds at which a round ends: a client does the local steps that fit in, and at least one."""

    def applied(self, partition: Partition) -> Partition:
        """The partition with this modifier; raises `UserError` when the two do not go together."""
        return partition

    def unseen(self, clients: int, rng: np.random.Generator) -> Array:
        """Those of the partition's `clients` that take no part in training, ascending: the final model is scored on
        them (`test_accuracy_unseen`). At least one client must be left.
        """
        return np.empty(0, np.int64)

    def local_steps(
        self, asked: Array, per_epoch: Array, ids: Array, round_index: int, seed: int
    ) -> Array:
        """Local minibatch steps (k,) in a round, where `asked` (k,) would be done without it and
        `per_epoch` (k,) make one pass over the client's data.
        """
        return asked

    def answering(self, ids: Array, round_index: int, seed: int) -> Array:
        """Those of the selected clients that answer in a round, at least one."""
        return ids

    def step_seconds(self, ids: Array, seed: int) -> Array | float:
        """Return the factors (k,) of the simulated seconds of a client's local step, which takes one without it."""
        return 1.0

    def waiting_seconds(self, ids: Array, seed: int) -> Array | float:
        """Return the simulated seconds (k,) of a client's part in a round beside its local steps."""
        return 0.0


@dataclass(frozen=True)
class Sizes(Modifier):
    """Clients' sizes follow a law of `trials.heterogeneity.sizes`."""

    summary: ClassVar[str] = (
        "sizes by lognormal(sigma), after iid or dirichlet; by powerlaw or lognormal_absolute, after "
        "labels"
    )
    law: str

    def __post_init__(self) -> None:
        law = names.spell(self.law.split("(")[0].strip(), self._law)
        object.__setattr__(self, "law", law)

    @property
    def _law(self) -> Law:
        law: Law = names.parse("law of sizes", self.law, LAWS)
        return law

    def applied(self, partition: Partition) -> Partition:
        """The partition with these sizes; refused where it has its own."""
        if not self._law.fits(partition):
            raise UserError(
                f"+sizes({self.law}) goes with {self._law.follows} only; sizes are "
                f"{partition.own_sizes} here"
            )
        return Sized(partition, self._law)


@dataclass(frozen=True)
class Sized(Partition):
    """A partition whose sizes follow a law."""

    partition: Partition
    law: Law

    def assign(
        self, y: Array, clients: int, owner: Array | None, rng: np.random.Generator
    ) -> list[Array]:
        """Partition as the law says, within the partition."""
        return self.law.assign(self.partition, y, clients, rng)


@dataclass(frozen=True)
class System(Modifier):
    """Each device manages a uniform integer number of local minibatch steps, or of local epochs,
    anew each round. It replaces the study's local work.

    FOLB's experiments say 1..20 steps; FedProx's, which they follow, 1..20 epochs. Both are drawn from the same uniform numbers.
    """

    summary: ClassVar[str] = "a device manages LOW..HIGH local steps (or epochs), anew each round"
    changes_work: ClassVar[bool] = True
    steps: Range | None = field(default=None, kw_only=True)
    epochs: Range | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.epochs is None):
            raise UserError(
                "heterogeneity system: give steps=LOW..HIGH or epochs=LOW..HIGH, one of the two"
            )
        unit = "epochs" if self.steps is None else "steps"
        low, high = self._range
        if not 1 <= low <= high < 2**31:
            raise UserError(
                f"heterogeneity system({unit}=LOW..HIGH): 1 <= LOW <= HIGH < 2^31 must hold, "
                f"got {low}..{high}"
            )

    @property
    def _range(self) -> Range:
        found = self.epochs if self.steps is None else self.steps
        assert found is not None
        return found

    def draw(self, ids: Array, round_index: int, seed: int) -> Array:
        """Number of steps, or of epochs, (k,) for clients `ids` (k,) in a round."""
        low, high = self._range
        u = randomness.uniform("steps", seed, round_index, ids)
        return low + (u * (high - low + 1)).astype(np.int64)

    def local_steps(
        self, asked: Array, per_epoch: Array, ids: Array, round_index: int, seed: int
    ) -> Array:
        """What was drawn, whatever the study asks for."""
        drawn = self.draw(ids, round_index, seed)
        return drawn if self.epochs is None else drawn * per_epoch


@dataclass(frozen=True)
class Speed(Modifier):
    """Device k takes exp(sigma z_k) simulated seconds for a local step, z_k ~ N(0, 1), the same in every round: the
    median device takes one second. A round takes as long as its slowest client, unless the algorithm says
    otherwise.
    """

    summary: ClassVar[str] = "a local step of device k takes LogNormal(0, sigma) simulated seconds"
    timed: ClassVar[bool] = True
    sigma: float

    def __post_init__(self) -> None:
        if not 0 <= self.sigma <= 10:
            raise UserError(
                f"heterogeneity speed(sigma): 0 <= sigma <= 10 must hold, got {self.sigma:g}"
            )

    def step_seconds(self, ids: Array, seed: int) -> Array:
        """Return exp(sigma z_k); z_k by Box and Muller (1958)."""
        u, v = (randomness.uniform(name, seed, ids) for name in ("speed", "speed angle"))
        z = np.sqrt(-2 * np.log1p(-u)) * np.cos(2 * np.pi * v)
        return np.exp(self.sigma * z)


@dataclass(frozen=True)
class Dropout(Modifier):
    """A selected device fails to answer with probability `rate`, independently in each round: it
    trains and sends nothing, and its state stays as it was. If all would fail, the one nearest to
    answering does.
    """

    summary: ClassVar[str] = "a selected device does not answer with probability rate"
    rate: float

    def __post_init__(self) -> None:
        if not 0 <= self.rate < 1:
            raise UserError(
                f"heterogeneity dropout(rate): 0 <= rate < 1 must hold, got {self.rate:g}"
            )

    def answering(self, ids: Array, round_index: int, seed: int) -> Array:
        """The clients whose uniform number is at least `rate`."""
        u = randomness.uniform("dropout", seed, round_index, ids)
        return ids[u >= min(self.rate, u.max())]


@dataclass(frozen=True)
class Delay(Modifier):
    """Device k needs T_k ~ Exponential(mean) for communication, the same in every round, and a round
    ends at the `deadline`: of the local steps asked for it does those that fit into deadline - T_k,
    and at least one. FOLB section V-A: "any optimization within tau - T_k^c time".

    Reading: times are in local minibatch steps of the median device; with `+speed` those of device k take its own
    time s_k, and (deadline - T_k) / s_k of them fit. The paper gives no distribution over devices; the exponential is
    the one that it names. Every selected device returns an update there, hence at least one step.
    """

    summary: ClassVar[str] = (
        "communication takes Exponential(mean); steps must fit into the deadline"
    )
    changes_work: ClassVar[bool] = True
    mean: float = field(kw_only=True)
    deadline: float = field(kw_only=True)

    def __post_init__(self) -> None:
        if not (0 <= self.mean < math.inf and 1 <= self.deadline < math.inf):
            raise UserError(
                "heterogeneity delay(mean, deadline), in local steps: 0 <= mean < inf and "
                f"1 <= deadline < inf must hold, got {self.mean:g}, {self.deadline:g}"
            )

    def waiting_seconds(self, ids: Array, seed: int) -> Array:
        """Return T_k (k,)."""
        return -self.mean * np.log1p(-randomness.uniform("delay", seed, ids))
