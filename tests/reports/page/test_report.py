"""The report: what is on the page and in its figures, from records made by hand; no browser."""

import json
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pandas as pd
import pytest

from reports.charts import charts, drawing, style
from reports.leaderboard.board import Curve, Failure, ReportData, SweepFacts
from reports.page.notebook import html
from reports.page.page import build, headline, leaderboard_page
from reports.table import Cell, Column, ColumnKind, Line, Table
from tests.support.boards import LEVELS, A, B, C, board_of, runs, searched
from trials.algorithms import ALGORITHMS

SAME = ("a/mine.py:My<Own>", "b/other.py:My<Own>")
OTHER = {"heterogeneity": "labels(2)"}


@pytest.fixture(scope="module")
def data() -> ReportData:
    """Two scenarios, two classes of one name, and texts that name folders or hold markup."""
    scores, found = (A, B, C, C), []
    for level, dataset in zip(LEVELS, ("digits", "npz:/home/me/my.npz"), strict=True):
        at = {"heterogeneity": level, "dataset": dataset}
        for name, values in zip(("fedavg", "folb", *SAME), scores, strict=True):
            found.append(runs(name, values, page=f"/#/experiments/1/runs/{name}", **at))
    board = board_of(*found)
    curve = (0, 5, 10), (0.1, 0.52, 0.9), (0, 1e6, 2e6)
    entries = {(row.sweep, row.entry_id): row.algorithm for row in board.rows}
    failure = "/home/me/a/b.csv: <b>ZeroDivisionError</b>"
    return ReportData(
        board=board,
        curves=tuple(Curve(row.group, row.algorithm, s, *curve) for row in board.rows for s in (1, 2)),
        trials={entry: searched(0.5, 0.7, 0.9) for entry in entries},
        failures=(Failure("folb · seed 3", "final", "failed", failure, "/#/f"),),
        sweeps=(SweepFacts("night", "quick", "trials: 8\n", {"storage": "~/runs/x"}, "/#/s"),),
        tuned={entry: f"algorithm: {name}\n" for entry, name in entries.items()},
    )  # fmt: skip


@pytest.fixture(scope="module")
def built(data) -> tuple[str, dict[str, bytes]]:
    return build(data)


class Parsed(HTMLParser):
    """Tags that are open where they should not be, addresses, and ids."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.wrong, self.links, self.loaded, self.ids = [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.links += [given["href"]] if tag == "a" else []
        self.loaded += [v for k, v in attrs if k in ("src", "href", "srcset") and tag != "a"]
        self.ids += [given["id"]] if "id" in given else []
        if tag not in ("meta", "link", "input", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def test_the_page_is_whole_and_needs_nothing_else(built, data):
    page = Parsed(built[0])
    assert (page.wrong, page.open) == ([], [])
    assert [a for a in page.loaded if not a.startswith(("#", "data:"))] == []
    own = built[0].replace(drawing.script(), "")
    assert drawing.script() in built[0]
    assert "@import" not in own
    assert re.findall(r"url\((?!#|&quot;#|\"#)", own) == []
    assert len(page.ids) == len(set(page.ids))
    assert len(own) < 400_000
    sections = re.findall(r'<section id="(\w+)"', own)
    wanted = ["leaderboard", "overview", "across", "curves", "budget", "failures", "provenance"]
    assert sections == wanted
    assert all(data.server + f"/#/experiments/1/runs/{n}" in page.links for n in ("fedavg", "folb"))
    assert re.findall(r'<td data-value="[0-9.]+">(91.0 ± 2.0)</td>', own) == ["91.0 ± 2.0"] * 2
    assert "<pre>algorithm: fedavg" in own, "the tuned YAML"


def test_what_others_wrote_is_text_without_folders_and_classes_of_one_name_are_told_apart(built):
    page, files = built
    for text in ("/home", "~/runs", "<b>Zero", "My<Own>"):
        assert text not in page
    for text in ("npz:my.npz", "b.csv: &lt;b&gt;ZeroDivisionError", "trials: 8"):
        assert text in page
    pictures = [file.decode() for name, file in files.items() if name.endswith(".svg")]
    for text in (page, *pictures):
        assert "My&lt;Own&gt; (mine.py)" in text
        assert "My&lt;Own&gt; (other.py)" in text


def test_the_same_records_make_the_same_page(built, data):
    page, files = build(data)
    assert page == built[0]
    others = [name for name in files if files[name] != built[1][name]]
    assert {name.rpartition(".")[2] for name in others} <= {"pdf"}, "fonts have no order there"


def test_a_leaderboard_alone_is_a_page_with_shades_pictures_and_code():
    found = [runs("a", A), runs("b", B), runs("c", C, spent={"uploaded_bytes": 9e6})]
    board = replace(board_of(*found, margin=0.05), notes=("`tunings: 5` of <them>",))
    text = leaderboard_page(board)
    page = Parsed(text)
    assert (page.wrong, page.open, page.links) == ([], [], ["#leaderboard"])
    assert page.loaded == ["data:,"], "without charts it needs no library"
    row = r'<tr( class="ties")?[^>]*>\s*<td class="rank" data-value="\d">'
    assert [bool(ties) for ties in re.findall(row, text)] == [True, True, False]
    heads = re.findall(r"<th[^>]*>([^<]*)</th>", text)
    assert ("MB" in heads, "seeds" in heads) == (True, False)
    assert "All rows: seeds 5, k samples 9, trials 0." in text
    assert "<code>tunings: 5</code> of &lt;them&gt;" in text
    assert Parsed(leaderboard_page(board_of())).wrong == []


def test_a_table_sorts_by_values_and_shows_text_as_text():
    columns = (Column("name", ColumnKind.NAME), Column("score", better=-1))
    lines = [Line(["<script>a|b", Cell("0.5 ± 0.1", 0.5, look="best")]), Line(["b", "0.25"])]
    text = html([Table(columns, lines)])
    body = text[text.index("<tbody>") : text.index("</tbody>")]
    assert '<th scope="row">&lt;script&gt;a|b</th>' in body
    assert '<td data-value="0.5"><span class="best">0.5 ± 0.1</span></td>' in body
    assert 'data-better="-1"' in text


# What is said first


def test_only_methods_that_are_shown_to_be_the_best_are_named():
    each = board_of(runs("a", A), runs("b", C), runs("a", C, **OTHER), runs("b", A, **OTHER))
    assert headline(each)[0].startswith("a, b: shown to be the best in 1 of 2")
    tied = board_of(runs("a", A), runs("c", C), runs("a", A, **OTHER), runs("b", A, **OTHER))
    assert headline(tied)[0].startswith("a: shown to be the best in 1 of 2")
    close = board_of(runs("a", A), runs("b", B), runs("a", A, **OTHER), runs("b", B, **OTHER))
    assert headline(close)[0].startswith("No method is shown")
    lead, more = headline(board_of(runs("a", A), runs("b", A), runs("c", C)))
    assert lead.startswith("2 of 3 configurations may be the best")
    assert "a and b: tied" in more
    found = [runs(n, of, dataset=d) for d in ("digits", "mnist") for n, of in (("a", A), ("b", B))]
    assert headline(board_of(*found))[0].endswith("over 2 families of data sets")


# Charts


def test_figures_are_files_of_three_kinds_and_ink_follows_the_page_but_not_in_files(built):
    page, files = built
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
        assert kind != "svg" or (b"var(" not in content and style.INK.encode() in content)
    specs = re.findall(r'<script type="application/json">(.*?)</script>', page)
    assert len(specs) == 7
    for spec in map(json.loads, specs):
        assert "var(--ink)" in json.dumps(spec)
        assert style.INK not in json.dumps(spec)


def test_a_curve_is_the_mean_in_percent_with_its_interval(data):
    """Over seeds 0.52 and 0.54: t(1) s / sqrt(2) = 12.7 points. Over three tunings 0.5, 0.6, 0.7: s = 0.1, t of two."""
    group, look = data.board.rows[0].group, style.styles(["folb"])
    seeds = [Curve(group, "folb", s, (0, 5), (0.1, 0.5 + s / 50), (0, 1e6)) for s in (1, 2)]
    points = charts.curves(seeds, look, "test_accuracy", "bytes")["data"]["values"]
    assert [(p["x"], p["y"]) for p in points] == [(0.0, 10.0), (1.0, 53.0)], "MB, percent"
    assert (points[1]["low"], points[1]["high"]) == pytest.approx((53 - 12.7062, 53 + 12.7062), abs=1e-3)  # fmt: skip
    tuned = [
        Curve(group, "folb", 10 * t + s, (5,), (0.5 + t / 10 + e,), (1e6,), (0, 0, t))
        for t in range(3)
        for s, e in enumerate((-0.01, 0.01))
    ]
    (point,) = charts.curves(tuned, look, "test_accuracy", "rounds")["data"]["values"]
    assert (point["y"], point["low"]) == pytest.approx((60, 60 - 4.302653 * 10 / 3**0.5), abs=1e-3)


def test_a_method_has_one_colour_whatever_stands_beside_it():
    alone, beside = style.styles(["fedavg", "mine.py:Mine"]), style.styles(["scaffold", *ALGORITHMS])  # fmt: skip
    assert alone["fedavg"] == beside["fedavg"]
    assert len(set(map(str, beside.values()))) == len(ALGORITHMS), "no two of the project's alike"
    others = style.styles(["fedavg", *(f"m{i}.py:M{i}" for i in range(29))], {"m1.py:M1"})
    assert others["fedavg"] == alone["fedavg"]
    assert len(set(map(str, others.values()))) == 30
    assert [name for name, (hue, _) in others.items() if hue == style.GREY] == ["m1.py:M1"]


def test_best_so_far_by_hand_of_several_searches_the_mean():
    ends = ["failed", "finished", "pruned", "finished", "finished"]
    tried = searched(None, 0.3, 0.9, 0.2, 0.5, status=ends)[::-1]
    up, down = (charts.best_so_far(tried, up) for up in (True, False))
    assert (math.isnan(up[0]), up[1:]) == (True, [0.3, 0.3, 0.3, 0.5])
    assert down[1:] == [0.3, 0.3, 0.2, 0.2]
    several = pd.concat([searched(0.2, 0.4), searched(0.8, 0.6, replicate="t1")])
    assert charts.best_so_far(several, up=True) == pytest.approx([0.5, 0.6])
