"""Tuned configurations: the YAML files that are a sweep's harvest."""

import re
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from suite.files import dump, parse_mapping, read_text
from suite.study import Faults, check_run
from trials import trial
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
        parts = [self.dataset, self.heterogeneity, self.model, self.algorithm]
        *folders, name = map(_safe, parts)
        return Path(*folders) / f"{name}.yaml"

    def text(self) -> str:
        """As YAML, with the command that runs it."""
        content = self.model_dump(exclude_defaults=False)
        content["settings"] = {k: v for k, v in content["settings"].items() if v is not None}
        return f"# suite run --config THIS_FILE --seed 1\n{dump(content)}"


def _safe(name: str) -> str:
    """A name as one part of a path; one that holds a path keeps its end and a hash of the whole."""
    if "/" not in name:
        return name.lstrip(".") or "_"
    return (
        f"{re.sub(r'[^A-Za-z0-9_-]', '_', name.rpartition('/')[2])}-{zlib.crc32(name.encode()):08x}"
    )


def parse(text: str, source: str) -> Tuned:
    """Read a tuned file or a hand-written configuration; raises `UserError` with every fault."""
    content = {"params": {}, "settings": {}, **parse_mapping(text, source)}
    faults = Faults(source)
    faults.validate(Tuned, content)
    if not faults.found:
        check_run(faults, content)
    faults.check()
    return Tuned.model_validate(content)


def read(path: Path) -> Tuned:
    """A tuned file."""
    return parse(read_text(path, "configuration"), str(path))


def today() -> str:
    """The date in UTC, for provenance."""
    return datetime.now(UTC).date().isoformat()
