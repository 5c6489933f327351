"""Tuned configurations: the YAML files that are a sweep's harvest."""

import math
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated, Any

from pydantic import ValidationError, WrapValidator

from suite.formats import FORMAT, check_format
from suite.studies.validation import Faults, Written, check_run
from suite.yaml_files import dump, parse_mapping, read_text, writable, write_whole, writing
from trials import datasets
from trials.common import plugins
from trials.common.errors import UserError
from trials.common.files import look, plain
from trials.run.spec import Scenario, TrialSpec, canonical
from trials.scoring.metrics import Task
from trials.settings import Number, Settings

SIGN = "# suite run THIS_FILE"
"""How the suite knows a file again that it wrote."""
Score = Annotated[float, Number] | None


def _score(value: Any, validate: Callable[[Any], Any]) -> Any:
    try:
        return validate(value)
    except ValidationError:
        raise ValueError("is no score that the suite writes") from None


Scores = Annotated[Score | list[Score] | dict[int, Score], WrapValidator(_score)]


class Tuned(Written):
    """The best configuration of an entry, what it scored, and how it was found."""

    format: int = FORMAT
    algorithm: str
    dataset: str
    model: str
    heterogeneity: str
    params: dict[str, Any]
    settings: Settings
    scores: dict[str, Scores] = {}
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

    @property
    def path(self) -> Path:
        """Where it lies below a folder of tuned files: dataset/heterogeneity/model/algorithm.yaml."""
        return file_path(self.algorithm, self.scenario)

    @property
    def task(self) -> Task:
        """What it was tuned by."""
        return datasets.parse(self.dataset).task.by(self.settings.metric)

    def score(self, part: str) -> float | None:
        """Return its score on the part "val" or "test"; None where it has none."""
        value = self.scores.get(f"{part}_{self.task.metric}")
        return value if isinstance(value, float) else None

    @property
    def loss(self) -> float:
        """The validation score with its sign, so that less is better; infinite where there is none. Test
        scores choose nothing: what starts from the best would have seen them.
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


def relative_path(algorithm: str, scenario: Scenario) -> Path:
    """Return dataset/heterogeneity/model/algorithm, each as one part of a path."""
    return Path(*map(_safe, (scenario.dataset, scenario.heterogeneity, scenario.model, algorithm)))


def file_path(algorithm: str, scenario: Scenario) -> Path:
    """Return the same of a tuned file."""
    path = relative_path(algorithm, scenario)
    return path.with_name(f"{path.name}.yaml")


def _safe(name: str) -> str:
    """Return a name as one part of a path; one that holds a path keeps its end and a hash of the whole."""
    if "/" not in name:
        return name.lstrip(".") or "_"
    end = re.sub(r"[^A-Za-z0-9_-]", "_", name.rpartition("/")[2])
    return f"{end}-{zlib.crc32(name.encode()):08x}"


def parse(text: str, source: str) -> Tuned:
    """Read a tuned file or a hand-written configuration; raises `UserError` with every fault, `FormatError`
    for what another version wrote. Code of others that it names does not run.
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


def files_at(source: Path) -> list[Path]:
    """Return a tuned file, or all `*.yaml` below a folder; raises `UserError` where there is none."""
    path, there = look(source, "configuration")
    if there != "folder":
        return [plain(path, "configuration")]
    paths = sorted(path.rglob("*.yaml"))
    if not paths:
        raise UserError(f"there is no *.yaml below {source}")
    return paths


def read_all(source: Path) -> list[Tuned]:
    """Read a tuned file or all below a folder, which can be run here. Raises one `UserError` that names every bad file."""
    paths = files_at(source)
    configurations, faults = [], []
    for path in paths:
        try:
            configurations.append(read(path))
            _refuse_unrunnable(configurations[-1], str(path))
        except UserError as error:
            faults.append(str(error))
    if faults:
        count = f"{len(faults)} of {len(paths)} files cannot be imported; nothing was"
        raise UserError("\n".join([count, *faults]))
    return configurations


def _refuse_unrunnable(tuned: Tuned, source: str) -> None:
    """Raise `UserError` for a configuration that cannot be run here, which names its file."""
    tuned.refuse_changed(source)
    code = list(filter(plugins.named, (tuned.algorithm, *tuned.scenario.code)))
    try:
        if code:
            plugins.hashes(*code)  # it is there; to know more it would have to run
        else:
            tuned.spec(0).configured()
    except UserError as error:
        raise UserError(f"{source}: {error}") from None


def keep(configurations: Sequence[Tuned], folder: Path) -> tuple[list[Path], list[str]]:
    """Write configurations below a folder, all or none: of several for one entry the best by validation score (a later
    one where there are none). Return the files written, and what was skipped.
    """
    best: dict[Path, Tuned] = {}
    skipped = []
    for item in configurations:
        path = folder / item.path
        there = best.get(path) or (read(path) if os.path.exists(path) else None)
        if there is not None and there.loss < item.loss:
            better = "the one that is there scores better on validation and stays"
            skipped.append(f"{item.path}: {better}")
        else:
            best[path] = item
    with writable(folder):
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with ExitStack() as undo:
        for path, item in best.items():
            former = path.read_bytes() if path.exists() else None
            undo.callback(_put_back, path, former, folder)
            with writing(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(path, item.text())
        undo.pop_all()
    return list(best), skipped


def _put_back(path: Path, former: bytes | None, folder: Path) -> None:
    if former is None:
        path.unlink(missing_ok=True)
        with suppress(OSError):  # a folder that is not empty
            for parent in path.relative_to(folder).parents:
                (folder / parent).rmdir()
    elif path.read_bytes() != former:
        path.write_bytes(former)


def differences(a: Tuned, b: Tuned) -> dict[str, tuple[Any, Any]]:
    """Return by key, such as `params.lr`, the values that two configurations do not share; None where one has none. Where
    they come from (`provenance`) is left out.
    """
    plain = (item.model_dump(mode="json", exclude={"provenance", "format"}) for item in (a, b))
    first, second = (dict(_flat(content)) for content in plain)
    keys = [key for key in first | second if first.get(key) != second.get(key)]
    return {key: (first.get(key), second.get(key)) for key in keys}


def _flat(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in content.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
