"""`suite reproduce --summary`: what counts, what is left and why, and the page and figure of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from reports.claims.judged import UNMEASURED, WORDS_ONLY, Claim, JudgedRow, Number, Reproduction
from reports.claims.page import FIGURE
from suite.reproduction import experiments
from suite.reproduction.summary import read_documents, summary
from tests.support import papers
from tests.support.commands import suite_here
from tests.support.papers import SMALL
from tests.support.simulations import ROOT

WIDE = SMALL.replace(
    """        numbers: {test_accuracy: {fedavg: 90, fedprox: "> 80"}}
    claims:
""",
    """        numbers: {test_accuracy: {fedavg: 90, fedprox: "> 80"}, train_accuracy: {fedavg: 95}}
      again:
        dataset: digits
        model: logreg
        heterogeneity: iid
        same_as: one/iid
        numbers: {test_accuracy: {fedavg: 90, fedprox: 85}}
      curve: {not_run: a curve without numbers, numbers: {test_accuracy: {fedavg: 9}}}
    claims:
      - {says: FedAvg looks smoother}
""",
)
RESULTS = ROOT / "docs" / "results"


def number(method: str, measured: float, verdict: str, seeds: int, printed: str = "90") -> Number:
    facts: dict[str, Any] = {"metric": "test_accuracy", "unit": "%", "published": printed}
    facts |= {"measured": measured, "reached_share": 1, "seeds": seeds}
    return Number(method=method, verdict=verdict, **facts)


def written(path: Path, options: str, seeds: int, *numbers: Number) -> None:
    """Write a document on the row `iid`."""
    said = {"alike": "reproduced", "FedAvg looks smoother": "not run"}
    row = JudgedRow(
        table="one",
        row="iid",
        source="Table 1",
        about="small",
        dataset="digits",
        model="logreg",
        heterogeneity="iid",
        seeds=seeds,
        numbers=list(numbers),
        claims=[Claim(says=s, metric="test_accuracy", verdict=v) for s, v in said.items()],
    )
    command = f"suite reproduce toy/one/iid{options}"
    facts = {"paper": "Toy", "cites": "Toy 2020", "command": command, "made_with": []}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(Reproduction(**facts, rows=[row]).model_dump(), indent=1))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Three documents on a paper of three rows, of which one is printed twice."""
    papers.only(monkeypatch, tmp_path / "spaces", WIDE)
    documents, bound = tmp_path / "documents", number("fedprox", 79.0, "direction only", 2, "> 80")
    fedavg = number("fedavg", 90.4, "reproduced", 3)
    written(documents / "anything.json", "", 3, fedavg)
    failed = number("fedavg", 50.0, "not reproduced", 2)
    written(documents / "few.json", " --seeds 2", 2, failed, bound)
    other = number("fedavg", 60.0, "not reproduced", 9)
    written(documents / "other.json", " --set momentum=0.5", 9, other)
    yield documents
    experiments.read_paper.cache_clear()


def test_every_number_and_statement_is_accounted_for_and_the_declared_settings_count(folder):
    """Five numbers, one printed twice: two judged, one not measured, one not run, one never run. Four statements, of which
    one is judged.
    """
    (toy,) = summary(folder)
    assert toy.printed == {"numbers": 5, "statements": 4}
    assert [(n.method, n.measured, n.seeds) for *_, n in toy.numbers] == [
        ("fedavg", 90.4, 3),
        ("fedprox", 79.0, 2),
    ]
    assert [claim.says for *_, claim in toy.claims] == ["alike"]
    assert set(toy.left) == {
        ("one", UNMEASURED, 1),
        ("one", "not run", 1),
        ("one", "a curve without numbers", 3),
        ("one", WORDS_ONLY, 1),
    }
    assert toy.documents == ["anything.json", "few.json", "other.json"]


def test_the_shipped_results_are_all_counted_and_their_pages_are_up_to_date(tmp_path):
    shipped = summary(RESULTS)
    for paper in shipped:
        judged = len(paper.numbers) + len(paper.claims)
        assert judged + sum(count for *_, count in paper.left) == sum(paper.printed.values())
    text = " ".join((RESULTS / "README.md").read_text().split())
    for kind, part in (("numbers", "numbers"), ("statements", "claims")):
        printed = sum(paper.printed[kind] for paper in shipped)
        judged = sum(len(getattr(paper, part)) for paper in shipped)
        assert f"of {printed} printed {kind} {judged} have a verdict" in text
    assert min(number.seeds for paper in shipped for *_, number in paper.numbers) == 3
    assert "every verdict rests on three seeds or more" in text
    suite_here("reproduce", "--summary", RESULTS, "--output", tmp_path, cwd=tmp_path)
    assert (tmp_path / "summary.md").read_text() == (RESULTS / "summary.md").read_text()
    assert (tmp_path / FIGURE).read_text().startswith("<svg")
    for name in read_documents(RESULTS):
        assert (tmp_path / name).with_suffix(".md").read_text()
