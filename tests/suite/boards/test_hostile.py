"""What bundles and documents of others hold is text on a board's pages, and changes nothing of the rest."""

import csv
import html
import json
import re
import shlex
import shutil
import sqlite3
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from suite import json_files
from suite.boards.bundle import LISTING
from tests.support.bundles import (
    FINALS,
    RECORDS,
    SEARCHES,
    Change,
    Content,
    packed,
    written,
)
from tests.support.commands import fault, suite_here
from tests.support.simulations import ROOT
from tests.support.stores import recorded

NAMES = (
    "<script>alert(1)</script>",
    '"\' onmouseover="alert(1)',
    "</script><img src=q onerror=alert(1)>",
    "=HYPERLINK(1)",
    "x; rm -rf ~",
    "`id` $(id)",
    "../../x",
    "a\nb",
    "a\0b",
    "\u202egnp",
    "y" * 3000,
    "",
)
TAGS = ("sweep", "study", "algorithm", "paper", "dataset", "heterogeneity", "entry_name", "version")


def renamed(name: str) -> Change:
    """Every name that a page may show is this one."""

    def change(content: Content) -> None:
        for path in (RECORDS, SEARCHES, FINALS):
            for run in content[path]:
                run["tags"] |= dict.fromkeys(run["tags"].keys() & {*TAGS}, name)
        content[RECORDS][1]["tags"]["space"] = json.dumps(
            {
                "lr": {"type": "float", "low": 0.01, "high": 1},
                name: {"type": "c", "choices": [name, 1]},
            }
        )
        for run in (*content[SEARCHES], *content[FINALS]):
            run["tags"] |= {"params": json.dumps({"lr": 0.1, name: name}), "outside": name}
        content[LISTING] |= {"date": name, "machine": {name: name}, "code": {name: name}}

    return change


class Page(HTMLParser):
    """The elements and attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}


def pages(folder: Path) -> dict[str, str]:
    """The pages of a site, each kind by the folder that it is in."""
    found = sorted(folder.rglob("*.html"))
    return {path.relative_to(folder).parts[0]: path.read_text() for path in found}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Page]:
    """The pages of a site of plain names."""
    folder = tmp_path_factory.mktemp("sound")
    written(folder / "b", packed())
    suite_here("board", "b", "--output", "site", cwd=folder)
    return {kind: Page(text) for kind, text in pages(folder / "site").items()}


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_name_is_text(tmp_path: Path, sound: dict[str, Page], name: str) -> None:
    written(tmp_path / "b", packed(renamed(name)))
    suite_here("board", "b", "--output", "site", cwd=tmp_path)
    found = pages(tmp_path / "site")
    assert found.keys() == sound.keys()
    for kind, text in found.items():
        page = Page(text)
        assert page.elements - sound[kind].elements <= {"svg", "g", "circle", "path", "title"}
        assert not {one for one in page.attributes if one.startswith("on")}
        for spec in re.findall(r'<script type="application/json">(.*?)</script>', text, re.DOTALL):
            assert "$schema" in json.loads(spec)
        for command in re.findall(r"<pre>(suite .*?)</pre>", text, re.DOTALL):
            words = shlex.split(html.unescape(command))
            assert words[:2] in (["suite", "run"], ["suite", "sweep"])
            assert len(words) == 5
    with (tmp_path / "site" / "board.csv").open(newline="") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    assert not [cell for cell in cells if re.match(r"[=+@\t\r]|-(?![\d.])", cell)]
    assert {path.name for path in tmp_path.iterdir()} == {"b", "site"}


def test_what_is_no_plain_value_is_passed_over(tmp_path: Path) -> None:
    """Of two final runs; the other one is shown."""

    def change(content: Content) -> None:
        content[FINALS][1]["tags"]["params"] = '{"lr":{"a":[1]}}'
        content[FINALS][0]["tags"]["params"] = '{"lr":"much"}'

    written(tmp_path / "b", packed(change))
    done = suite_here("board", "b", "--output", "site", cwd=tmp_path)
    assert "1 run of sweep s could not be read: tag suite.params\n" in done.stderr
    assert (
        "lr=much"
        in (tmp_path / "site" / "index.html").read_text() + pages(tmp_path / "site")["methods"]
    )


def test_a_later_source_takes_nothing_from_an_earlier_one(tmp_path: Path) -> None:
    """Runs of its own sweep under the names of runs that are there."""

    def change(content: Content) -> None:
        content[RECORDS][0]["run_id"] = "other"
        for path in (RECORDS, SEARCHES, FINALS):
            for run in content[path]:
                run["tags"]["sweep"] = "theirs"
        for run in content[FINALS]:
            run["metrics"]["test_score"] = 0.99

    written(tmp_path / "b", packed())
    written(tmp_path / "c", packed(change))
    suite_here("board", "b", "c", "--output", "site", cwd=tmp_path)
    with (tmp_path / "site" / "board.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["sweep"], float(row["mean"])) for row in rows] == [("s", pytest.approx(0.65))]


def paper(**changes: Any) -> dict[str, Any]:
    """A document of a paper with fields replaced, those of its first number and statement among them."""
    content = json.loads((ROOT / "docs" / "results" / "folb-table1-mnist.json").read_text())
    row = content["rows"][0]
    for one in (content, row, row["numbers"][0], row["claims"][0]):
        one |= {key: value for key, value in changes.items() if key in one}
    return content


def board_of(folder: Path, *documents: object) -> Any:
    """The board with these documents."""
    (folder / "papers").mkdir()
    for number, one in enumerate(documents):
        (folder / "papers" / f"{number}.json").write_text(json.dumps(one))
    written(folder / "b", packed())
    return suite_here("board", "b", "--papers", "papers", "--output", "site", cwd=folder, code=None)


def test_a_statement_of_a_paper_is_text(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>\"'"
    keys = (
        "paper",
        "cites",
        "protocol",
        "source",
        "about",
        "note",
        "method",
        "metric",
        "says",
        "reason",
    )
    done = board_of(tmp_path, paper(**dict.fromkeys(keys, name)))
    assert done.returncode == 0
    text = next((tmp_path / "site" / "papers").glob("*.html")).read_text()
    assert name not in text
    assert html.escape(name).replace("&#x27;", "&#39;").replace("&quot;", "&#34;") in text
    assert not re.search(r"<script>", text)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"command": "suite reproduce x; rm -rf ~"}, "command = 'suite reproduce x; rm -rf ~': must be one command with each of its words quoted"),
        ({"command": "suite reproduce x\nls"}, r"command = 'suite reproduce x\nls': must be one command with each of its words quoted"),
        ({"paper": ["FOLB"]}, "paper = ['FOLB']: must be a valid string"),
        ({"rows": 7}, "rows = 7: must be a valid list"),
        ({"measured": "much"}, "rows.0.numbers.0.measured = 'much': must be a valid number, unable to parse string as a number"),
        ({"published": "many"}, "rows.0.numbers.0.published = 'many': could not convert string to float: 'many'"),
        ({"verdicts": {"holds": "x"}}, "verdicts.holds = 'x': must be a valid integer, unable to parse string as an integer"),
    ],
)  # fmt: skip
def test_a_damaged_document_is_said_and_passed_over(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    done = board_of(tmp_path, paper(**changes), {"an": "other"}, [1], paper())
    assert done.returncode == 0
    assert f"papers/0.json: {says}: it is skipped\n" in done.stderr
    assert done.stderr.count("skipped") == 1
    assert [path.name for path in (tmp_path / "site" / "papers").glob("*.html")] == ["folb.html"]


def test_where_all_documents_are_damaged_there_is_none(tmp_path: Path) -> None:
    done = board_of(tmp_path, paper(rows=7))
    assert done.returncode == 2
    assert fault(done) == "papers: it has no documents of suite reproduce --output"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": 1, "a": 2}', "the key 'a' is there twice"),
        ('{"a": {"b": NaN}}', "NaN is no finite number"),
        ("[-Infinity]", "-Infinity is no finite number"),
        ("[1e999]", "1e999 is no finite number"),
        ("[9223372036854775808]", "9223372036854775808 is no whole number below 2^63"),
        ('["\\ud800"]', "its text is not Unicode"),
        (b'"\xff"', "its text is not Unicode"),
        ("[" * 100_000, "it is nested too deeply"),
    ],
)
def test_json_that_programs_would_read_differently_is_refused(text: str | bytes, says: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(says) + "$"):
        json_files.parse(text)


def test_other_json_is_read_as_it_is() -> None:
    text = '{"a": [1, -2.5, 1e-3, true, null, "\\ud83d\\ude00", 9223372036854775807], "b": {}}'
    assert json_files.parse(text) == json.loads(text)


def stored(temporary: pytest.TempPathFactory, folder: Path, *changes: str) -> None:
    """A copy of a store with what SQL changes of it."""
    shutil.copytree(recorded(temporary) / "runs", folder / "runs")
    with sqlite3.connect(folder / "runs" / "mlflow.db") as database:
        for change in changes:
            database.execute(change)


@pytest.mark.parametrize("output", ["out", "out.zip"])
def test_a_sweep_whose_name_leads_elsewhere_is_not_published(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, output: str
) -> None:
    stored(
        tmp_path_factory, tmp_path, "update tags set value = '../../x' where key = 'suite.sweep'"
    )
    said = fault(suite_here("publish", "--output", output, cwd=tmp_path, code=2))
    assert said.startswith("sweep ../../x: must be the name of one folder: ")
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_values_that_are_not_finite_are_not_published(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    change = "update metrics set is_nan = 1 where key = 'test/loss' and step = 1"
    stored(tmp_path_factory, tmp_path, change)
    suite_here("publish", "--output", "out", cwd=tmp_path)
    runs = json.loads((tmp_path / "out" / FINALS).read_text())
    at = {tuple(c["rounds"]) for run in runs for c in run["curve"] if "test_loss" in c["values"]}
    assert at == {(0, 2)}
    suite_here("board", "out", "--output", "site", cwd=tmp_path)


def test_a_time_that_is_none_is_said(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    stored(tmp_path_factory, tmp_path, "update runs set start_time = -5")
    said = fault(suite_here("publish", "--output", "out", cwd=tmp_path, code=2))
    assert re.fullmatch(r"run \w+: began = -0\.005: must be greater than or equal to 0", said)
    assert not (tmp_path / "out").exists()
