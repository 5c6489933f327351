"""The report: what is on the page and in its figures, from records made by hand; no browser."""

import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from reports.leaderboard.pareto import Front, Point
from reports.page import figures, tuning
from reports.page.data import Curve, Failure, ReportData, Sweep, Trial
from reports.page.page import build, leaderboard_page
from tests.support.boards import LEVELS, A, B, C, board_of, runs, trials

PARAMS = ("lr", "mu", "variant")


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
            Sweep(
                "night", "quick", "trials: 8\n", {"commit": "abc123", "final seeds": "1, 2"}, "/#/s"
            ),
        ),
        tuned={(row.sweep, row.cell): f"algorithm: {row.algorithm}\n" for row in found.rows},
    )


@pytest.fixture(scope="module")
def built(data, tmp_path_factory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("figures")
    return build(data, folder), folder


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
    assert "@import" not in built[0]
    assert re.findall(r"url\((?!#|&quot;#|\"#)", built[0]) == []
    assert len(page.ids) == len(set(page.ids)), "an id of one figure must not be another's"
    assert len(built[0]) < 1_000_000


def test_every_row_links_to_its_run(built, data):
    page = Page(built[0])
    for row in data.board.rows:
        assert data.server + row.page in page.links
    rows = [row for row in page.rows if row and row[0].isdigit() and len(row) > 8]
    assert [r[1] for r in rows] == ["fedavg", "folb", "My<Own>"] * 2
    assert rows[0][2].startswith("0.9100 ±")
    assert rows[0][-1].endswith("algorithm: fedavg"), "the tuned YAML"


def test_every_section_is_there(built):
    sections = re.findall(r'<section id="(\w+)">', built[0])
    wanted = ["leaderboard", "across", "curves", "budget", "heterogeneity", "search"]
    assert sections == [*wanted, "failures", "provenance"]
    for word in ("cannot reject at this n", "abc123", "trials: 8", "fingerprint", "PED-ANOVA"):
        assert word in built[0] or word == "fingerprint"
    assert "&lt;b&gt;ZeroDivisionError" in built[0], "what runs say is text, not markup"
    assert "<b>Zero" not in built[0]


def front(algorithm: str, *points: Point) -> Front:
    named = {"dataset": "digits", "model": "logreg", "heterogeneity": "iid", "sweep": "night"}
    cost = "uploaded_bytes"
    return Front(algorithm, **named, metric="accuracy", cost=cost, points=points)


def test_fronts_are_drawn_and_listed(data, tmp_path):
    cheap, dear = Point("s0", {"lr": 0.1}, 0.5, 2e6), Point("s1", {"lr": 0.3}, 0.9, 9e6, "best", A)
    fronts = (front("fedavg", cheap, dear), front("folb", Point("s2", {"mu": 1.0}, 0.7, 3e6)))
    page = build(replace(data, board=replace(data.board, pareto=fronts)), tmp_path)
    rows = [row for row in Page(page).rows if row[-1] in ("lr=0.1", "lr=0.3", "mu=1")]
    assert [row[:4] for row in rows] == [
        ["fedavg", "2,000,000", "0.5000", ""],
        ["fedavg", "9,000,000", "0.9000", "best"],
        ["folb", "3,000,000", "0.7000", ""],
    ]
    assert rows[1][4].startswith(f"{fmean(A):.4f} ±")
    assert (tmp_path / "front-digits-logreg-iid-uploaded-bytes-night.svg").exists()
    svg = page[page.index('<section id="fronts">') :]
    assert "uploaded MB" in svg
    assert "s s-folb" in svg, "its lines can be hidden"


def test_warm_started_cells_have_figures_of_their_own(data, tmp_path):
    """They are compared apart, so that they do not stand in the others' heat map either."""
    both = [
        runs(name, scores, warm=warm, heterogeneity=level)
        for warm, level in ((False, "iid"), (True, "labels(2)"))
        for name, scores in (("fedavg", A), ("folb", B))
    ]
    found = replace(data, board=board_of(*both), curves=(), trials=(), tuned={})
    text = build(found, tmp_path)
    drawn = {path.stem for path in tmp_path.glob("heat-*.svg")}
    assert drawn == {"heat-test-accuracy", "heat-test-accuracy-warm-started"}
    for name, level, other in (
        ("heat-test-accuracy", "iid", "labels(2)"),
        ("heat-test-accuracy-warm-started", "labels(2)", "iid"),
    ):
        drawing = (tmp_path / f"{name}.svg").read_text()
        assert level in drawing
        assert other not in drawing
    assert Page(text).wrong == []


def test_figures_are_files_of_three_kinds(built):
    names = {path.stem for path in built[1].iterdir()}
    kinds = {path.suffix for path in built[1].iterdir()}
    assert kinds == {".svg", ".png", ".pdf"}
    assert len(list(built[1].iterdir())) == 3 * len(names)
    for start, count in {
        "leaderboard": 2, "rounds": 2, "bytes": 2, "budget": 3, "critical-difference": 1,
        "heat": 1, "slices": 4, "parallel": 4,
    }.items():  # fmt: skip
        assert sum(name.startswith(start) for name in names) == count, start
    for path in built[1].iterdir():
        start = path.read_bytes()[:5]
        assert start.startswith(
            {".png": b"\x89PNG", ".pdf": b"%PDF", ".svg": b"<?xml"}[path.suffix]
        )


def test_the_same_records_make_the_same_page(built, data):
    assert build(data) == built[0]


def test_ink_follows_the_page_and_lines_can_be_hidden(data):
    curves = [c for c in data.curves if c.group == data.curves[0].group]
    look = figures.styles(["fedavg", "folb", "x.py:My<Own>"])
    drawn = figures.Drawn(
        "n", "t", 'a "title" <x>', figures.curves(curves, look, "test_accuracy", "rounds")
    )
    text = figures.inline(drawn)
    assert "var(--ink)" in text
    assert figures.INK not in text
    assert text.count('class="s s-fedavg"') == 2, "the line and its band"
    assert 'aria-label="a &quot;title&quot; &lt;x>"' in text


def test_a_curve_is_the_mean_with_its_interval(data):
    curves = [c for c in data.curves if c.algorithm == "folb"][:2]
    look = figures.styles(["folb"])
    (axes,) = figures.curves(curves, look, "test_accuracy", "bytes").axes
    (line,) = axes.lines
    assert line.get_xdata() == pytest.approx([0.0, 1.0, 2.0]), "MB"
    assert line.get_ydata() == pytest.approx([0.1, 0.53, 0.9])
    half = 12.7062 * 0.02 / 2  # t of one degree of freedom, s = 0.02 / sqrt(2), n = 2
    (band,) = axes.collections
    reached = band.get_paths()[0].vertices[:, 1]
    assert reached.max() == pytest.approx(0.9, abs=0.53 + half - 0.9)
    assert reached.min() == pytest.approx(min(0.1, 0.53 - half), abs=1e-4)


def test_thirty_algorithms_look_different():
    look = figures.styles([f"a{i}" for i in range(30)])
    assert len({(hue, str(dash)) for hue, dash in look.values()}) == 30


def test_best_so_far_by_hand():
    group = ("s", "d", "m", "iid", False)

    def trial(i, status, value):
        return Trial(group, "a", i, "sampled", status, value, {})

    ends = [
        ("failed", None),
        ("finished", 0.3),
        ("pruned", 0.9),
        ("finished", 0.2),
        ("finished", 0.5),
    ]
    found = tuning.best_so_far([trial(i, *end) for i, end in enumerate(ends)][::-1], up=True)
    assert math.isnan(found[0])
    assert found[1:] == [0.3, 0.3, 0.3, 0.5]
    found = tuning.best_so_far([trial(i, *end) for i, end in enumerate(ends)], up=False)
    assert found[1:] == [0.3, 0.3, 0.2, 0.2]


def test_ranks_by_budget_by_hand():
    cells = {
        "x": {"a": [math.nan, 0.5, 0.9], "b": [0.4, 0.5, 0.5], "only here": [1, 1, 1]},
        "y": {"a": [0.1, 0.1, 0.3], "b": [0.2, 0.2, 0.2]},
    }
    assert tuning.ranks_by_budget(cells) == {"a": [2.0, 1.75, 1.0], "b": [1.0, 1.25, 2.0]}
    assert tuning.ranks_by_budget({}) == {}


def test_importance_finds_what_matters():
    draw = np.random.default_rng(0)
    found = [
        ({"lr": lr, "mu": mu, "c": c}, 1 - abs(lr - 0.5))
        for lr, mu, c in zip(
            draw.random(40),
            10 ** draw.uniform(-4, 0, 40),
            draw.choice(["p", "q"], 40),
            strict=True,
        )
    ]
    share = tuning.importance(found, True)
    assert set(share) == {"lr", "mu", "c"}
    assert share["lr"] > 0.6
    assert tuning.importance(found[:3], True) == {}, "of three trials nothing is said"
    assert tuning.importance([({"lr": i}, 0.5) for i in range(9)], True) == {}


def test_a_leaderboard_alone_is_a_page():

    page = Page(leaderboard_page(board_of(runs("a", A), runs("b", B), target=0.9)))
    assert (page.wrong, page.open, page.links) == ([], [], ["#leaderboard"])
    assert [row[1] for row in page.rows if row[0].isdigit()] == ["a", "b"]
    assert Page(leaderboard_page(board_of())).wrong == []
