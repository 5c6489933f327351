"""What the docs say of the tree and the registries is so, and nothing that people rely on is missing."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from suite.studies.study import Study
from tests.support.contract import FIELDS
from tests.support.simulations import ROOT
from trials.heterogeneity import MODIFIERS, PARTITIONS
from trials.models import MODELS

README, REFERENCE = ROOT / "README.md", ROOT / "docs" / "reference.md"
PICTURE = (ROOT / "docs" / "architecture.md").read_text().split("```")[1]
HAND_WRITTEN = [
    README,
    ROOT / "CONTRIBUTING.md",
    ROOT / "benchmarks" / "README.md",
    ROOT / "docs" / "results" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
HOUSES = "suite|reports|trials|tests|search_spaces|examples|deploy|benchmarks|docs"

each = pytest.mark.parametrize(
    "page", HAND_WRITTEN, ids=lambda page: page.relative_to(ROOT).as_posix()
)


def sections(text: str) -> dict[str, str]:
    """Text by the heading (of the second level) that it stands under."""
    return dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", text, re.MULTILINE))


def defaults(page: Path) -> set[str]:
    """Fragments of a page, as GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def paths(page: Path) -> set[str]:
    """What a page names in backticks that reads like a path of the tree."""
    return set(re.findall(rf"`((?:{HOUSES})/[\w./-]*)`", page.read_text()))


def test_the_readme_is_for_a_newcomer():
    text = README.read_text()
    assert len(text.split()) <= 700
    for needed in ("make sweep", "make test", "docs/results/edition3.svg", "suite sweep mine.yaml"):
        assert needed in text
    index = (ROOT / "docs" / "index.md").read_text()
    linked = {*re.findall(r"\]\(docs/([\w-]+\.md)", text), *re.findall(r"\]\(([\w-]+\.md)", index)}
    assert linked == {page.name for page in (ROOT / "docs").glob("*.md")}


@each
def test_paths_exist(page: Path):
    assert [path for path in sorted(paths(page)) if not (ROOT / path).exists()] == []


@each
def test_links_lead_somewhere(page: Path):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        name, _, fragment = target.partition("#")
        other = (page.parent / name).resolve() if name else page
        assert other.exists(), target
        if fragment:
            assert fragment in defaults(other), target


def test_the_picture_of_the_layers_is_that_of_the_contracts():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = next(c["layers"] for c in contracts["contracts"] if c.get("containers") == ["suite"])
    rows = re.findall(r"^  ((?:\w+, )*\w+)  ", PICTURE.partition("reports/")[0], re.MULTILINE)
    assert [row.split(", ") for row in rows] == [layer.split(" | ") for layer in layers]


def test_the_architecture_names_every_room():
    for house in ("suite", "reports", "trials"):
        rooms = {path.parent.name for path in (ROOT / house).glob("*/__init__.py")}
        assert rooms <= set(re.findall(r"\w+", PICTURE))


def test_the_readme_s_own_study_stops_no_trial_and_searches_rates_as_the_quickstart_does():
    """Early stopping makes results depend on timing; a narrower range had its winner at an end."""
    (text,) = re.findall(r"```yaml\n(# mine.yaml.+?)```", README.read_text(), re.DOTALL)
    own = Study.model_validate(yaml.safe_load(text))
    quick = yaml.safe_load((ROOT / "search_spaces" / "studies" / "quickstart.yaml").read_text())
    assert own.scheduler == "none"
    assert yaml.safe_load(text)["search"]["lr"] == quick["search"]["lr"]


@pytest.mark.parametrize(
    ("section", "names"),
    [
        ("Models", MODELS),
        ("Heterogeneity", {**PARTITIONS, **MODIFIERS}),
        ("Studies", Study.model_fields),
        ("JSON", FIELDS),
        ("Exit codes", ("0", "1", "2", "3", "130")),
    ],
)
def test_the_reference_names_everything(section, names):
    text = sections(REFERENCE.read_text())[section]
    free = {"description"}
    assert [n for n in names if n not in free and not re.search(rf"(?<!\w){n}(?!\w)", text)] == []
