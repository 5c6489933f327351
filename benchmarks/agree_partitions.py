"""Compare the Dirichlet partitions of FedLab and of the suite: how skewed clients' labels are, over many draws.

    python benchmarks/agree_partitions.py --peer-python .venv-peers/bin/python

The two draw different random numbers, so means over draws are compared, of the total variation distance between a client's
label shares and those of all samples. Clients get half of the samples, since FedLab's loop never ends once labels run out.
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
"""The labels of all samples, the same for FedLab and the suite."""


def skew(parts: Iterable[Any]) -> float:
    """Return the total variation distance of clients' label shares from equal shares, as a mean over clients."""
    counts = np.array([np.bincount(Y[part], minlength=LABELS) for part in parts])
    return float(np.abs(counts / counts.sum(1, keepdims=True) - 1 / LABELS).sum(1).mean() / 2)


def fedlab(a: float) -> dict[str, list[float]]:
    """Return the skew of each draw by FedLab: as published, and with its indices, which are into permuted labels, mapped back."""
    from fedlab.utils.dataset.functional import client_inner_dirichlet_partition

    skews_of: dict[str, list[float]] = {"FedLab": [], "FedLab, indices mapped back": []}
    for seed in range(DRAWS):
        np.random.seed(seed)
        permutation = np.random.permutation(SAMPLES)
        np.random.seed(seed)
        sizes = np.full(CLIENTS, EACH)
        parts = client_inner_dirichlet_partition(Y, CLIENTS, LABELS, a, sizes, False).values()
        skews_of["FedLab"].append(skew(parts))
        skews_of["FedLab, indices mapped back"].append(skew(permutation[ids] for ids in parts))
    return skews_of


def ours(a: float) -> dict[str, list[float]]:
    """Return the skew of each draw of the suite's `dirichlet(a)`, and of equal shares at random."""
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
    """Print the mean skew with its standard error for each partition, with a = 0.5 and a = 1."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--peer-python", default=".venv-peers/bin/python")
    parser.add_argument("--draw", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.draw is not None:
        sys.stdout.write(json.dumps(fedlab(args.draw)) + "\n")
        return
    for a in (0.5, 1.0):
        command = [args.peer_python, str(Path(__file__)), "--draw", str(a)]
        answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        for name, skews in (ours(a) | json.loads(answer)).items():
            print(f"a={a} {name}: {np.mean(skews):.4f} ± {np.std(skews) / DRAWS**0.5:.4f}")


if __name__ == "__main__":
    main()
