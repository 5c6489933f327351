"""Tuned configurations: the YAML files that are a sweep's harvest."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict

from suite.study import Faults
from trials import trial
from trials.errors import UserError
from trials.settings import Settings
from trials.trial import TrialSpec


class Tuned(BaseModel):
    """The best configuration of a cell, what it scored, and how it was found."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    algorithm: str
    dataset: str
    model: str
    heterogeneity: str
    params: dict[str, Any]
    settings: Settings
    scores: dict[str, Any] = {}
    budget: dict[str, Any] = {}
    provenance: dict[str, Any] = {}

    def spec(self, seed: int) -> TrialSpec:
        """The run of this configuration with a seed."""
        return trial.canonical(
            self.algorithm,
            self.params,
            self.dataset,
            self.model,
            self.heterogeneity,
            self.settings,
            seed,
        )

    @property
    def path(self) -> Path:
        """Where it lies below a folder of tuned files: dataset/heterogeneity/model/algorithm.yaml."""
        parts = [self.dataset, self.heterogeneity, self.model, self.algorithm.rpartition(":")[2]]
        safe = [part.replace("/", "_").lstrip("._") for part in parts]
        return Path(*safe[:-1]) / f"{safe[-1]}.yaml"

    def text(self) -> str:
        """As YAML, with the command that runs it."""
        content = self.model_dump(exclude_defaults=False)
        content["settings"] = {k: v for k, v in content["settings"].items() if v is not None}
        body = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)
        return f"# suite run --config THIS_FILE --seed 1\n{body}"


def parse(text: str, source: str) -> Tuned:
    """Read a tuned file or a hand-written configuration; raises `UserError` with every fault."""
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"{source} is not YAML: {error}") from None
    if not isinstance(content, dict):
        raise UserError(f"{source}: a configuration is a mapping of keys to values")
    faults = Faults(source)
    faults.validate(Tuned, {"params": {}, "settings": {}, **content})
    faults.check()
    tuned = Tuned.model_validate({"params": {}, "settings": {}, **content})
    try:
        tuned.spec(0)
    except UserError as error:
        raise UserError(f"{source}: {error}") from None
    return tuned


def read(path: Path) -> Tuned:
    """A tuned file."""
    try:
        return parse(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"cannot read configuration {path}: {error}") from None


def today() -> str:
    """The date in UTC, for provenance."""
    return datetime.now(UTC).date().isoformat()
