"""Compare the suite's weights with those of an installed peer: same clients, initial weights, selected clients and full
batches, in double precision. The result is the first round at which the weights differ.

    python3 -m venv .venv-flwr
    .venv-flwr/bin/pip install flwr
    python benchmarks/agree.py --peer flwr --peer-python .venv-flwr/bin/python --output benchmarks/agreement.json

If the weights differ, the peer runs again with its suspected lines changed (`corrected` in `agree_PEER.py`). The output file
is updated; results of other peers stay in it.
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
"""The largest difference of weights, relative to the largest weight, that counts as rounding."""
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
"""Peers that weight clients by their numbers of samples; all others weight clients equally."""


def ours(name: str, params: dict[str, float], aggregation: str) -> dict[str, Any]:
    """Return the suite's run: server weights `w` by round, `selected` clients by round, samples `x0`, ... and labels `y0`, ..."""
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
    """Return the peer's weights before round 1 and after each round; raise `RuntimeError` with the last line of its errors."""
    with tempfile.TemporaryDirectory() as folder:
        sent, answer = Path(folder, "sent.npz"), Path(folder, "answer.npy")
        np.savez(sent, **run)
        file = Path(__file__).with_name(f"agree_{peer}.py")
        arguments = [name, json.dumps(PARAMS[name]), sent, answer, corrected]
        command = [python, file, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
        return np.load(answer)


def apart(run: dict[str, Any], weights: np.ndarray) -> dict[str, Any]:
    """Return the first round at which the weights differ by more than rounding (or None), and the difference there and at the end."""
    by_round = np.abs(run["w"] - weights).max(1) / np.abs(run["w"]).max(1)
    beyond = np.flatnonzero(~(by_round <= TOLERANCE))
    first = int(beyond[0]) if len(beyond) else None
    return {
        "first_round_apart": first,
        "apart_there": None if first is None else float(by_round[first]),
        "apart_at_the_end": float(by_round[-1]),
    }


def compared(peer: str, python: str, name: str) -> dict[str, Any]:
    """Return a row on one algorithm: where the weights differ, and if they do, the same with the peer's suspected lines changed."""
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
    """Return the installed version of the peer."""
    code = f"from importlib.metadata import version; print(version({peer!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip()


def main() -> None:
    """Compare the suite with one peer, print the results, and update the output file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--peer", choices=PEERS, default="fedlab")
    parser.add_argument("--peer-python", default=sys.executable, help="Python of its environment")
    parser.add_argument("--algorithms", nargs="+", help="default: all of the peer's")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--output", type=Path, help="the JSON file to update")
    args = parser.parse_args()
    names = args.algorithms or PEERS[args.peer]
    rows = [compared(args.peer, args.peer_python, name) for name in names]
    if args.json:
        print(json.dumps({"tolerance": TOLERANCE, "pairs": rows}, indent=1))
    for row in rows if not args.json else []:
        print(", ".join(f"{key} {value}" for key, value in row.items()))
    if args.output:
        kept = json.loads(args.output.read_text()) if args.output.exists() else {}
        others = [row for row in kept.get("pairs", ()) if row["peer"] != args.peer]
        order = list(PEERS)
        pairs = sorted([*others, *rows], key=lambda row: order.index(row["peer"]))
        versions = {**kept.get("versions", {}), args.peer: version(args.peer, args.peer_python)}
        document = {"tolerance": TOLERANCE, "versions": versions, "pairs": pairs}
        args.output.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
