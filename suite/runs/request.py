"""The request for a single run, and a Ray Tune trainable made from it for searches by Tune itself (docs/python.md)."""

import os
from collections.abc import Mapping
from contextlib import chdir, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from suite.studies.validation import Faults, check_run
from trials import algorithms
from trials.common import plugins
from trials.common.errors import UserError, unknown
from trials.common.mappings import only, stated
from trials.run.spec import Scenario, TrialConfig, TrialSpec, canonical
from trials.run.trial import fit_model, load_dataset, partition_data
from trials.settings import Settings

if TYPE_CHECKING:
    from ray import tune

DEFAULTS = {"algorithm": "fedavg", **Scenario("digits", "logreg", "iid").names()}
"""The algorithm and the scenario of a run for which no others are requested."""


@dataclass(frozen=True)
class Request:
    """A request for a run. `base` is the content of a configuration file, or {}. `names` that are not None replace its
    algorithm, dataset, model or heterogeneity. `values` replace its hyperparameters and settings.
    """

    base: Mapping[str, Any]
    names: Mapping[str, str | None]
    seed: int = 0
    values: Mapping[str, Any] = field(default_factory=dict)

    def spec(self) -> TrialSpec:
        """Return the specification of the requested run. Raise one `UserError` with all faults of the request."""
        faults, base = Faults("run"), self.base
        names = DEFAULTS | only(base, DEFAULTS) | stated(self.names)
        params, settings = dict(base.get("params", {})), dict(base.get("settings", {}))
        with suppress(UserError):  # `check_run` notes an unknown algorithm
            ranges = algorithms.resolve(names["algorithm"]).ranges()
            for key, value in self.values.items():
                if key in Settings.model_fields:
                    settings[key] = value
                elif key in ranges:
                    params[key] = value
                else:
                    keys = [*ranges, *Settings.model_fields]
                    faults.add(key, value, str(unknown("hyperparameter or setting", key, keys)))
        if type(self.seed) is not int or self.seed < 0:
            faults.add("seed", self.seed, "must be a whole number, and at least 0")
        check_run(faults, {**names, "params": params})
        faults.validate(Settings, settings, "settings.")
        faults.check()
        algorithm, *scenario = itemgetter(*DEFAULTS)(names)
        spec = canonical(algorithm, params, Scenario(*scenario), Settings(**settings), self.seed)
        spec.configured()
        return spec


def trainable(request: Request, data_root: str | None, device: str) -> "type[tune.Trainable]":
    """Load the data set of the requested run, and return a Ray Tune trainable of the run. Tune's `config` may contain
    hyperparameters, settings, and `seed`. Raise `UserError` if the request cannot run with an empty `config`.
    """
    from ray import tune

    from trials.run.trainable import FederatedTrial

    spec = request.spec()
    if spec.settings.val_fraction == 0:
        raise UserError("settings.val_fraction is 0: a search needs validation data")
    data_root = data_root and str(Path(data_root).expanduser().resolve())
    dataset = load_dataset(spec, data_root)
    clients = partition_data(spec, dataset, keep=True).clients
    spec.configured().check(clients, fit_model(spec, dataset, device), spec.settings)
    request = replace(request, names={"algorithm": spec.algorithm, **spec.scenario.names()})
    shared: type[tune.Trainable] = tune.with_parameters(
        FederatedTrial,
        datasets={spec.dataset_key: dataset},
        sources=plugins.sources(spec.code),
        asked=partial(_config, request, device),
        data_root=data_root,
    )
    return shared


def _config(request: Request, device: str, config: Mapping[str, Any]) -> TrialConfig:
    """Return the configuration of a trial: the requested run with the values in Tune's `config`. Raise `UserError` for wrong values."""
    values = {}
    for name, value in config.items():
        values[name] = value.item() if isinstance(value, np.generic) else value
    seed = values.pop("seed", request.seed)
    # Tune runs a trial in a folder of its own, but relative paths are relative to where Tune was started.
    with chdir(os.environ.get("TUNE_ORIG_WORKING_DIR", ".")):
        spec = replace(request, values={**request.values, **values}, seed=seed).spec()
    return TrialConfig(spec, device=device)
