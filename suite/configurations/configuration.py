"""Tuned configurations: the best hyperparameters that a sweep found, as YAML files."""

import math
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from suite.console import say
from suite.formats import FORMAT, check_format
from suite.studies.validation import Faults, Written, check_run
from suite.yaml_files import dump, parse_mapping, read_text, writing
from trials import datasets
from trials.common import plugins
from trials.common.errors import UserError
from trials.common.files import look
from trials.run.spec import Scenario, TrialSpec, canonical
from trials.scoring.metrics import Task
from trials.settings import Settings

SIGN = "# suite run THIS_FILE"
"""The beginning of each file, by which the suite recognises its own files."""
NEAREST = "nearest"
"""The value of `warm_start` by which a search begins with the nearest configuration in the storage."""
Score = float | None


class Tuned(Written):
    """The best configuration of an algorithm in a scenario, with its scores and its origin: `suite.tuned("fedprox")[0]`."""

    format: int = FORMAT
    algorithm: str
    dataset: str
    model: str
    heterogeneity: str
    params: dict[str, Any]
    settings: Settings
    scores: dict[str, Score | list[Score] | dict[int, Score]] = {}
    budget: dict[str, Any] = {}
    provenance: dict[str, Any] = {}

    @property
    def scenario(self) -> Scenario:
        """Return the data set, model and heterogeneity level for which the algorithm was tuned."""
        return Scenario.of(self)

    @property
    def path(self) -> Path:
        """Return the relative path of the configuration's file: dataset/heterogeneity/model/algorithm.yaml. A name that
        contains a slash is replaced by its last part and a hash of the whole name.
        """
        parts = []
        for name in (self.dataset, self.heterogeneity, self.model, self.algorithm):
            part = name.lstrip(".") or "_"
            if "/" in name:
                end = re.sub(r"[^A-Za-z0-9_-]", "_", name.rpartition("/")[2])
                part = f"{end}-{zlib.crc32(name.encode()):08x}"
            parts.append(part)
        return Path(*parts[:-1], f"{parts[-1]}.yaml")

    @property
    def task(self) -> Task:
        """Return the task (classification or regression) with the metric by which the configuration was tuned."""
        return datasets.parse(self.dataset).task.by(self.settings.metric)

    def score(self, part: str) -> float | None:
        """Return the recorded score on validation ("val") or test data ("test"), or None if there is no such score."""
        value = self.scores.get(f"{part}_{self.task.metric}")
        return float(value) if isinstance(value, int | float) else None

    @property
    def loss(self) -> float:
        """Return the validation score, negated if larger is better, or inf if the score is missing or not finite. Test
        scores must not decide which configuration is best, since this would bias the test of later runs.
        """
        value = self.score("val")
        return math.inf if value is None or not math.isfinite(value) else -self.task.sign * value

    def spec(self, seed: int) -> TrialSpec:
        """Return the specification of a trial that runs this configuration with a seed."""
        return canonical(self.algorithm, self.params, self.scenario, self.settings, seed)

    def refuse_changed(self, source: str) -> None:
        """Raise `UserError` if third-party code has changed since the configuration was tuned. The message begins with `source`."""
        plugins.refuse_changed(self.provenance.get("code", {}), source)

    def text(self) -> str:
        """Return the text of the configuration's file: a comment with the command that runs the file, then YAML."""
        content = self.model_dump()
        content["settings"] = {k: v for k, v in content["settings"].items() if v is not None}
        return f"{SIGN} --seed 1\n{dump(content)}"


def parse(text: str, source: str) -> Tuned:
    """Return the configuration in a file's text, without running third-party code that the text names. Raise `UserError`
    with every fault, and `FormatError` for a file of another format version.
    """
    content = {"params": {}, "settings": {}, **parse_mapping(text, source)}
    if "format" in content or "provenance" in content:  # files by hand have neither
        check_format(f"configuration {source}", content.get("format"))
    faults = Faults(source)
    tuned = faults.validate(Tuned, content)
    if tuned is not None:
        check_run(faults, content, resolves=False)
    faults.check()
    assert tuned is not None
    return tuned


def read(path: Path) -> Tuned:
    """Read the configuration in a file, which a sweep or a person wrote. Raise `UserError` if the file is unreadable or has faults."""
    return parse(read_text(path, "configuration"), str(path))


def tuned_files(source: Path) -> list[Tuned]:
    """Read the configurations in a file, or in each `*.yaml` file below a folder. Raise `UserError` if one has faults or none exists."""
    path, kind = look(source, "configuration")
    paths = sorted(path.rglob("*.yaml")) if kind == "folder" else [path]
    if not paths:
        raise UserError(f"there is no *.yaml below {source}")
    return list(map(read, paths))


def keep(configurations: Sequence[Tuned], folder: Path) -> list[Path]:
    """Write configurations below a folder, and return the paths written. At each path the configuration with the better
    validation score stays: the new one, or the one already there.

    Raise `UserError`, and write nothing, if a configuration cannot run with the algorithms and the code of this machine.
    """
    best: dict[Path, Tuned] = {}
    for item in configurations:
        item.refuse_changed(str(item.path))
        if not any(map(plugins.named, (item.algorithm, *item.scenario.code))):
            item.spec(0).configured()  # third-party code does not run in an import
        path = folder / item.path
        before = best.get(path) or (read(path) if path.exists() else None)
        # Of equal scores the new one replaces the old one: people import again after a change.
        if before is not None and before.loss < item.loss:
            say(f"{item.path}: the existing one scores better on validation and is kept")
        else:
            best[path] = item
    with writing(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Copies first: a full disk stops this before any file is replaced, and moving needs no space.
        with TemporaryDirectory(prefix=".", dir=folder) as copies:
            for number, item in enumerate(best.values()):
                Path(copies, str(number)).write_text(item.text(), encoding="utf-8")
            for number, path in enumerate(best):
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                Path(copies, str(number)).replace(path)
    return list(best)
