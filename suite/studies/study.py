"""Studies: YAML in, entries out; every fault found is shown at once."""

from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from suite.studies.replicates import MOST, TUNING_SEEDS, Replicate, replicates
from suite.studies.search_settings import SearchSettings
from suite.studies.space import RangeSpec, both_forms, replaced
from suite.studies.validation import Faults, check_names
from suite.yaml_files import parse_mapping, read_text
from trials import heterogeneity
from trials.common.errors import UserError, unknown
from trials.heterogeneity.partitions import Natural
from trials.settings import Number, Positive, Settings, Whole

Factor = Annotated[Positive, Field(le=MOST, exclude_if=lambda levels: levels == 1)]
"""How many levels a factor has; one that has a single level is no part of what is recorded."""
Margin = Annotated[
    Annotated[float, Number, Field(gt=0, allow_inf_nan=False)] | None,
    Field(exclude_if=lambda margin: margin is None),
]
Names = Annotated[list[str], Field(min_length=1)]
LISTS = ("algorithms", "datasets", "models", "heterogeneity")
"""What a study has lists of, and a command takes between commas."""
OPTIONS = (*LISTS, "trials", "seeds")
"""The keys that are options of `suite sweep` too; all others are given by `--set`."""


class Study(SearchSettings):
    """What a study file says. Budgets (`trials`, `seeds`) are per entry.

    `search` overrides ranges: `lr` for every algorithm, `batch_size` moves a shared setting into the
    search of all, `fedprox.mu` is one algorithm's. Search runs use run seed `seed`; final runs
    `seed + 1, seed + 2, ...`. An entry is searched anew, with a winner and final runs of its own, in each
    of `tunings` x `partitions` x `splits` replicates (`suite.studies.replicates`). A trial that dies is started again from its checkpoint; when it has died
    once and `retries` times more without getting any further, it has failed. `target` is a test score for "rounds to target",
    `margin` the largest difference of scores that does not matter.
    `save` keeps the final models of each entry's best final run.
    `pack` is how many trials are computed together in one process at most, which changes no result.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    description: str = ""
    algorithms: Names
    datasets: Names
    models: Names
    heterogeneity: Names
    trials: Positive = 20
    seeds: Positive = 5
    seed: Whole = 0
    vary_partition: bool = False
    tunings: Factor = 1
    partitions: Factor = 1
    splits: Factor = 1
    margin: Margin = None
    retries: Whole = 2
    pack: Positive | Literal["auto"] = "auto"
    save: Literal["none", "best"] = "none"
    settings: Settings = Settings()
    search: dict[str, RangeSpec] = {}

    @property
    def replicates(self) -> list[Replicate]:
        """The replicates of every entry."""
        return replicates(self.tunings, self.partitions, self.splits)

    def contradictions(self) -> Iterator[tuple[str, Any, str]]:
        """Settings that do not go together: key, value, rule."""
        yield from super().contradictions()
        if len(self.replicates) > 1 and self.seeds >= TUNING_SEEDS:
            yield "seeds", self.seeds, f"must be below {TUNING_SEEDS} where there are replicates"
        if self.partitions > 1 and self.vary_partition:
            yield (
                "vary_partition",
                True,
                "partitions every final run anew, which `partitions` does for a search",
            )
        further = {
            "partition_seed": self.partitions - 1 + self.seeds * self.vary_partition,
            "data_seed": self.splits - 1,
        }
        for key, count in further.items():
            if (seed := getattr(self.settings, key)) + count >= 2**32:
                rule = f"must be below 2^32 - {count}: it and the {count} after it are used"
                yield f"settings.{key}", seed, rule


def complete(study: Study) -> dict[str, Any]:
    """A study as plain data with every field, those that a record leaves out among them."""
    return {name: getattr(study, name) for name in type(study).model_fields} | study.model_dump(
        mode="json"
    )


def study_names() -> dict[str, str]:
    """The shipped studies and their descriptions."""
    found = {}
    for path in files("search_spaces").joinpath("studies").iterdir():
        if path.name.endswith(".yaml"):
            content = parse_mapping(path.read_text(), path.name)
            found[path.name.removesuffix(".yaml")] = content.get("description", "")
    return dict(sorted(found.items()))


def read_study(name_or_path: str, overrides: Mapping[str, Any]) -> tuple[str, Study]:
    """The name and content of a study; `overrides` are dotted keys from the command line.

    Raises `UserError` with every fault of the file's form.
    """
    path = Path(name_or_path).expanduser()
    if path.suffix in (".yaml", ".yml"):
        name, text = path.stem, read_text(path, "study")
    else:
        if name_or_path not in study_names():
            if path.is_dir():
                rule = "a study is the name of a shipped one, or a .yaml file"
                raise UserError(f"cannot read study {name_or_path}: it is a folder; {rule}")
            raise unknown("study", name_or_path, study_names())
        name = name_or_path
        text = files("search_spaces").joinpath("studies", f"{name}.yaml").read_text()
    source = str(path) if path.suffix else f"study {name}"
    return name, check_study(parse_mapping(text, source), overrides, source)


def check_study(content: Mapping[str, Any], overrides: Mapping[str, Any], source: str) -> Study:
    """A study from its content; raises `UserError` with every fault of its form. Ranges of the study's own
    algorithms that `overrides` leave out go with them.
    """
    before, content = content, override(content, overrides)
    search = content.get("search")
    if isinstance(search, dict) and "algorithms" in overrides:
        gone = _names(before.get("algorithms")) - _names(overrides["algorithms"])
        content["search"] = {
            key: value for key, value in search.items() if str(key).rpartition(".")[0] not in gone
        }
    faults = Faults(source)
    faults.validate(Study, content)
    check_names(faults, content)
    search = content.get("search")
    for key, spec in search.items() if isinstance(search, dict) else []:
        if both_forms(spec):
            faults.add(f"search.{key}", spec, "must have choices, or low and high: not both")
    faults.check()
    return Study.model_validate(content)


def _names(listed: Any) -> set[str]:
    return set(map(str, listed)) if isinstance(listed, list) else set()


def override(content: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """A study's content with keys replaced; `settings.rounds` is a key inside another. Of a range that is
    given there, what is not replaced stays; choices replace an interval, and an interval choices.
    """
    changed = dict(content)
    for key, value in overrides.items():
        outer, dot, inner = key.partition(".")
        within = changed.get(outer) or {}
        if not dot:
            changed[outer] = value
        elif isinstance(within, dict):
            known = within.get(inner)
            if isinstance(known, dict) and isinstance(value, Mapping):
                gone = replaced(value)
                value = {**{k: v for k, v in known.items() if k not in gone}, **value}
            changed[outer] = {**within, inner: value}
    return changed


def small(study: Study) -> dict[str, Any]:
    """Overrides that make a study a matter of seconds: 4 clients, all in every round. Under `natural`
    the data say how many clients there are, and the study's participation stays.
    """
    few = {"trials": 3, "seeds": 2, "settings.rounds": 2, "settings.eval_every": 1}
    levels = [heterogeneity.parse(level) for level in study.heterogeneity]
    if any(isinstance(level.partition, Natural) for level in levels):
        return {**few, "settings.clients": None}
    return {**few, "settings.clients": 4, "settings.participation": 1.0}
