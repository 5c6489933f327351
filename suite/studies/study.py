"""Studies as people write them in YAML. A study is checked as a whole, so that all its faults are shown at once."""

from collections.abc import Callable, Mapping
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo

from suite.studies.replicates import MOST, TUNING_SEEDS, Replicate, replicates
from suite.studies.samplers import find_sampler, full_name
from suite.studies.space import INTERVAL, Finite, RangeSpec
from suite.studies.validation import Faults, Written
from suite.yaml_files import parse_mapping, read_text
from trials import algorithms, datasets, heterogeneity, models
from trials.common.errors import unknown
from trials.common.files import look
from trials.heterogeneity.partitions import Natural
from trials.scoring.metrics import COUNTED
from trials.settings import Number, Positive, Settings, Whole

LISTS = ("algorithms", "datasets", "models", "heterogeneity")
"""The keys of a study that are lists. Commands take their items with commas."""


def _resolves(resolve: Callable[[str], Any]) -> AfterValidator:
    """Return a validator that calls `resolve` on a name, and returns the name unchanged. Errors of `resolve` reject the name."""

    def check(name: str) -> str:
        resolve(name)
        return name

    return AfterValidator(check)


def _searched(key: str, info: ValidationInfo) -> str:
    """Return `key` if it is a setting or a hyperparameter of the study's algorithms. Raise `UserError` otherwise."""
    keys = set(Settings.model_fields)
    # Absent if one of the names is unknown.
    for name in info.data.get("algorithms") or algorithms.known():
        ranges = algorithms.resolve(name).ranges()
        keys |= {*ranges, *(f"{name}.{hyperparameter}" for hyperparameter in ranges)}
    if key not in keys:
        raise unknown("hyperparameter or setting", key, keys)
    return key


AlgorithmName = Annotated[str, _resolves(algorithms.resolve)]
DataSetName = Annotated[str, _resolves(datasets.parse)]
ModelName = Annotated[str, _resolves(models.parse)]
LevelName = Annotated[str, _resolves(heterogeneity.parse)]
SamplerName = Annotated[str, AfterValidator(full_name), _resolves(find_sampler)]
Some = Field(min_length=1)
Factor = Annotated[Positive, Field(le=MOST, exclude_if=lambda levels: levels == 1)]
"""How many levels a factor has. Records leave out a factor that has only one."""
Above0 = Annotated[float, Number, Field(gt=0, allow_inf_nan=False)]
Margin = Annotated[Above0 | None, Field(exclude_if=lambda margin: margin is None)]


def _cost(name: str) -> None:
    if name not in COUNTED:
        raise unknown("cost", name, COUNTED)


class Bound(Written):
    """A constraint: the largest cost that a run may have."""

    max: Above0


class Confirm(Written):
    """The confirmation of a search: its `best` configurations run again with `seeds` further seeds, and the one with the
    best mean wins.
    """

    best: Annotated[Positive, Field(ge=2)] = 3
    seeds: Positive = 2


class Study(Written):
    """A study: algorithms, scenarios (data set, model, level), and how each algorithm is searched in each scenario.

    In each scenario an algorithm has `trials` search trials with run seed `seed`, and `seeds` final runs with run seeds
    `seed + 1, seed + 2, ...`. This is done in each of `tunings` x `partitions` x `splits` replicates, each with its own winner.
    `search` overrides ranges by keys such as `lr` (of all algorithms), `fedprox.mu` (of one) or `batch_size` (a setting).
    `target` is a test score, for "rounds to target". `margin` is the largest difference of scores that does not matter.
    `pack` is the most trials that one process computes together, which changes no result. docs/search.md has the details.
    """

    sampler: SamplerName = "tpe"
    scheduler: Literal["none", "asha"] = "none"
    grid_points: Positive = 5
    constraints: dict[Annotated[str, _resolves(_cost)], Bound] = {}
    confirm: Confirm | None = None
    warm_start: str | None = None
    target: Finite | None = None
    description: str = ""
    algorithms: Annotated[list[AlgorithmName], Some]
    datasets: Annotated[list[DataSetName], Some]
    models: Annotated[list[ModelName], Some]
    heterogeneity: Annotated[list[LevelName], Some]
    trials: Positive = 20
    seeds: Annotated[Positive, Field(lt=TUNING_SEEDS)] = 5
    seed: Whole = 0
    tunings: Factor = 1
    partitions: Factor = 1
    splits: Factor = 1
    margin: Margin = None
    retries: Whole = 2
    pack: Positive | Literal["auto"] = "auto"
    settings: Settings = Settings()
    # Last, since its keys are checked against the algorithms above.
    search: dict[Annotated[str, AfterValidator(_searched)], RangeSpec] = {}

    @property
    def replicates(self) -> list[Replicate]:
        """The replicates of each entry, one for each combination of split, partition and tuning."""
        return replicates(self.tunings, self.partitions, self.splits)


def study_names() -> dict[str, str]:
    """Return the shipped studies' descriptions by the studies' names."""
    folder = files("search_spaces").joinpath("studies")
    paths = {path.name: path for path in folder.iterdir() if path.name.endswith(".yaml")}
    return {
        name.removesuffix(".yaml"): parse_mapping(path.read_text(), name).get("description", "")
        for name, path in sorted(paths.items())
    }


def read_study(name_or_path: str, overrides: Mapping[str, Any]) -> tuple[str, Study]:
    """Return the name and content of a shipped study, or of the study in a YAML file. `overrides` replace values by key.

    Raise `UserError` if the study is unknown, or if it has faults, which the message lists.
    """
    path, _ = look(name_or_path, "study")
    if path.suffix in (".yaml", ".yml"):
        name, source, text = path.stem, str(path), read_text(path, "study")
    elif name_or_path in study_names():
        name, source = name_or_path, f"study {name_or_path}"
        text = files("search_spaces").joinpath("studies", f"{name}.yaml").read_text()
    else:
        raise unknown("study", name_or_path, study_names())
    return name, check_study(parse_mapping(text, source), overrides, source)


def check_study(content: Mapping[str, Any], overrides: Mapping[str, Any], source: str) -> Study:
    """Return the study with this content and these overrides. If overrides remove an algorithm, also remove its ranges. Raise
    one `UserError` that lists all faults of the study.
    """
    changed = override(content, overrides)
    names, ranges = content.get("algorithms"), changed.get("search")
    kept = changed.get("algorithms")
    if isinstance(names, list) and isinstance(kept, list) and isinstance(ranges, dict):
        left_out = tuple(f"{name}." for name in names if name not in kept)
        changed["search"] = {k: v for k, v in ranges.items() if not str(k).startswith(left_out)}
    faults = Faults(source)
    study = faults.validate(Study, changed)
    faults.check()
    assert study is not None
    return study


def override(content: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return a study's content with the values of `overrides`. A key may have a dot, as in `settings.rounds`. A new range
    keeps the old range's other keys, such as `log`. But choices replace an interval, and an interval replaces choices.
    """
    changed = dict(content)
    for key, value in overrides.items():
        outer, dot, inner = key.partition(".")
        within = changed.get(outer) or {}
        if not dot:
            changed[outer] = value
        elif isinstance(within, dict):  # else validation reports the fault later
            before = within.get(inner)
            if isinstance(before, dict) and isinstance(value, Mapping):
                gone = [*INTERVAL] if "choices" in value else []
                gone += ["choices"] if {*INTERVAL} & value.keys() else []
                value = {k: v for k, v in before.items() if k not in gone} | dict(value)
            changed[outer] = {**within, inner: value}
    return changed


def small(study: Study) -> dict[str, Any]:
    """Return overrides that shorten a study to seconds. The study then has few trials and rounds, and 4 clients that train in
    every round. With a level `natural`, the data set determines the number of clients, and the study's participation stays.
    """
    levels = map(heterogeneity.parse, study.heterogeneity)
    natural = any(isinstance(level.partition, Natural) for level in levels)
    clients = {"settings.clients": 4, "settings.participation": 1.0}
    few = {"trials": 3, "seeds": 2, "settings.rounds": 2, "settings.eval_every": 1}
    return few | ({"settings.clients": None} if natural else clients)
