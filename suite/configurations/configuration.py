"""Tuned configurations: the YAML files that are a sweep's harvest."""

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
"""The text by which the suite recognises its own files."""
NEAREST = "nearest"
"""`warm_start: nearest`: among all that the storage holds."""
Score = float | None


class Tuned(Written):
    """The best configuration of an entry, what it scored, and how it was found: `suite.tuned("fedprox")[0]`."""

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
        """Return the scenario that it is for."""
        return Scenario.of(self)

    @property
    def path(self) -> Path:
        """Return where it lies below a folder of tuned files: dataset/heterogeneity/model/algorithm.yaml. A name that holds a
        path keeps its end and a hash of the whole.
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
        """Return the task that it was tuned by."""
        return datasets.parse(self.dataset).task.by(self.settings.metric)

    def score(self, part: str) -> float | None:
        """Return its score on the part "val" or "test"; None where it has none."""
        value = self.scores.get(f"{part}_{self.task.metric}")
        return float(value) if isinstance(value, int | float) else None

    @property
    def loss(self) -> float:
        """Return the validation score with its sign, so that less is better; infinite where there is none. Test scores choose
        nothing: what starts from the best would have seen them.
        """
        value = self.score("val")
        return math.inf if value is None or not math.isfinite(value) else -self.task.sign * value

    def spec(self, seed: int) -> TrialSpec:
        """Return the run of this configuration with a seed."""
        return canonical(self.algorithm, self.params, self.scenario, self.settings, seed)

    def refuse_changed(self, source: str) -> None:
        """Raise `UserError` where the code that it was tuned with has changed since."""
        plugins.refuse_changed(self.provenance.get("code", {}), source)

    def text(self) -> str:
        """Return the configuration's file: YAML below the command that runs it."""
        content = self.model_dump()
        content["settings"] = {k: v for k, v in content["settings"].items() if v is not None}
        return f"{SIGN} --seed 1\n{dump(content)}"


def parse(text: str, source: str) -> Tuned:
    """Read a tuned file or a hand-written configuration; raises `UserError` with every fault, `FormatError` for what
    another version wrote. No code that it names runs.
    """
    content = {"params": {}, "settings": {}, **parse_mapping(text, source)}
    if "format" in content or "provenance" in content:  # which nobody writes by hand
        check_format(f"configuration {source}", content.get("format"))
    faults = Faults(source)
    tuned = faults.validate(Tuned, content)
    if tuned is not None:
        check_run(faults, content, resolves=False)
    faults.check()
    assert tuned is not None
    return tuned


def read(path: Path) -> Tuned:
    """Read a tuned or hand-written file; raises as `parse`."""
    return parse(read_text(path, "configuration"), str(path))


def tuned_files(source: Path) -> list[Tuned]:
    """Read a tuned file, or all `*.yaml` below a folder; raises `UserError` for a bad one, or where there is none."""
    path, there = look(source, "configuration")
    paths = sorted(path.rglob("*.yaml")) if there == "folder" else [path]
    if not paths:
        raise UserError(f"there is no *.yaml below {source}")
    return list(map(read, paths))


def keep(configurations: Sequence[Tuned], folder: Path) -> list[Path]:
    """Write configurations below a folder, all or none, and return the files written. Of several for one entry, one in
    the folder included, the best by validation score is kept, of equal ones the later. Raise `UserError` for one that
    cannot be run here.
    """
    best: dict[Path, Tuned] = {}
    for item in configurations:
        item.refuse_changed(str(item.path))
        if not any(map(plugins.named, (item.algorithm, *item.scenario.code))):
            item.spec(0).configured()  # code of others does not run to be imported
        path = folder / item.path
        before = best.get(path) or (read(path) if path.exists() else None)
        # Of equal ones the later stays, as a person who imports again expects.
        if before is not None and before.loss < item.loss:
            say(f"{item.path}: the one that is there scores better on validation and stays")
        else:
            best[path] = item
    with writing(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A full disk shows while the copies are written; to move them takes no room.
        with TemporaryDirectory(prefix=".", dir=folder) as place:
            for number, item in enumerate(best.values()):
                Path(place, str(number)).write_text(item.text(), encoding="utf-8")
            for number, path in enumerate(best):
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                Path(place, str(number)).replace(path)
    return list(best)
