"""`suite reproduce --summary`: what counts, what is left and why, and the page and figure of it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from reports.charts.drawing import svg
from reports.charts.published_chart import published
from reports.claims.summary_page import counts, drawn, summary_page
from suite.reproduction import costs, documents, experiments, summary
from tests.support import papers
from tests.support.commands import suite_here
from tests.support.papers import SMALL
from tests.support.simulations import ROOT

WIDE = SMALL.replace(
    """        numbers: {test_accuracy: {fedavg: 90, fedprox: "> 80"}}
    claims:
""",
    """        numbers: {test_accuracy: {fedavg: 90, fedprox: "> 80"}, train_accuracy: {fedavg: 95}}
      slow:
        dataset: digits
        model: logreg
        heterogeneity: iid
        settings: {rounds: 1000}
        numbers: {"rounds_to(90)": {fedavg: 7}}
      absent: {dataset: mnist, model: logreg, heterogeneity: iid, numbers: {test_accuracy: {fedavg: 9}}}
      curve: {not_run: a curve without numbers, numbers: {test_accuracy: {fedavg: 9}}}
    claims:
      - {says: FedAvg looks smoother}
""",
).replace(
    "data: {digits",
    "data: {mnist: {samples: 60000, test: 10000, shape: [1, 28, 28], classes: 10}, digits",
)


ROW = {
    "table": "one", "row": "iid", "source": "Table 1", "about": "small", "dataset": "digits",
    "model": "logreg", "heterogeneity": "iid", "note": "",
}  # fmt: skip
FACTS = {"paper": "Toy", "cites": "Toy 2020", "protocol": "the paper's", "rules": []}
JUDGED = {"ci_low": None, "ci_high": None, "reason": ""}


def number(method: str, measured: float, verdict: str, seeds: int, **more: Any) -> dict[str, Any]:
    """A judged number of a document."""
    facts = {"method": method, "metric": "test_accuracy", "unit": "%", "published": "90"}
    facts |= {"measured": measured, "reached_share": 1, "seeds": seeds, "verdict": verdict}
    return {**JUDGED, "difference": measured - 90, **facts, **more}


def written(options: str, seeds: int, *numbers: dict[str, Any]) -> dict[str, Any]:
    """A document on the row `iid`."""
    said = {"alike": "reproduced", "FedAvg looks smoother": "not run"}
    about = {**JUDGED, "metric": "test_accuracy", "measured": None}
    claims = [{**about, "says": says, "verdict": verdict} for says, verdict in said.items()]
    row = {**ROW, "seeds": seeds, "reduced": [], "numbers": list(numbers)}
    command = f"suite reproduce toy/one/iid{options}"
    facts = {**FACTS, "command": command, "made_with": [], "verdicts": {"reproduced": 1}}
    return {**facts, "rows": [{**row, "claims": claims}]}


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The summary of three documents on a paper of four rows, of which one is slow and one has no data."""
    papers.only(monkeypatch, tmp_path / "spaces", WIDE)
    monkeypatch.setattr(costs.Costs, "minutes", lambda self, paper, made, runs, rounds: rounds / 10)
    folder = tmp_path / "documents"
    folder.mkdir()
    bound = number("fedprox", 79.0, "direction only", 2, published="> 80")
    documents = {
        "anything": written("", 3, number("fedavg", 90.4, "reproduced", 3)),
        "few": written(" --seeds 2", 2, number("fedavg", 50.0, "not reproduced", 2), bound),
        "other": written(" --set momentum=0.5", 9, number("fedavg", 60.0, "not reproduced", 9)),
    }
    for name, document in documents.items():
        (folder / f"{name}.json").write_text(json.dumps(document))
    yield summary.document(summary.summary(folder, tmp_path, str(tmp_path / "no data")))
    experiments.read_paper.cache_clear()


def test_every_number_and_statement_is_accounted_for(found):
    """Six numbers: two judged, one not measured, one slow, one without data, one never run. Of eight
    statements one is judged, and one more of its row is not in numbers.
    """
    (toy,) = found["papers"]
    assert (toy["numbers"], toy["feasible"], toy["judged"], toy["few_seeds"]) == (6, 2, 2, 1)
    assert toy["verdicts"] == {"reproduced": 1, "direction only": 1}
    assert toy["statements"] == {
        "printed": 8, "feasible": 1, "judged": 1, "few_seeds": 0,
        "verdicts": {"reproduced": 1},
    }  # fmt: skip
    left = {one["reason"]: one for one in toy["left"]}
    shown = {
        why: (one["rows"], one["numbers"], one["statements"], one["minutes"])
        for why, one in left.items()
    }
    assert shown == {
        "the suite does not measure it": (["iid"], 1, 0, 0.5),
        "takes more than an hour": (["slow"], 1, 2, 100.0),
        "no data: mnist": (["absent"], 1, 2, 0.5),
        "a curve without numbers": (["curve"], 1, 2, None),
        "not put into numbers": (["iid"], 0, 1, 0.5),
    }
    assert found["total"]["numbers"] == 6


def test_the_declared_settings_with_most_seeds_count(found):
    (toy,) = found["papers"]
    assert {d["method"]: (d["measured"], d["seeds"]) for d in toy["dots"]} == {
        "fedavg": (90.4, 3),
        "fedprox": (79.0, 2),
    }
    (claim,) = toy["claims"]
    assert (claim["says"], claim["seeds"]) == ("alike", 3)


def test_the_page_and_its_figure_show_the_same_numbers(found):
    text = summary_page(found)
    assert "| Toy | 2 | 2 | 6 | 1 | 1 | 8 | 1 direction only, 1 reproduced | 1 reproduced |" in text
    assert "1 of these verdicts rest on fewer than 3 seeds." in text
    assert "| [one/iid](anything.json) | `suite reproduce toy/one/iid` | 3 | 1 reproduced |" in text
    assert "| takes more than an hour | one, slow | 1 | 2 | 100 min |" in text
    assert "| Toy | one/iid | fedprox | test_accuracy | > 80 % | 79 | 2 | direction only |" in text
    (plot,) = published(drawn(found))["concat"]
    points = plot["layer"][1]["data"]["values"]
    assert [(p["x"], p["y"], p["verdict"]) for p in points] == [
        (90, 90.4, "reproduced"),
        (80, 79, "direction only"),
    ]


def test_the_figure_has_a_plot_for_each_paper_and_unit():
    def dot(value: float, measured: float, unit: str) -> dict[str, Any]:
        facts = {"table": "t", "row": "r", "method": "m", "metric": "x", "verdict": "reproduced"}
        return {**facts, "value": value, "measured": measured, "unit": unit}

    spec = published([("A", dot(90, 91, "%")), ("A", dot(3, 300, "rounds")), ("B", dot(5, 5, "%"))])
    plots = {plot["title"]: plot["layer"][1]["encoding"]["x"]["scale"] for plot in spec["concat"]}
    assert {title: scale["type"] for title, scale in plots.items()} == {
        "A, %": "linear", "A, rounds": "log", "B, %": "linear",
    }  # fmt: skip
    assert plots["A, rounds"]["domain"] == pytest.approx([2.5, 360])
    text = svg(spec)
    assert text.count('aria-roledescription="point"') == 3
    assert svg(spec) == text


RESULTS = ROOT / "docs" / "results"


def test_the_shipped_results_are_all_counted_and_their_page_is_up_to_date(tmp_path, monkeypatch):
    """But for what hangs on the machine that counted: what is feasible, and what it would cost."""
    monkeypatch.setattr(costs.Costs, "minutes", lambda *args: 1.0)
    found = summary.document(summary.summary(RESULTS, tmp_path, str(tmp_path)))
    for one in found["papers"]:
        for kind, judged in (
            ("numbers", one["judged"]),
            ("statements", one["statements"]["judged"]),
        ):
            total = one["numbers"] if kind == "numbers" else one["statements"]["printed"]
            assert judged + sum(left[kind] for left in one["left"]) == total
    page, readme = ((RESULTS / name).read_text() for name in ("summary.md", "README.md"))
    assert _sure(counts(found)) == _sure(page.split("![")[0]) == _sure(readme.split("![")[0])
    said = summary_page(found)
    assert said.split("## All numbers")[1] == page.split("## All numbers")[1]


def _sure(text: str) -> list[list[str]]:
    """The lines of the first table that begins with papers, without what is feasible."""
    lines = [line.split(" | ") for line in re.findall(r"^\| (.+) \|$", text, re.MULTILINE)]
    kept = [line for line in lines if len(line) == 9]
    return [line[:2] + line[3:5] + line[6:] for line in kept]


def test_a_folder_without_documents(tmp_path: Path):
    done = suite_here("reproduce", "--summary", tmp_path, cwd=tmp_path, code=2)
    assert done.stderr == f"error: {tmp_path}: it has no documents of suite reproduce --output\n"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"paper": ["FOLB"]}, "paper = ['FOLB']: must be a valid string"),
        ({"rows": 7}, "rows = 7: must be a valid list"),
        ({"measured": "much"}, "rows.0.numbers.0.measured = 'much': must be a valid number, unable to parse string as a number"),
        ({"verdicts": {"holds": "x"}}, "verdicts.holds = 'x': must be a valid integer, unable to parse string as an integer"),
    ],
)  # fmt: skip
def test_a_damaged_document_is_said_and_passed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any], says: str
):
    sound = json.loads((RESULTS / "folb-table1-mnist.json").read_text())
    damaged = json.loads(json.dumps(sound))
    row = damaged["rows"][0]
    for part in (damaged, row, row["numbers"][0]):
        part |= {key: value for key, value in changes.items() if key in part}
    for number, content in enumerate([damaged, {"an": "other"}, [1], sound]):
        (tmp_path / f"{number}.json").write_text(json.dumps(content))
    assert list(documents.documents(tmp_path)) == ["3.json"]
    assert capsys.readouterr().err == f"{tmp_path}/0.json: {says}: it is skipped\n"
