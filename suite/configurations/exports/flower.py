"""A tuned configuration as the run configuration of a Flower app.

Flower reads flat keys, of numbers and text, from `[tool.flwr.app.config]` of an app's `pyproject.toml`; the app's own
code hands them to its strategy and its clients. Where Flower has a strategy of the algorithm, the keys are this
strategy's arguments.
"""

import json
from typing import Any

from suite.configurations.configuration import Tuned

SIGN = "# Written by `suite tuned export --as flower`"
"""How the suite knows a file again that it wrote."""
ADAPTIVE = {"server_lr": "eta", "beta1": "beta_1", "beta2": "beta_2", "tau": "tau"}
STRATEGIES: dict[str, tuple[str, dict[str, str]]] = {
    "fedavg": ("FedAvg", {}),
    "fedprox": ("FedProx", {"mu": "proximal_mu"}),
    "fedadam": ("FedAdam", ADAPTIVE),
    "fedadagrad": ("FedAdagrad", ADAPTIVE),
    "fedyogi": ("FedYogi", ADAPTIVE),
}
"""By algorithm, its class in `flwr.serverapp.strategy`, and its arguments for hyperparameters."""


def run_config(tuned: Tuned) -> str:
    """The section of `pyproject.toml`, below comments that say what it cannot say."""
    spec, s = tuned.spec(0), tuned.settings
    strategy, names = STRATEGIES.get(spec.algorithm, ("", {}))
    own = {names.get(name, name): value for name, value in spec.params.items() if name != "lr"}
    optional = {"momentum": s.momentum, "weight_decay": s.weight_decay, "clip_norm": s.clip_norm}
    keys: dict[str, Any] = {
        "num-server-rounds": s.rounds,
        "fraction-train": s.participation,
        "learning-rate": spec.params["lr"],
        **({"local-steps": s.local_steps} if s.local_steps else {"local-epochs": s.local_epochs}),
        **({} if s.batch_size == "full" else {"batch-size": s.batch_size}),
        **({"lr-decay": s.lr_decay} if s.lr_decay != 1 else {}),
        **{name.replace("_", "-"): value for name, value in optional.items() if value},
        **{name.replace("_", "-"): value for name, value in own.items()},
    }
    taken = ["fraction_train", *(names[name] for name in spec.params if name in names)]
    call = ", ".join(f'{name}=run_config["{name.replace("_", "-")}"]' for name in taken)
    told = [
        SIGN,
        f"# {spec.algorithm} as tuned on {spec.scenario}, {s.clients or 'all'} clients",
        f"# flwr.serverapp.strategy.{strategy}({call})"
        if strategy
        else f"# Flower has no strategy {spec.algorithm}: its hyperparameters are below as the suite names them",
        *["# without batch-size: a local step takes all of a client's samples"]
        * (s.batch_size == "full"),
    ]
    lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
    return "\n".join((*told, "[tool.flwr.app.config]", *lines, ""))
