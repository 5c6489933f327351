"""The report: what is on the page and in its figures, from records made by hand; no browser."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from reports.charts import charts as line_charts, drawing, style
from reports.leaderboard.board import Curve, Failure, ReportData, SweepFacts
from reports.page.notebook import html
from reports.page.page import build, leaderboard_page, leading, strip
from reports.table import Cell, Column, ColumnKind, Line, Table
from tests.support.boards import LEVELS, A, B, C, board_of, runs, searched


def board():
    return board_of(
        *(
            runs(
                *(name, scores),
                heterogeneity=level,
                dataset=dataset,
                page=f"/#/experiments/1/runs/{name}",
            )
            for level, dataset in zip(LEVELS, ("digits", "mnist"), strict=True)
            for name, scores in (("fedavg", A), ("folb", B), ("x.py:My<Own>", C))
        )
    )


@pytest.fixture(scope="module")
def data() -> ReportData:
    found = board()
    curves = [
        Curve(
            row.group, row.algorithm, seed, (0, 5, 10), (0.1, 0.5 + seed / 50, 0.9), (0, 1e6, 2e6)
        )
        for row in found.rows
        for seed in (1, 2)
    ]
    return ReportData(
        board=found,
        curves=tuple(curves),
        trials={(row.sweep, row.entry_id): searched(0.5, 0.7, 0.9) for row in found.rows},
        failures=(Failure("folb · seed 3", "final", "failed", "<b>ZeroDivisionError</b>", "/#/f"),),
        sweeps=(
            SweepFacts(
                "night", "quick", "trials: 8\n", {"commit": "abc123", "final seeds": "1, 2"}, "/#/s"
            ),
        ),
        tuned={(row.sweep, row.entry_id): f"algorithm: {row.algorithm}\n" for row in found.rows},
    )


@pytest.fixture(scope="module")
def built(data) -> tuple[str, dict[str, bytes]]:
    return build(data)


def specs(page: str) -> dict[str, dict]:
    """The charts of a page, by name."""
    found = re.findall(
        r'data-chart="([^"]+)".*?<script type="application/json">(.*?)</script>', page
    )
    return {name: json.loads(text) for name, text in found}


class Parsed(HTMLParser):
    """Tags that are open where they should not be, addresses, ids, and the text of table rows."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.wrong, self.links, self.loaded, self.ids = [], [], [], [], []
        self.rows: list[list[str]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.links += [given["href"]] if tag == "a" else []
        self.loaded += [v for k, v in attrs if k in ("src", "href", "srcset") and tag != "a"]
        self.ids += [given["id"]] if "id" in given else []
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th") and self.rows:
            self.rows[-1].append("")
        if tag not in ("meta", "link", "input", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, text):
        if self.open and self.rows and {"td", "th"} & set(self.open):
            self.rows[-1][-1] += text.strip()


def test_the_page_is_whole_and_needs_nothing_else(built):
    page = Parsed(built[0])
    assert (page.wrong, page.open) == ([], [])
    assert [a for a in page.loaded if not a.startswith(("#", "data:"))] == []
    own = built[0].replace(drawing.script(), "")
    assert drawing.script() in built[0]
    assert "@import" not in own
    assert re.findall(r"url\((?!#|&quot;#|\"#)", own) == []
    assert len(page.ids) == len(set(page.ids))
    assert len(own) < 300_000


def test_every_row_links_to_its_run(built, data):
    page = Parsed(built[0])
    for row in data.board.rows:
        assert data.server + row.page in page.links
    rows = [row for row in page.rows if row and row[0].isdigit() and len(row) > 5]
    assert [r[1] for r in rows] == ["fedavg", "folb", "My<Own>"] * 2
    assert rows[0][2] == "91.0 ± 2.0"
    assert rows[0][-1].endswith("algorithm: fedavg"), "the tuned YAML"


def test_the_same_records_make_the_same_page(built, data):
    page, files = build(data)
    assert page == built[0]
    others = [name for name in files if files[name] != built[1][name]]
    assert {name.rpartition(".")[2] for name in others} <= {"pdf"}, "fonts have no order there"


def test_no_name_moves_a_cursor_or_turns_letters_around(data):
    hostile = "fed\x1b[31mavg\u202e\u2066x"
    rows = tuple(replace(row, algorithm=hostile, within_noise=None) for row in data.board.rows[:1])
    curves = tuple(replace(c, algorithm=hostile) for c in data.curves if c.group == rows[0].group)
    found = replace(
        data, board=replace(data.board, rows=rows, overall={}), curves=curves, trials={}
    )
    page, _ = build(found, ())
    own = page.replace(drawing.script(), "")
    assert "fed[31mavgx" in own
    for sign in ("\x1b", "\u202e", "\u2066", "\\u001b", "\\u202e", "\\u2066"):
        assert sign not in own, repr(sign)


def test_what_may_be_the_best_is_shaded_too():
    page = leaderboard_page(board_of(runs("a", A), runs("b", B), runs("c", C), margin=0.05))
    row = r'<tr( class="ties")?[^>]*>\s*<td class="rank" data-value="\d">'
    assert [bool(ties) for ties in re.findall(row, page)] == [True, True, False]
    assert page.count(">within the margin<") == 2


def test_a_row_far_behind_the_leaders_is_an_arrow():
    found = [runs(n, [0.9 + i / 500, 0.91]) for i, n in enumerate("abc")] + [runs("z", [0.2, 0.2])]
    rows = board_of(*found).rows
    scale = leading(rows)
    assert scale[0] > 0.5
    assert [strip(row, scale)["out"] for row in rows] == [0, 0, 0, -1]


def test_a_leaderboard_alone_is_a_page():

    page = Parsed(leaderboard_page(board_of(runs("a", A), runs("b", B), target=0.9)))
    assert (page.wrong, page.open, page.links) == ([], [], ["#leaderboard"])
    assert page.loaded == ["data:,"], "without charts it needs no library"
    assert [row[1] for row in page.rows if row[0].isdigit()] == ["a", "b"]
    assert Parsed(leaderboard_page(board_of())).wrong == []


def test_every_section_is_there(built):
    sections = re.findall(r'<section id="(\w+)"', built[0])
    wanted = ["leaderboard", "overview", "across", "curves", "budget", "failures", "provenance"]
    assert sections == wanted
    for word in ("cannot reject at this n", "abc123", "trials: 8"):
        assert word in built[0]
    assert "&lt;b&gt;ZeroDivisionError" in built[0], "what runs say is text, not markup"
    assert "<b>Zero" not in built[0]


def test_figures_are_files_of_three_kinds(built):
    files = built[1]
    names = {name.rpartition(".")[0] for name in files}
    assert {*files} == {f"{name}.{kind}" for name in names for kind in ("svg", "png", "pdf")}
    counts = {"leaderboard": 2, "rounds": 2, "bytes": 2, "budget": 2, "ranks": 1}
    for start, count in counts.items():
        assert sum(name.startswith(start) for name in names) == count, start
    for name, content in files.items():
        kind = name.rpartition(".")[2]
        assert content.startswith({"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<svg"}[kind])
        assert drawing.SIGN.encode() in content
        assert b"href" not in content, "no links in pictures"


def test_ink_follows_the_page_but_not_in_files(built):
    page, files = built
    text = json.dumps(specs(page)["rounds-digits-logreg-iid-night"])
    assert "var(--ink)" in text
    assert style.INK not in text
    picture = files["rounds-digits-logreg-iid-night.svg"].decode()
    assert "var(" not in picture
    assert style.INK in picture


def test_a_curve_is_the_mean_in_percent_with_its_interval(data):
    """Over seeds: t of one degree of freedom, s = 0.02 / sqrt(2), n = 2. Over three tunings 0.5, 0.6, 0.7: s = 0.1, t of two."""
    curves = [c for c in data.curves if c.algorithm == "folb"][:2]
    spec = line_charts.curves(curves, style.styles(["folb"]), "test_accuracy", "bytes")
    points = spec["data"]["values"]
    assert [p["x"] for p in points] == [0.0, 1.0, 2.0], "MB"
    assert [p["y"] for p in points] == [10.0, 53.0, 90.0]
    half = 12.7062
    assert [p["low"] for p in points] == pytest.approx([10, 53 - half, 90], abs=1e-3)
    assert [p["high"] for p in points] == pytest.approx([10, 53 + half, 90], abs=1e-3)
    tuned = [
        Curve(curves[0].group, "folb", 10 * t + s, (5,), (0.5 + t / 10 + e,), (1e6,), (0, 0, t))
        for t in range(3)
        for s, e in enumerate((-0.01, 0.01))
    ]
    spec = line_charts.curves(tuned, style.styles(["folb"]), "test_accuracy", "rounds")
    (point,) = spec["data"]["values"]
    assert (point["y"], point["low"]) == pytest.approx((60, 60 - 4.302653 * 10 / 3**0.5), abs=1e-3)


def test_what_all_rows_have_alike_is_said_below_the_table_and_code_is_code():
    board = board_of(runs("a", A), runs("b", B, spent={"uploaded_bytes": 9e6}))
    page = leaderboard_page(replace(board, notes=("`tunings: 5` of <them>",)))
    heads = re.findall(r"<th[^>]*>([^<]*)</th>", page)
    assert ("MB" in heads, "seeds" in heads) == (True, False)
    assert "All rows: seeds 5, k samples 9, trials 0." in page
    assert "<code>tunings: 5</code> of &lt;them&gt;" in page


def test_a_table_sorts_by_values_and_shows_text_as_text():
    columns = (Column("name", ColumnKind.NAME), Column("score", better=-1))
    lines = [Line(["<script>a|b", Cell("0.5 ± 0.1", 0.5, look="best")]), Line(["b", "0.25"])]
    text = html([Table(columns, lines)])
    body = text[text.index("<tbody>") : text.index("</tbody>")]
    assert "<script>" not in body
    assert '<th scope="row">&lt;script&gt;a|b</th>' in body
    assert '<td data-value="0.5"><span class="best">0.5 ± 0.1</span></td>' in body
    assert 'data-better="-1"' in text
