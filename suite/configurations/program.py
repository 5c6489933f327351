"""Export of a tuned configuration as a program in one file of plain PyTorch, which can repeat a run of the suite.

The program needs only torch. Given the data, the first weights and the sample order of a run, it computes the same weights
as the suite. Only rounding differs, since it adds in another order.
"""

import io
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from suite.configurations.configuration import Tuned
from trials import algorithms, heterogeneity
from trials.common.errors import UserError
from trials.common.lazy import Lazy
from trials.common.tensors import nn, torch
from trials.engine.training import minibatches
from trials.models.base import Architecture
from trials.run import trial
from trials.run.simulation import Simulation

jinja2: Any = Lazy("jinja2")

SIGN = "Written by `suite tuned export`"
"""A text in each written file, by which the suite recognises its own files."""
ALGORITHMS = ("fedavg", "fedprox", "scaffold", "fedadam")
"""The algorithms that the program's template supports."""
LAYERS = "ClientLinear Conv2d Flatten ReLU AvgPool2d MaxPool2d AdaptiveAvgPool2d"


def exported(
    tuned: Tuned, folder: Path, seed: int | None, data_root: str | None
) -> dict[Path, bytes]:
    """Return the contents of an exported configuration's files, by path. They are a program (.py) and, if `seed` is given, the
    inputs of that seed's run (.pt), which the program can then repeat. Raise `UserError` if no program can express the
    configuration, or its data cannot be loaded.
    """
    path, run = folder / tuned.path, prepared(tuned, seed or 0, data_root)
    contents = {path.with_suffix(".py"): program(tuned, run).encode()}
    return contents if seed is None else {**contents, path.with_suffix(".pt"): federation(run)}


def prepared(tuned: Tuned, seed: int, data_root: str | None) -> Simulation:
    """Return a configuration's simulation before round 1. Raise `UserError` if no exported program can express it."""
    spec = tuned.spec(seed)
    s, level = spec.settings, heterogeneity.parse(spec.heterogeneity)
    unsupported = {
        f"algorithm {spec.algorithm}": spec.algorithm not in ALGORITHMS,
        f"level {level.name}": level.name != level.dealing,
        f"selection {s.selection}": s.selection != "without_replacement",
        f"init {s.init}": s.init == "own",
        f"loss {s.loss}": s.loss in ("two_sided", "half_squared_error"),
        f"optimizer {s.optimizer}": s.optimizer != "sgd",
        f"weights {s.weights}": s.weights != "default",
        "keep_moments": s.keep_moments,
        f"lr_decay {s.lr_decay}": isinstance(s.lr_decay, str),
        f"dtype {s.dtype}": s.dtype not in ("float32", "float64"),
    }
    if reasons := [feature for feature, is_used in unsupported.items() if is_used]:
        raise UserError(f"{tuned.path}: no program supports {', '.join(reasons)}")
    return trial.simulate(spec, trial.partition_data(spec, trial.load_dataset(spec, data_root)))


def program(tuned: Tuned, simulation: Simulation) -> str:
    """Return the text of a program that trains a configuration in the same way as its `simulation`. Raise `UserError` for a
    model that is not a plain sequence of layers.
    """
    fed, spec = simulation.fed, tuned.spec(0)
    data = fed.data.dataset
    text = files("suite.configurations").joinpath("program.py.txt").read_text(encoding="utf-8")
    rendered: str = jinja2.Template(text, keep_trailing_newline=True).render(
        title=algorithms.resolve(spec.algorithm).__name__,
        spec=spec,
        s=fed.settings,
        count=fed.count,
        sign=f"{SIGN}, version {metadata.version('suite-fl')}",
        regression=data.task.pooled == "mse",
        layers=layers_of(spec.model, fed.model.architecture, data.shape, data.classes),
    )
    return rendered


def layers_of(name: str, kind: Architecture, shape: tuple[int, ...], classes: int) -> list[str]:
    """Return the calls that make a network's layers, such as `nn.ReLU()`. Raise `UserError` for anything but a plain sequence of layers."""
    network = kind.network(shape, classes)
    kinds = {type(layer).__name__ for layer in network.children()}
    if type(network) is not nn.Sequential or kinds - set(LAYERS.split()):
        raise UserError(f"no program supports model {name}: it is not a plain sequence of layers")
    return [f"nn.{layer!r}".replace("ClientLinear", "Linear") for layer in network]


def federation(simulation: Simulation) -> bytes:
    """Return the content of the file from which an exported program repeats a run. The file has each client's samples, the
    initial weights, and for each round the selected clients and the order of their samples.
    """
    fed, s, data = simulation.fed, simulation.fed.settings, simulation.fed.data
    rounds = []
    for number in range(1, s.rounds + 1):
        fed.begin(number)
        ids = fed.select()
        steps = fed.steps(ids).numpy().astype(np.int64)
        plan = minibatches(data, ids.numpy(), steps, s.batch_size, (fed.seed, number))
        orders = {}
        for client, order, weight in zip(ids.tolist(), plan.samples, plan.weight, strict=True):
            orders[client] = torch.from_numpy(order[weight > 0])  # without padding
        rounds.append(orders)
    content = {
        "about": SIGN,
        "x": torch.from_numpy(data.dataset.x),
        "y": torch.from_numpy(data.dataset.y),
        "clients": [*map(torch.from_numpy, np.split(data.train, data.offsets[1:-1]))],
        "test": torch.from_numpy(data.test),
        "initial": fed.initial_server(),
        "rounds": rounds,
    }
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()
