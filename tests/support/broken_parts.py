"""A data set, a partition and a modifier that break their contracts, as `fault` says."""

from dataclasses import dataclass, field

import numpy as np

from trials.datasets import Dataset, DatasetFamily
from trials.heterogeneity.modifiers import Modifier
from trials.heterogeneity.partitions import IID

X, Y = np.zeros((9, 2), np.float32), np.arange(9) % 3


@dataclass(frozen=True)
class Data(DatasetFamily):
    """Nine samples; `fault` is what is wrong with them."""

    fault: str = ""

    def load(self, seed, clients, root):
        rng = np.random.default_rng(None if self.fault == "chance" else 0)
        x = np.float64(X) if self.fault == "doubles" else X + rng.random(X.shape, np.float32)
        test = Y == 5 if self.fault == "untested" else Y == 0
        return Dataset(x, Y, test, 2 if self.fault == "classes" else 3)


@dataclass(frozen=True)
class Parts(IID):
    fault: str = field(default="", kw_only=True)

    def assign(self, y, clients, owner, rng):
        if self.fault == "chance":
            rng = np.random.default_rng()
        parts = super().assign(y, clients, owner, rng)
        if self.fault == "twice":
            parts[0] = parts[1]
        if self.fault == "empty":
            parts[0] = parts[0][:0]
        return parts


@dataclass(frozen=True)
class Steps(Modifier):
    fault: str = field(default="", kw_only=True)

    def local_steps(self, asked, per_epoch, ids, round_index, seed):
        return asked * 0 if self.fault == "idle" else asked

    def answering(self, ids, round_index, seed):
        return ids[:0] if self.fault == "silent" else ids
