"""A data set of one's own, with arguments: two interleaved half circles, born on clients that see them rotated.

    suite run --dataset examples/own_dataset.py:Moons --heterogeneity natural
    suite sweep quickstart --datasets "examples/own_dataset.py:Moons(20,noise=0.3)" --name moons

Data in files need no code: they are `npz:PATH` or `csv:PATH`. An installed package offers a data set under a short
name with an entry point in its pyproject.toml:

    [project.entry-points."suite.datasets"]
    moons = "my_package.datasets:Moons"
"""

from dataclasses import dataclass, field

import numpy as np

from trials.datasets import Dataset, DatasetFamily


@dataclass(frozen=True)
class Moons(DatasetFamily):
    """Each of the `owners` clients has 50 points, rotated by an angle of its own; a fifth is test."""

    summary = "two half circles, rotated by client"
    kind = (
        "half circles"  # data sets of one kind resemble each other: configurations are carried over
    )

    # The fields are the arguments of the name: Moons, Moons(20), Moons(20,noise=0.3).
    owners: int = 10
    noise: float = field(default=0.1, kw_only=True)

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        """Return the points, a function of `seed`. `clients` is how many a run asks for (None: as many as there are);
        `root` is the folder of data files, for data sets that have any (`DatasetFamily.files`, `fetch`).
        """
        rng = np.random.default_rng(seed)
        client = np.repeat(np.arange(self.owners), 50)
        y = rng.integers(0, 2, len(client))
        angle = np.pi * (rng.random(len(client)) + y)
        x = np.stack([np.cos(angle) + y, np.sin(angle) + 0.5 * y], 1)
        x += rng.normal(0, self.noise, x.shape)
        turn = (2 * np.pi * np.arange(self.owners) / self.owners)[client]
        x = np.stack(
            [
                np.cos(turn) * x[:, 0] - np.sin(turn) * x[:, 1],
                np.sin(turn) * x[:, 0] + np.cos(turn) * x[:, 1],
            ],
            1,
        )
        return Dataset(x.astype(np.float32), y, rng.random(len(y)) < 0.2, classes=2, client=client)
