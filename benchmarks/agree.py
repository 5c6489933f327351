"""Whether an installed peer computes what the suite computes: the same clients, initial weights, selected
clients and full batches, in double precision, and the first round at which the two part.

    python3 -m venv .venv-fedlab
    .venv-fedlab/bin/pip install fedlab torch nvidia-ml-py
    python benchmarks/agree.py --peer-python .venv-fedlab/bin/python
"""

import argparse
import importlib.util
import json
import logging
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

TOLERANCE = 1e-10
"""Weights that are further apart than this, relative to the largest, differ by more than rounding."""
ROUNDS, CLIENTS, STEPS, LR = 10, 6, 3, 0.1
PAIRS: dict[str, dict[str, float]] = {
    "fedavg": {},
    "fedprox": {"mu": 0.5},
    "scaffold": {"server_lr": 1.0},
    "feddyn": {"alpha": 0.1},
    "fednova": {},
}


def ours(name: str, params: dict[str, float]) -> dict[str, Any]:
    """Our run: its clients' samples, who was selected, and the server's weights after each round."""
    from trials.run.scenario import Scenario
    from trials.run.spec import canonical
    from trials.run.trial import load_dataset, partition_data, simulate
    from trials.settings import Settings

    settings = Settings(
        rounds=ROUNDS,
        clients=CLIENTS,
        participation=0.5,
        local_steps=STEPS,
        batch_size="full",
        aggregation="plain",
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


def fedlab(name: str, params: dict[str, float], given: Any) -> np.ndarray:
    """FedLab's server weights before round 1 and after each round: its own trainer and server."""
    from fedlab.contrib.algorithm import basic_server, fedavg, feddyn, fednova, fedprox, scaffold
    from torch.utils.data import DataLoader, TensorDataset

    logging.disable(logging.CRITICAL)
    sync = basic_server.SyncServerHandler
    trainer_of, server_of = {
        "fedavg": (fedavg.FedAvgSerialClientTrainer, sync),
        "fedprox": (fedprox.FedProxSerialClientTrainer, sync),
        "scaffold": (scaffold.ScaffoldSerialClientTrainer, scaffold.ScaffoldServerHandler),
        "feddyn": (feddyn.FedDynSerialClientTrainer, feddyn.FedDynServerHandler),
        "fednova": (fednova.FedNovaSerialClientTrainer, fednova.FedNovaServerHandler),
    }[name]

    class Dealt:
        """The given clients, each one full batch."""

        def get_dataloader(self, id: int, batch_size: int, type: str = "train") -> Any:
            x, y = torch.from_numpy(given[f"x{id}"]), torch.from_numpy(given[f"y{id}"])
            return DataLoader(TensorDataset(x, y.long()), batch_size=len(y))

    features = given["x0"].shape[1]
    classes = given["w"].shape[1] // (features + 1)
    model = torch.nn.Linear(features, classes, dtype=torch.float64)
    torch.nn.utils.vector_to_parameters(torch.from_numpy(given["w"][0]), model.parameters())
    trainer, server = trainer_of(model, CLIENTS), server_of(model, ROUNDS, 0.5)
    server.num_clients = CLIENTS
    local = {k: v for k, v in params.items() if k in ("mu", "alpha")}
    trainer.setup_dataset(Dealt())
    trainer.setup_optim(STEPS, 0, LR, **local)
    if name == "scaffold":
        server.setup_optim(params["server_lr"])
    if name == "feddyn":
        server.setup_optim(params["alpha"])
    if name == "fednova":
        server.setup_optim()
    found = [server.model_parameters.numpy().copy()]
    for ids in given["selected"]:
        trainer.local_process(server.downlink_package, ids.tolist())
        for pack in trainer.uplink_package:
            server.load(pack)
        found.append(server.model_parameters.numpy().copy())
    return np.array(found)


def compared(name: str, python: str) -> dict[str, Any]:
    """One pair: the first round beyond rounding, if any, and how far the weights are apart there and at the end."""
    run = ours(name, PAIRS[name])
    with tempfile.TemporaryDirectory() as folder:
        given, told = Path(folder, "given.npz"), Path(folder, "told.npy")
        np.savez(given, **run)
        command = [python, __file__, "--serve", name, str(given), str(told)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["it said nothing"]
            return {"algorithm": name, "peer": "fedlab", "skipped": lines[-1]}
        theirs = np.load(told)
    apart = np.abs(run["w"] - theirs).max(1) / np.abs(run["w"]).max(1)
    beyond = np.flatnonzero(~(apart <= TOLERANCE))
    first = int(beyond[0]) if len(beyond) else None
    return {
        "algorithm": name,
        "peer": "fedlab",
        "first_round_apart": first,
        "apart_there": None if first is None else float(apart[first]),
        "apart_at_the_end": float(apart[-1]),
    }


def main() -> None:
    """Compare, or be the peer."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--peer-python", default=sys.executable, help="of the peer's environment")
    parser.add_argument("--algorithms", nargs="+", choices=PAIRS, default=list(PAIRS))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        name, given, told = asked.serve
        if importlib.util.find_spec("fedlab") is None:
            sys.exit("fedlab is not installed")
        np.save(told, fedlab(name, PAIRS[name], np.load(given)))
        return
    rows = [compared(name, asked.peer_python) for name in asked.algorithms]
    print(json.dumps({"tolerance": TOLERANCE, "pairs": rows}, indent=1) if asked.json else "")
    for row in rows if not asked.json else []:
        print(", ".join(f"{key} {value}" for key, value in row.items()))


if __name__ == "__main__":
    main()
