"""An algorithm as an ordinary Ray Tune trainable, for scripts with a search of their own: that of the suite's own sweeps, which
reports each evaluation (docs/python.md).
"""

import os
from collections.abc import Mapping
from contextlib import chdir
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from ray import tune

from suite.runs.request import Request
from trials.common import plugins
from trials.common.errors import UserError
from trials.run.spec import TrialConfig
from trials.run.trainable import FederatedTrial
from trials.run.trial import fit_model, load_dataset, partition_data


def trainable(request: Request, data_root: str | None, device: str) -> type[tune.Trainable]:
    """The trainable of a request, for `tune.Tuner`, whose `config` holds hyperparameters or settings by name,
    and perhaps `seed`. Its data set is loaded here, once, and shared by all trials through Ray's object store.

    Raises `UserError` for a request that cannot be run as it stands, on a device of this name.
    """
    spec = request.spec()
    if spec.settings.val_fraction == 0:
        raise UserError(
            "settings.val_fraction = 0: a search needs validation data, so it must be above 0"
        )
    data_root = None if data_root is None else str(Path(data_root).expanduser().resolve())
    dataset = load_dataset(spec, data_root)
    clients = partition_data(spec, dataset, keep=True).clients
    spec.configured().check(clients, fit_model(spec, dataset, device), spec.settings)
    request = replace(request, algorithm=spec.algorithm, scenario=spec.scenario)
    shared: type[tune.Trainable] = tune.with_parameters(
        FederatedTrial,
        datasets={spec.dataset_key: dataset},
        sources=plugins.sources(spec.code),
        asked=partial(_config, request, device),
        data_root=data_root,
    )
    return shared


def _config(request: Request, device: str, config: Mapping[str, Any]) -> TrialConfig:
    """Return the trial of what Tune's `config` puts over a request; raises `UserError` for what cannot be run."""
    values = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in config.items()
    }
    seed = values.pop("seed", request.seed)
    # Tune runs a trial in a folder of its own; a relative path is meant from where Tune began.
    with chdir(os.environ.get("TUNE_ORIG_WORKING_DIR", ".")):
        spec = replace(request, values=values, seed=seed).spec()
    return TrialConfig(spec, device=device)
