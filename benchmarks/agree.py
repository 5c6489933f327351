"""Whether an installed peer computes what the suite computes: the same clients, initial weights, selected
clients and full batches, in double precision, and the first round at which the two part.

    python3 -m venv .venv-flwr
    .venv-flwr/bin/pip install flwr
    python benchmarks/agree.py --peer flwr --peer-python .venv-flwr/bin/python --output benchmarks/agreement.json

A pair that parts runs again with the suspected lines of the peer changed (`corrected` in `agree_PEER.py`). The
output is updated: pairs of other peers stay.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from agree_peer import LR, STEPS

TOLERANCE = 1e-10
"""Weights that are further apart than this, relative to the largest, differ by more than rounding."""
ROUNDS, CLIENTS = 10, 6
ADAPTIVE = {"server_lr": 0.1, "tau": 0.01}
PARAMS: dict[str, dict[str, float]] = {
    "fedavg": {},
    "fedprox": {"mu": 0.5},
    "scaffold": {"server_lr": 1.0},
    "feddyn": {"alpha": 0.1},
    "fednova": {},
    "fedadam": {**ADAPTIVE, "beta1": 0.9, "beta2": 0.99},
    "fedyogi": {**ADAPTIVE, "beta1": 0.9, "beta2": 0.99},
    "fedadagrad": ADAPTIVE,
}
PEERS: dict[str, tuple[str, ...]] = {
    "fedlab": ("fedavg", "fedprox", "scaffold", "feddyn", "fednova"),
    "flwr": ("fedavg", "fedadam", "fedyogi", "fedadagrad"),
    "pfl": ("fedavg", "fedprox", "scaffold"),
    "fedjax": ("fedavg", "fedadam"),
}
BY_SAMPLES = {"fedjax"}
"""Peers that weigh clients by their samples; with the others all clients weigh alike."""


def ours(name: str, params: dict[str, float], aggregation: str) -> dict[str, Any]:
    """Our run: its clients' samples, who was selected, and the server's weights after each round."""
    from trials.run.spec import Scenario, canonical
    from trials.run.trial import load_dataset, partition_data, simulate
    from trials.settings import Settings

    settings = Settings(
        rounds=ROUNDS,
        clients=CLIENTS,
        participation=0.5,
        local_steps=STEPS,
        batch_size="full",
        aggregation=aggregation,
        dtype="float64",
        eval_every=1,
    )
    scenario = Scenario("digits", "logreg", "labels(3)")
    spec = canonical(name, {"lr": LR, **params}, scenario, settings, 0)
    data = partition_data(spec, load_dataset(spec, None))
    run = simulate(spec, data)
    weights, selected = [run.state["w"].numpy().copy()], []
    while not run.finished:
        run.advance()
        weights.append(run.state["w"].numpy().copy())
        selected.append(run.fed.select().numpy())
    parts = np.split(data.train, data.offsets[1:-1])
    samples = {
        f"x{k}": run.fed.x[torch.from_numpy(ids)].flatten(1).numpy() for k, ids in enumerate(parts)
    }
    labels = {f"y{k}": run.fed.y[torch.from_numpy(ids)].numpy() for k, ids in enumerate(parts)}
    return {"w": np.array(weights), "selected": np.array(selected), **samples, **labels}


def theirs(peer: str, python: str, name: str, run: dict[str, Any], corrected: bool) -> np.ndarray:
    """The peer's weights before round 1 and after each round. Raises `RuntimeError` with its last line."""
    with tempfile.TemporaryDirectory() as folder:
        given, told = Path(folder, "given.npz"), Path(folder, "told.npy")
        np.savez(given, **run)
        file = Path(__file__).with_name(f"agree_{peer}.py")
        asked = [name, json.dumps(PARAMS[name]), given, told, corrected]
        done = subprocess.run([python, file, *map(str, asked)], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["it said nothing"])[-1])
        return np.load(told)


def apart(run: dict[str, Any], found: np.ndarray) -> dict[str, Any]:
    """The first round beyond rounding, if any, and how far the weights are apart there and at the end."""
    by_round = np.abs(run["w"] - found).max(1) / np.abs(run["w"]).max(1)
    beyond = np.flatnonzero(~(by_round <= TOLERANCE))
    first = int(beyond[0]) if len(beyond) else None
    return {
        "first_round_apart": first,
        "apart_there": None if first is None else float(by_round[first]),
        "apart_at_the_end": float(by_round[-1]),
    }


def compared(peer: str, python: str, name: str) -> dict[str, Any]:
    """One pair, and the same with the peer's suspected lines changed where the two part."""
    run = ours(name, PARAMS[name], "samples" if peer in BY_SAMPLES else "plain")
    row = {"peer": peer, "algorithm": name}
    try:
        row |= apart(run, theirs(peer, python, name, run, False))
        if row["first_round_apart"] is not None:
            row["corrected"] = apart(run, theirs(peer, python, name, run, True))
    except RuntimeError as error:
        row["skipped"] = str(error)
    return row


def version(peer: str, python: str) -> str:
    """The installed version of the peer."""
    code = f"from importlib.metadata import version; print(version({peer!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Compare with one peer."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--peer", choices=PEERS, default="fedlab")
    parser.add_argument("--peer-python", default=sys.executable, help="of the peer's environment")
    parser.add_argument("--algorithms", nargs="+", help="some of those that the peer has")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--output", type=Path, help="the JSON file to update")
    asked = parser.parse_args()
    names = asked.algorithms or PEERS[asked.peer]
    rows = [compared(asked.peer, asked.peer_python, name) for name in names]
    if asked.json:
        print(json.dumps({"tolerance": TOLERANCE, "pairs": rows}, indent=1))
    for row in rows if not asked.json else []:
        print(", ".join(f"{key} {value}" for key, value in row.items()))
    if asked.output:
        kept = json.loads(asked.output.read_text()) if asked.output.exists() else {}
        told = [row for row in kept.get("pairs", ()) if row["peer"] != asked.peer]
        order = list(PEERS)
        pairs = sorted([*told, *rows], key=lambda row: order.index(row["peer"]))
        versions = {**kept.get("versions", {}), asked.peer: version(asked.peer, asked.peer_python)}
        document = {"tolerance": TOLERANCE, "versions": versions, "pairs": pairs}
        asked.output.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
