"""Studies as people write them, in YAML; every fault found is shown at once."""

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
"""The keys of a study that are lists; commands take them with commas."""


def _resolves(resolve: Callable[[str], Any]) -> AfterValidator:
    """Return the check of a name; the name stays as it is written."""

    def check(name: str) -> str:
        resolve(name)
        return name

    return AfterValidator(check)


def _searched(key: str, info: ValidationInfo) -> str:
    """Return the key of a range; raises `UserError` where nothing of the study has that name."""
    keys = set(Settings.model_fields)
    # There are none where one of them is unknown itself.
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
"""How many levels a factor has; one that has a single level is no part of what is recorded."""
Above0 = Annotated[float, Number, Field(gt=0, allow_inf_nan=False)]
Margin = Annotated[Above0 | None, Field(exclude_if=lambda margin: margin is None)]


def _cost(name: str) -> None:
    if name not in COUNTED:
        raise unknown("cost", name, COUNTED)


class Bound(Written):
    """The most that a run may spend."""

    max: Above0


class Confirm(Written):
    """The `best` configurations of a search run again with `seeds` further search seeds; the one with
    the best mean is chosen.
    """

    best: Annotated[Positive, Field(ge=2)] = 3
    seeds: Positive = 2


class Study(Written):
    """What a study file says. Budgets (`trials`, `seeds`) are per entry; docs/search.md has the details.

    `search` overrides ranges: `lr` for every algorithm, `batch_size` moves a shared setting into the
    search of all, `fedprox.mu` is one algorithm's. Search runs use run seed `seed`; final runs
    `seed + 1, seed + 2, ...`. An entry is searched anew, with a winner and final runs of its own, in each
    of `tunings` x `partitions` x `splits` replicates (`suite.studies.replicates`). `target` is a score of tests, for
    "rounds to target". `margin` is the largest difference of scores that does not
    matter. `pack` is how many trials are computed together in one process at most, which changes no result.
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
    # Last, since its keys are checked by the algorithms above.
    search: dict[Annotated[str, AfterValidator(_searched)], RangeSpec] = {}

    @property
    def replicates(self) -> list[Replicate]:
        """The replicates of every entry."""
        return replicates(self.tunings, self.partitions, self.splits)


def study_names() -> dict[str, str]:
    """Return the shipped studies and their descriptions."""
    folder = files("search_spaces").joinpath("studies")
    paths = {path.name: path for path in folder.iterdir() if path.name.endswith(".yaml")}
    return {
        name.removesuffix(".yaml"): parse_mapping(path.read_text(), name).get("description", "")
        for name, path in sorted(paths.items())
    }


def read_study(name_or_path: str, overrides: Mapping[str, Any]) -> tuple[str, Study]:
    """Return the name and content of a study; `overrides` are dotted keys from the command line.

    Raises `UserError` with every fault of the file's form.
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
    """Return a study from its content; raises `UserError` with every fault of its form. Ranges of algorithms that
    `overrides` remove are removed, too.
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
    """Return a study's content with keys replaced; `settings.rounds` is a key inside another. A range is written over
    the one that is there: choices take the place of an interval, and an interval that of choices.
    """
    changed = dict(content)
    for key, value in overrides.items():
        outer, dot, inner = key.partition(".")
        within = changed.get(outer) or {}
        if not dot:
            changed[outer] = value
        elif isinstance(within, dict):  # else it is a fault of the study, said later
            before = within.get(inner)
            if isinstance(before, dict) and isinstance(value, Mapping):
                gone = [*INTERVAL] if "choices" in value else []
                gone += ["choices"] if {*INTERVAL} & value.keys() else []
                value = {k: v for k, v in before.items() if k not in gone} | dict(value)
            changed[outer] = {**within, inner: value}
    return changed


def small(study: Study) -> dict[str, Any]:
    """Return overrides that make a study a matter of seconds: 4 clients, all in every round. Under `natural`
    the data say how many clients there are, and the study's participation stays.
    """
    levels = map(heterogeneity.parse, study.heterogeneity)
    natural = any(isinstance(level.partition, Natural) for level in levels)
    clients = {"settings.clients": 4, "settings.participation": 1.0}
    few = {"trials": 3, "seeds": 2, "settings.rounds": 2, "settings.eval_every": 1}
    return few | ({"settings.clients": None} if natural else clients)
