"""`suite reproduce --summary`: what counts, what is left and why, and the page and figure of it."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from reports.claims.judged import UNMEASURED, WORDS_ONLY, Judged, JudgedRow, Reproduction
from reports.claims.page import FIGURE
from reports.claims.verdicts import NOT_RUN
from suite.reproduction import experiments
from suite.reproduction.summary import summary
from tests.support import papers
from tests.support.commands import suite_here
from tests.support.papers import SMALL
from tests.support.simulations import ROOT

WIDE = SMALL.replace(
    """        numbers: {test_accuracy: {fedavg: 90, fedprox: "> 80"}}
    claims:
""",
    """        numbers: {test_accuracy: {fedavg: 90, fedprox: "> 80"}, accuracy_gap: {fedavg: 95}}
      again:
        dataset: digits
        model: logreg
        heterogeneity: iid
        same_as: one/iid
        numbers: {test_accuracy: {fedavg: 90, fedprox: 85}}
      other:
        dataset: digits
        model: logreg
        heterogeneity: iid
        same_as: one/iid
        chosen: {momentum: [0.5, another reading]}
        numbers: {test_accuracy: {fedavg: 90}}
      curve: {not_run: a curve without numbers, numbers: {test_accuracy: {fedavg: 9}}}
    claims:
      - {says: FedAvg looks smoother}
""",
)
RESULTS = ROOT / "docs" / "results"


def number(method: str, measured: float, verdict: str, seeds: int, printed: str = "90") -> Judged:
    facts: dict[str, Any] = {"metric": "test_accuracy", "published": printed}
    facts |= {"measured": measured, "reached_share": 1, "seeds": seeds}
    return Judged(method=method, verdict=verdict, **facts)


def written(path: Path, options: str, seeds: int, *numbers: Judged, row: str = "iid") -> None:
    """Write a document on a row."""
    said = {"alike": "reproduced", "FedAvg looks smoother": "not run"}
    chosen = {"method": None, "name": "momentum", "value": 0.5, "chosen_because": "a guess"}
    judged = JudgedRow(
        table="one",
        row=row,
        source="Table 1",
        about="small",
        dataset="digits",
        model="logreg",
        heterogeneity="iid",
        seeds=seeds,
        numbers=list(numbers),
        settings=[chosen, chosen | {"name": "lr_decay", "value": 1.0}],
        claims=[Judged(says=s, metric="test_accuracy", verdict=v) for s, v in said.items()],
    )
    command = f"suite reproduce toy/one/iid{options}"
    facts = {"paper": "Toy", "cites": "Toy 2020", "command": command, "made_with": []}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(Reproduction(**facts, rows=[judged]).model_dump(), indent=1))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Three documents on a paper of three rows, of which one is printed twice."""
    papers.only(monkeypatch, tmp_path / "spaces", WIDE)
    documents, bound = tmp_path / "documents", number("fedprox", 79.0, "direction only", 2, "> 80")
    fedavg = number("fedavg", 90.4, "reproduced", 3)
    written(documents / "anything.json", "", 3, fedavg)
    failed = number("fedavg", 50.0, "not under these settings", 2)
    written(documents / "few.json", " --seeds 2", 2, failed, bound)
    other = number("fedavg", 60.0, "not under these settings", 9)
    written(documents / "other.json", " --set momentum=0.5", 9, other)
    written(documents / "reading.json", "", 3, number("fedavg", 90.0, "reproduced", 3), row="other")
    yield documents
    experiments.read_paper.cache_clear()


def test_every_number_and_statement_is_accounted_for_and_the_declared_settings_count(folder):
    """Five numbers, one printed twice: two judged, one not measured, one not run, one never run. Four statements, of which
    one is judged. Another reading of a row is shown beside, and not counted.
    """
    (toy,) = summary(folder)
    numbers, statements = toy.counted.values()
    assert (len(numbers), len(statements)) == (5, 4)
    judged = [(n.judged.method, n.judged.measured, n.judged.seeds) for n in numbers if n.judged]
    assert judged == [("fedavg", 90.4, 3), ("fedprox", 79.0, 2)]
    assert [entry.says for entry in statements if entry.judged] == ["alike"]
    left = Counter(entry.why for entry in (*numbers, *statements) if not entry.judged)
    assert left == {UNMEASURED: 1, NOT_RUN: 1, "a curve without numbers": 3, WORDS_ONLY: 1}
    again = [entry for entry in toy.entries if entry.again]
    assert {(entry.row, entry.verdict) for entry in again} == {("other", "reproduced")}
    assert again[0].chosen == {"momentum": ["0.5"]}, "what has the suite's default is left out"
    assert toy.documents == ["anything.json", "few.json", "other.json", "reading.json"]


def test_the_shipped_results_are_all_counted_and_their_pages_are_up_to_date(tmp_path):
    suite_here("reproduce", "--summary", RESULTS, "--output", tmp_path, cwd=tmp_path)
    for name in ("summary", *experiments.paper_names()):
        assert (tmp_path / f"{name}.md").read_text() == (RESULTS / f"{name}.md").read_text()
    assert (tmp_path / FIGURE).read_text().startswith("<svg")
