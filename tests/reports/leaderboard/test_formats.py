"""A leaderboard as text, CSV, JSON, Markdown, LaTeX, HTML and a picture."""

import csv
import io
import json
import random
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from scipy import stats

from reports.leaderboard.board import Leaderboard
from reports.wording.formats import render
from tests.support.boards import LEVEL, A, B, C, at, board_of, run, runs, shown
from tests.support.contract import FIELDS


def test_the_json_document():
    board = board_of(runs("a", A), runs("b", B), target=0.9)
    document = json.loads(json.dumps(board.as_dict()))
    assert {"study", "metric", "direction", "protocol", "rows"} <= set(document)
    assert (document["study"], document["metric"]) == ("quick", "test_accuracy")
    assert document["direction"] == "maximize"
    assert len(document["rows"]) == 2
    for row in document["rows"]:
        assert set(row) >= FIELDS
    assert document["rows"][0]["params"] == {"lr": 0.1}


def typical(target: float | None = 0.9) -> Leaderboard:
    """Two groups of four algorithms; one diverged seed, some that miss the target, long names."""
    draw = random.Random(3)
    params = {"lr": 0.123456, "mu": 0.1, "variant": "heterogeneity", "psi": 1.0}
    found = []
    for level in ("iid", LEVEL):
        for algorithm in ("fedavg", "fedprox", "folb", "safl"):
            for seed in range(1, 6):
                found.append(
                    run(
                        algorithm,
                        seed,
                        0.8 + draw.random() / 10,
                        heterogeneity=level,
                        params=params,
                        diverged=(algorithm, seed) == ("folb", 2),
                        reached=at(10 * seed) if seed > 2 else {},
                    )
                )
    return board_of(found, target=target)


def test_csv_parses_back():
    board = typical()
    rows = list(csv.DictReader(io.StringIO(render(board, "csv"))))
    assert set(rows[0]) >= FIELDS
    assert len(rows) == len(board.rows) == 8
    for text, row in zip(rows, board.rows, strict=True):
        assert text["algorithm"] == row.algorithm
        assert text["heterogeneity"] == row.heterogeneity
        for field in ("mean", "ci_low", "ci_high", "reached_share", "uploaded_bytes"):
            assert float(text[field]) == getattr(row, field), "to the last bit"
        assert int(text["rank"]) == row.rank
        assert text["behind_low"] == ("" if row.behind_low is None else repr(row.behind_low))
        assert "lr=0.123" in text["params"]
        assert text["runs"] == " ".join(row.runs)
        assert not any(value.startswith(("(", "[", "{")) for value in text.values())


def test_markdown_has_a_table_for_each_group():
    text = render(typical(), "md")
    lines = text.splitlines()
    heads = [set(line) <= set("| -") and "---" in line for line in lines]
    assert sum(heads) == 2, "one for each group: levels of one data set are one row"
    rows = [line for line in lines if line.startswith("| ") and line.count("|") > 4]
    assert len(rows) == 2 * (1 + 4)
    assert len({line.count("|") for line in rows}) == 1
    assert f"**digits · logreg · {LEVEL} (night)**" in lines


def test_markdown_escapes_bars():
    text = render(board_of(runs("a|b", A)), "md")
    assert "a\\|b" in text


PAPER = r"""\begin{tabular}{lrrr}
\toprule
test accuracy \% & \multicolumn{2}{c}{digits} & \multicolumn{1}{c}{mnist} \\
\cmidrule(lr){2-3} \cmidrule(lr){4-4}
Method & iid & labels(2) & iid \\
\midrule
a & \textbf{91.00 $\pm$ 1.96} & \textbf{91.00 $\pm$ 1.96} & \textbf{91.00 $\pm$ 1.96} \\
c & \underline{70.40 $\pm$ 1.42} & 70.40 $\pm$ 1.42 & \underline{70.40 $\pm$ 1.42} \\
b & -- & \textbf{90.40 $\pm$ 2.08} & -- \\
\midrule
all & -- & 71.00 $\pm$ 1.96 & -- \\
\bottomrule
\end{tabular}
"""
"""Of a, the best, alone in two scenarios; beside b, which may be as good, in one. By hand: 2.776 s / sqrt(5)."""


def test_latex_is_a_paper_s_table():
    """Methods in rows, scenarios in columns, percent; what is ranked in fewer scenarios stands later."""
    level, low = {"heterogeneity": "labels(2)"}, [s - 0.2 for s in A]
    two = [runs("a", A, **level), runs("b", B, **level), runs("c", C, **level)]
    upper = runs("all", low, reference=True, **level)
    third = [runs(n, of, dataset="mnist") for n, of in (("a", A), ("c", C))]
    text = render(board_of(runs("a", A), runs("c", C), *two, upper, *third), "latex")
    assert text[text.index("\\begin") :] == PAPER
    assert text.count("{") == text.count("}")


def test_latex_has_no_percent_where_there_is_none():
    errors = runs("a", [0.5, 0.6], metric="mse", dataset="houses")
    text = render(board_of(errors, runs("b", A)), "latex")
    assert "\\multicolumn{1}{c}{digits, test accuracy \\%}" in text
    assert "\\multicolumn{1}{c}{houses, test mse}" in text
    assert "0.55 $\\pm$ 0.6353}" in text, "12.706 s / sqrt(2)"


def test_latex_escapes_what_is_special():
    text = render(board_of(runs("my_alg & co", A, dataset="npz:/a_b/50%#1.npz")), "latex")
    assert "my\\_alg \\& co" in text
    assert "npz:50\\%\\#1.npz" in text
    text = render(board_of(runs("a\\b~c^d<e>{f}", A)), "latex")
    assert r"a\textbackslash{}b\textasciitilde{}c\textasciicircum{}d\textless{}e" in text
    assert r"\{f\}" in text


@pytest.mark.parametrize("other", [{"model": "mlp"}, {"sweep": "day", "split": "other"}])
def test_latex_tells_groups_apart(other):
    """Rows of two models (or sweeps) stand in one tabular; a reader must see which is which."""
    text = render(board_of(runs("a", A), runs("a", C, **other)), "latex")
    assert next(iter(other.values())) in text


@pytest.mark.parametrize("form", ["csv", "md", "latex"])
def test_an_empty_board_renders(form):
    assert render(board_of(), form)


def test_a_picture_says_the_command_that_shows_its_rows():
    def title(*found: list) -> str:
        (text,) = re.findall(r'-title"[^>]*>([^<]*)<', render(board_of(*found), "svg"))
        return text.replace("\xa0", " ").replace("&#160;", " ")

    assert title(runs("a", A)) == "suite leaderboard --name night"
    other = runs("b", B, sweep="day", study="long")
    assert title(runs("a", A), other) == "suite leaderboard --study long --study quick"


@pytest.mark.parametrize("target", [None, 0.9])
def test_svg_is_a_whole_picture(target):
    text = render(typical(target), "svg")
    picture = " ".join("".join(ElementTree.fromstring(text).itertext()).split())
    for word in (
        "fedavg",
        "fedprox",
        "folb",
        "safl",
        LEVEL,
        "Runs that diverged: 1 of folb",
        "heterogeneity",
    ):
        assert word in picture
    assert "…" not in picture
    assert set(re.findall(r"https?://[^/\"]+", text)) == {"http://www.w3.org"}, "no other hosts"


def test_the_table_says_what_is_noise():
    text = " ".join(shown(board_of(runs("a", A), runs("b", B), runs("c", C)), 120))
    assert "As configured here 2 of 3 may be the best: a, b." in text
    text = " ".join(shown(board_of(runs("a", A), runs("c", C)), 120))
    assert "As configured here a is shown to be the best." in text


def test_the_table_shows_percent_with_intervals_to_the_digit_that_they_allow():
    half = stats.t.ppf(0.975, 4) * stats.sem(A)
    for scale, shown_as in ((1, f"91.0 ± {100 * half:.1f}"), (50, f"91.00 ± {2 * half:.2f}")):
        scores = [0.91 + (score - 0.91) / scale for score in A]
        (row,) = [line for line in shown(board_of(runs("a", scores)), 100) if "│ a " in line]
        assert f" {shown_as} " in row


def test_a_name_in_brackets_is_not_markup():
    lines = shown(board_of(runs("[red]x[/red]", A)), 100)
    assert any("[red]x[/red]" in line for line in lines)


def test_how_configurations_were_found_is_said_by_sweep_where_it_differs():
    board = board_of(runs("a", A))
    assert "Searched by" not in render(board, "md")
    one = replace(board, searched={"day": "random search", "night": "random search"})
    assert "Searched by random search. " in render(one, "md")
    two = replace(board, searched={"day": "grid search", "night": "random search"})
    assert "Searched by grid search (day), random search (night). " in render(two, "md")
