"""One run as a person asks for it: names, hyperparameters and settings, a seed."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from suite.studies.validation import Faults, check_run
from trials import algorithms
from trials.common.errors import UserError, unknown
from trials.run.spec import Scenario, TrialSpec, canonical
from trials.settings import Settings

DEFAULTS = {"algorithm": "fedavg", **Scenario("digits", "logreg", "iid").names()}
"""What is run where nothing else is said."""


@dataclass(frozen=True)
class Request:
    """What a person asked for. `values` are hyperparameters or settings by name and replace those in
    `params` and `settings`.
    """

    algorithm: str
    scenario: Scenario
    params: Mapping[str, Any]
    settings: Mapping[str, Any]
    seed: int = 0
    values: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def over(
        cls,
        base: Mapping[str, Any],
        names: Mapping[str, str | None],
        settings: Mapping[str, Any],
        **more: Any,
    ) -> Self:
        """Return a request that starts from a configuration's content (or {}); names that are None are the configuration's,
        else the defaults.
        """
        asked = {key: name for key, name in names.items() if name is not None}
        every = DEFAULTS | {key: base[key] for key in DEFAULTS if key in base} | asked
        algorithm, *scenario = (every[key] for key in DEFAULTS)
        settings = {**base.get("settings", {}), **settings}
        return cls(algorithm, Scenario(*scenario), base.get("params", {}), settings, **more)

    def spec(self) -> TrialSpec:
        """Return the trial; raises one `UserError` with every fault."""
        faults = Faults("run")
        params, settings = dict(self.params), dict(self.settings)
        run = {"algorithm": self.algorithm, "params": params, **self.scenario.names()}
        with suppress(UserError):  # check_run says so
            ranges = algorithms.resolve(self.algorithm).ranges()
            for key, value in self.values.items():
                if key in Settings.model_fields:
                    settings[key] = value
                elif key in ranges:
                    params[key] = value
                else:
                    names = [*ranges, *Settings.model_fields]
                    faults.add(key, value, str(unknown("hyperparameter or setting", key, names)))
        if type(self.seed) is not int or self.seed < 0:
            faults.add("seed", self.seed, "must be a whole number, and at least 0")
        check_run(faults, run)
        faults.validate(Settings, settings, "settings.")
        faults.check()
        spec = canonical(self.algorithm, params, self.scenario, Settings(**settings), self.seed)
        spec.configured()
        return spec
