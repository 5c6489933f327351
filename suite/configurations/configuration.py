"""Tuned configurations: the YAML files that are a sweep's harvest."""

import math
import os
import re
import sys
import zlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

from suite.formats import FORMAT, check_format
from suite.studies.validation import Faults, check_run
from suite.yaml_files import dump, parse_mapping, read_text, writable, write_whole, writing
from trials import datasets
from trials.common import plugins
from trials.common.errors import UserError
from trials.common.files import plain
from trials.run.scenario import Scenario
from trials.run.spec import TrialSpec, canonical
from trials.scoring.metrics import Task
from trials.settings import Settings

SIGN = "# suite run THIS_FILE"
"""How the suite knows a file again that it wrote."""


class Tuned(BaseModel):
    """The best configuration of an entry, what it scored, and how it was found."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int = FORMAT
    algorithm: str
    dataset: str
    model: str
    heterogeneity: str
    params: dict[str, Any]
    settings: Settings
    scores: dict[str, Any] = {}
    budget: dict[str, Any] = {}
    provenance: dict[str, Any] = {}

    @property
    def scenario(self) -> Scenario:
        """The scenario that it is for."""
        return Scenario.of(self)

    @property
    def data_level(self) -> tuple[str, str]:
        """Data set and level: scores on others say nothing of which configuration is better."""
        return self.dataset, self.heterogeneity

    def spec(self, seed: int) -> TrialSpec:
        """The run of this configuration with a seed."""
        return canonical(self.algorithm, self.params, self.scenario, self.settings, seed)

    def refuse_changed(self, source: str) -> None:
        """Raise `UserError` where the code that it was tuned with has changed since."""
        plugins.refuse_changed(self.provenance.get("code", {}), source)

    @field_validator("scores")
    @classmethod
    def _scores(cls, scores: dict[str, Any]) -> dict[str, Any]:
        for key, value in scores.items():
            if not _SHAPES.get(key, _number)(value):
                raise ValueError(f"{key} is {value!r}, which is no score that the suite writes")
        return scores

    @property
    def path(self) -> Path:
        """Where it lies below a folder of tuned files: dataset/heterogeneity/model/algorithm.yaml."""
        return file_path(self.algorithm, self.scenario)

    @property
    def task(self) -> Task:
        """What it was tuned by."""
        return datasets.parse(self.dataset).task.by(self.settings.metric)

    @property
    def loss(self) -> float:
        """The validation score with its sign, so that less is better; infinite where there is none. Test
        scores choose nothing: what starts from the best would have seen them.
        """
        value = self.scores.get(f"val_{self.task.metric}")
        if not isinstance(value, int | float) or not math.isfinite(value):
            return math.inf
        return float(-self.task.sign * value)

    def text(self) -> str:
        """The configuration's file: YAML below the command that runs it."""
        content = self.model_dump(exclude_defaults=False)
        content["settings"] = {k: v for k, v in content["settings"].items() if v is not None}
        return f"{SIGN} --seed 1\n{dump(content)}"


def _number(value: Any) -> bool:
    """Whether it is a score, or says that there is none."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return value is None or (number and abs(value) <= sys.float_info.max) or value != value


def _seed(key: Any) -> bool:
    """Whether it is a final seed, which YAML may have as text."""
    return re.fullmatch(r"[0-9]{1,19}", str(key)) is not None


_SHAPES: dict[str, Callable[[Any], bool]] = {
    "test_interval_95": lambda v: isinstance(v, list) and all(map(_number, v)),
    "test_by_seed": lambda v: (
        isinstance(v, dict) and all(map(_seed, v)) and all(map(_number, v.values()))
    ),
}
"""Scores that are not one number."""


def relative_path(algorithm: str, scenario: Scenario) -> Path:
    """dataset/heterogeneity/model/algorithm, each as one part of a path."""
    return Path(*map(_safe, (scenario.dataset, scenario.heterogeneity, scenario.model, algorithm)))


def file_path(algorithm: str, scenario: Scenario) -> Path:
    """The same of a tuned file."""
    path = relative_path(algorithm, scenario)
    return path.with_name(f"{path.name}.yaml")


def _safe(name: str) -> str:
    """A name as one part of a path; one that holds a path keeps its end and a hash of the whole."""
    if "/" not in name:
        return name.lstrip(".") or "_"
    return (
        f"{re.sub(r'[^A-Za-z0-9_-]', '_', name.rpartition('/')[2])}-{zlib.crc32(name.encode()):08x}"
    )


def parse(text: str, source: str) -> Tuned:
    """Read a tuned file or a hand-written configuration; raises `UserError` with every fault, `FormatError`
    for what another version wrote. Code of others that it names does not run.
    """
    content = {"params": {}, "settings": {}, **parse_mapping(text, source)}
    if "format" in content or "provenance" in content:  # which nobody writes by hand
        check_format(f"configuration {source}", content.get("format"))
    faults = Faults(source)
    faults.validate(Tuned, content)
    if not faults.found:
        check_run(faults, content, resolves=False)
    faults.check()
    return Tuned.model_validate(content)


def read(path: Path) -> Tuned:
    """Read a tuned or hand-written file; raises as `parse`."""
    return parse(read_text(path, "configuration"), str(path))


def read_all(source: Path) -> list[Tuned]:
    """A tuned file, or all `*.yaml` below a folder. Raises one `UserError` that names every bad file."""
    if not os.path.lexists(source):
        raise UserError(f"{source} does not exist")
    if os.path.isdir(source):  # unlike `Path.is_dir`, of any name
        paths = sorted(source.rglob("*.yaml"))
    else:
        paths = [plain(source, "configuration")]
    if not paths:
        raise UserError(f"there is no *.yaml below {source}")
    found, bad = [], []
    for path in paths:
        try:
            found.append(_runnable(read_text(path, "configuration"), str(path)))
        except UserError as error:
            bad.append(str(error))
    if bad:
        count = f"{len(bad)} of {len(paths)} files cannot be imported; nothing was"
        raise UserError("\n".join([count, *bad]))
    return found


def _runnable(text: str, source: str) -> Tuned:
    """A file's configuration, if it can be run here; raises `UserError`, which names the file."""
    found = parse(text, source)
    found.refuse_changed(source)
    code = list(filter(plugins.named, (found.algorithm, *found.scenario.code)))
    try:
        if code:
            plugins.hashes(*code)  # it is there; to know more it would have to run
        else:
            found.spec(0).configured()
    except UserError as error:
        raise UserError(f"{source}: {error}") from None
    return found


def keep(found: list[Tuned], folder: Path) -> tuple[list[Path], list[str]]:
    """Write configurations below a folder, of several for one entry the best by
    validation score (a later one where there are none); the files written, and what was skipped.
    """
    with writable(folder):
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept: dict[Path, None] = {}
    passed_over = []
    for item in found:
        path = folder / item.path
        if os.path.exists(path) and read(path).loss < item.loss:
            passed_over.append(
                f"{item.path}: the one that is there scores better on validation and stays"
            )
            continue
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, item.text())
        kept[path] = None
    return list(kept), passed_over


def differences(a: Tuned, b: Tuned) -> dict[str, tuple[Any, Any]]:
    """By key, such as `params.lr`, the values that two configurations do not share; None where one has none. Where
    they come from (`provenance`) is left out.
    """
    flat = [
        _flat(item.model_dump(mode="json", exclude={"provenance", "format"})) for item in (a, b)
    ]
    keys = dict.fromkeys(key for one in flat for key in one)
    pairs = {key: (flat[0].get(key), flat[1].get(key)) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def _flat(content: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of nested mappings by their dotted keys."""
    found: dict[str, Any] = {}
    for key, value in content.items():
        nested = isinstance(value, Mapping)
        found |= _flat(value, f"{prefix}{key}.") if nested else {f"{prefix}{key}": value}
    return found


def today() -> str:
    """The date in UTC, for provenance."""
    return datetime.now(UTC).date().isoformat()
