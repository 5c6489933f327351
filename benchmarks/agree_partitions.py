"""The Dirichlet partition of FedLab beside ours: how skewed clients' labels are, over many draws.

    python benchmarks/agree_partitions.py --peer-python .venv-peers/bin/python

Random streams differ, so means over draws are compared: of the total variation between a client's label shares and those of
all samples. Clients take half of the samples, since FedLab's loop draws on forever once a client's labels are used up.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

CLIENTS, LABELS, SAMPLES, EACH, DRAWS = 20, 10, 2000, 50, 100
Y = np.random.default_rng(0).permutation(np.arange(SAMPLES) % LABELS)
"""The labels of all samples, the same on both sides."""


def skew(parts: Iterable[Any]) -> float:
    """The mean over clients of the total variation of their label shares from even ones."""
    counts = np.array([np.bincount(Y[part], minlength=LABELS) for part in parts])
    return float(np.abs(counts / counts.sum(1, keepdims=True) - 1 / LABELS).sum(1).mean() / 2)


def fedlab(a: float) -> dict[str, list[float]]:
    """Draws in FedLab's own environment: as published, and with the indices into its permuted labels taken back to the
    samples that they are of.
    """
    from fedlab.utils.dataset.functional import client_inner_dirichlet_partition

    found: dict[str, list[float]] = {"FedLab": [], "FedLab, indices taken back": []}
    for seed in range(DRAWS):
        np.random.seed(seed)
        moved = np.random.permutation(SAMPLES)
        np.random.seed(seed)
        sizes = np.full(CLIENTS, EACH)
        parts = client_inner_dirichlet_partition(Y, CLIENTS, LABELS, a, sizes, False).values()
        found["FedLab"].append(skew(parts))
        found["FedLab, indices taken back"].append(skew(moved[ids] for ids in parts))
    return found


def ours(a: float) -> dict[str, list[float]]:
    """Draws of `dirichlet(a)`, and of equal shares at random."""
    from trials.heterogeneity import parse

    sizes, seeds = np.full(CLIENTS, EACH), range(DRAWS)
    return {
        name: [skew(draw(Y, sizes, np.random.default_rng(seed))) for seed in seeds]
        for name, draw in (
            ("dirichlet", parse(f"dirichlet({a})").partition.assign_sizes),
            ("iid", lambda y, n, rng: np.split(rng.permutation(len(y))[: n.sum()], len(n))),
        )
    }


def main() -> None:
    """Print the mean and its standard error of each, for two values of a."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer-python", default=".venv-peers/bin/python")
    parser.add_argument("--draw", type=float, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.draw is not None:
        sys.stdout.write(json.dumps(fedlab(given.draw)) + "\n")
        return
    for a in (0.5, 1.0):
        asked = [given.peer_python, str(Path(__file__)), "--draw", str(a)]
        answer = subprocess.run(asked, check=True, stdout=subprocess.PIPE, text=True).stdout
        for name, found in (ours(a) | json.loads(answer)).items():
            print(f"a={a} {name}: {np.mean(found):.4f} ± {np.std(found) / DRAWS**0.5:.4f}")


if __name__ == "__main__":
    main()
