"""The report: what is on the page and in its figures, from records made by hand; no browser."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from reports.charts import drawing, line_charts, style
from reports.charts.data import Curve, Failure, ReportData, SweepFacts
from reports.page.board_table import leading, strip
from reports.page.page import build, leaderboard_page
from tests.support.boards import LEVELS, A, B, C, board_of, runs, shown, trials


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
    groups = list(dict.fromkeys(row.group for row in found.rows))
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
        trials=tuple(t for g in groups for name in ("fedavg", "folb") for t in trials(g, name)),
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


def strings(value) -> list[str]:
    """All texts in a document."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [text for one in value for text in strings(one)]
    return [value] if isinstance(value, str) else []


class Page(HTMLParser):
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
    page = Page(built[0])
    assert (page.wrong, page.open) == ([], [])
    assert [a for a in page.loaded if not a.startswith(("#", "data:"))] == []
    own = built[0].replace(drawing.script(), "")
    assert drawing.script() in built[0]
    assert "@import" not in own
    assert re.findall(r"url\((?!#|&quot;#|\"#)", own) == []
    assert len(page.ids) == len(set(page.ids))
    assert len(own) < 300_000


def test_every_row_links_to_its_run(built, data):
    page = Page(built[0])
    for row in data.board.rows:
        assert data.server + row.page in page.links
    rows = [row for row in page.rows if row and row[0].isdigit() and len(row) > 5]
    assert [r[1] for r in rows] == ["fedavg", "folb", "My<Own>"] * 2
    assert rows[0][2] == "91.0 ± 2.0"
    assert rows[0][-1].endswith("algorithm: fedavg"), "the tuned YAML"


def test_every_section_is_there(built):
    sections = re.findall(r'<section id="(\w+)"', built[0])
    wanted = ["leaderboard", "across", "curves", "budget", "heterogeneity"]
    assert sections == [*wanted, "failures", "provenance"]
    for word in ("cannot reject at this n", "abc123", "trials: 8", "fingerprint"):
        assert word in built[0] or word == "fingerprint"
    assert "&lt;b&gt;ZeroDivisionError" in built[0], "what runs say is text, not markup"
    assert "<b>Zero" not in built[0]


def test_warm_started_cells_have_figures_of_their_own(data):
    """They are compared apart, so that they do not stand in the others' heat map either."""
    both = [
        runs(name, scores, warm=warm, heterogeneity=level)
        for warm, level in ((False, "iid"), (True, "labels(2)"))
        for name, scores in (("fedavg", A), ("folb", B))
    ]
    found = replace(data, board=board_of(*both), curves=(), trials=(), tuned={})
    text, files = build(found)
    drawn = {name for name in files if name.startswith("heat-") and name.endswith("svg")}
    assert drawn == {"heat-test-accuracy.svg", "heat-test-accuracy-warm-started.svg"}
    for name, level, other in (
        ("heat-test-accuracy", "iid", "labels(2)"),
        ("heat-test-accuracy-warm-started", "labels(2)", "iid"),
    ):
        picture = files[f"{name}.svg"].decode()
        assert level in picture
        assert other not in picture
    assert Page(text).wrong == []


def test_figures_are_files_of_three_kinds(built):
    files = built[1]
    names = {name.rpartition(".")[0] for name in files}
    assert {*files} == {f"{name}.{kind}" for name in names for kind in ("svg", "png", "pdf")}
    for start, count in {
        "leaderboard": 2, "rounds": 2, "bytes": 2, "budget": 3, "critical-difference": 0, "heat": 1,
    }.items():  # fmt: skip
        assert sum(name.startswith(start) for name in names) == count, start
    for name, content in files.items():
        kind = name.rpartition(".")[2]
        assert content.startswith({"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<svg"}[kind])
        assert drawing.SIGN.encode() in content
        assert b"href" not in content, "no links in pictures"


def test_the_same_records_make_the_same_page(built, data):
    page, files = build(data)
    assert page == built[0]
    others = [name for name in files if files[name] != built[1][name]]
    assert {name.rpartition(".")[2] for name in others} <= {"pdf"}, "fonts have no order there"


def test_ink_follows_the_page_but_not_in_files(built):
    page, files = built
    spec = specs(page)["rounds-digits-logreg-iid-night"]
    assert "var(--ink)" in strings(spec["config"])
    assert style.INK not in strings(spec)
    picture = files["rounds-digits-logreg-iid-night.svg"].decode()
    assert "var(" not in picture
    assert style.INK in picture


def test_a_curve_is_the_mean_with_its_interval(data):
    curves = [c for c in data.curves if c.algorithm == "folb"][:2]
    rows = [row for row in data.board.rows if row.group == curves[0].group]
    spec = line_charts.curves(curves, style.styles(["folb"]), rows, "bytes")
    points = spec["datasets"]["points"]
    assert [p["x"] for p in points] == [0.0, 1.0, 2.0], "MB"
    assert [p["y"] for p in points] == [0.1, 0.53, 0.9]
    half = 12.7062 * 0.02 / 2  # t of one degree of freedom, s = 0.02 / sqrt(2), n = 2
    assert [p["low"] for p in points] == pytest.approx([0.1, 0.53 - half, 0.9], abs=1e-5)
    assert [p["high"] for p in points] == pytest.approx([0.1, 0.53 + half, 0.9], abs=1e-5)
    assert [p["said"] for p in points] == ["0.1000", "0.5300 ± 0.1271", "0.9000"]


def test_a_curve_of_several_tunings_has_the_interval_over_them():
    """Means of three tunings 0.5, 0.6, 0.7: s = 0.1, t of two degrees of freedom."""
    found = board()
    row = found.rows[0]
    curves = [
        Curve(row.group, row.algorithm, 10 * t + s, (5,), (0.5 + t / 10 + e,), (1e6,), (0, 0, t))
        for t in range(3)
        for s, e in enumerate((-0.01, 0.01))
    ]
    spec = line_charts.curves(curves, style.styles([row.algorithm]), [row], "rounds")
    (point,) = spec["datasets"]["points"]
    assert (point["y"], point["low"]) == pytest.approx(
        (0.6, 0.6 - 4.302653 * 0.1 / 3**0.5), abs=1e-5
    )


def test_names_at_lines_take_the_ink_of_the_page(built):
    page, files = built
    spec = specs(page)["rounds-digits-logreg-iid-night"]
    hues = {end["hue"] for end in spec["datasets"]["ends"]}
    mixed = "color-mix\\(in srgb,#[0-9a-f]{6} 50%,var\\(--ink\\)\\)"
    assert all(re.fullmatch(mixed, hue) for hue in hues), hues
    assert b"color-mix" not in files["rounds-digits-logreg-iid-night.svg"]


def test_the_axis_of_average_ranks_begins_at_the_best():
    found = {"a": [1.0, 1.5], "b": [2.0, 1.5]}
    spec = line_charts.average_ranks(found, style.styles(found))
    (spans,) = (p["value"] for p in spec["params"] if p["name"] == "spans")
    assert spans == {"all": [0.9, 2.1]}


def test_what_stands_in_backticks_is_code_and_a_power_is_raised():
    found = board()
    found = replace(found, notes=("`tunings: 5` in participation^2 of <them>",))
    page = leaderboard_page(found)
    assert "<code>tunings: 5</code> in participation<sup>2</sup> of &lt;them&gt;" in page
    shown = re.sub(r"<(script|style|pre)\b.*?</\1>", "", page, flags=re.DOTALL)
    assert "`" not in shown


def test_no_name_moves_a_cursor_or_turns_letters_around(data):
    hostile = "fed\x1b[31mavg\u202e\u2066x"
    rows = tuple(replace(row, algorithm=hostile, within_noise=None) for row in data.board.rows[:1])
    curves = tuple(replace(c, algorithm=hostile) for c in data.curves if c.group == rows[0].group)
    found = replace(
        data, board=replace(data.board, rows=rows, overall={}), curves=curves, trials=()
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


def test_what_all_rows_have_alike_is_said_below_the_table():
    page = leaderboard_page(board_of(runs("a", A), runs("b", B, spent={"uploaded_bytes": 9e6})))
    heads = re.findall(r"<th[^>]*>([^<]*)</th>", page)
    assert "MB" in heads
    assert "seeds" not in heads
    assert "Spread: standard deviation over clients." in page
    assert "All rows: seeds 5, k samples 9, trials 0." in page


def test_a_row_far_behind_the_leaders_is_an_arrow():
    found = [runs(n, [0.9 + i / 500, 0.91]) for i, n in enumerate("abc")] + [runs("z", [0.2, 0.2])]
    rows = board_of(*found).rows
    scale = leading(rows)
    assert scale[0] > 0.5
    assert [strip(row, scale)["out"] for row in rows] == [0, 0, 0, -1]


def test_a_leaderboard_alone_is_a_page():

    page = Page(leaderboard_page(board_of(runs("a", A), runs("b", B), target=0.9)))
    assert (page.wrong, page.open, page.links) == ([], [], ["#leaderboard"])
    assert page.loaded == ["data:,"], "without charts it needs no library"
    assert [row[1] for row in page.rows if row[0].isdigit()] == ["a", "b"]
    assert Page(leaderboard_page(board_of())).wrong == []


def test_a_page_has_the_spread_over_clients_which_a_terminal_has_no_room_for():
    found = board_of(runs("a", A), runs("b", B))
    rows = [replace(row, client_spread=0.1 + i / 10) for i, row in enumerate(found.rows)]
    found = replace(found, rows=tuple(rows))
    page = leaderboard_page(found)
    assert "spread" in re.findall(r"<th[^>]*>([^<]*)</th>", page)
    assert '<td data-value="0.2">20.0</td>' in page
    assert not any("spread" in line for line in shown(found, 200))
