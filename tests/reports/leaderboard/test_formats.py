"""A leaderboard as CSV, JSON, Markdown and LaTeX: the same numbers in each, and what others wrote is text."""

import csv
import io
import json
import random
import re
from dataclasses import replace

import pytest
from scipy import stats

from reports.leaderboard.board import Leaderboard
from reports.wording.tables import render
from reports.wording.words import setting_notes
from tests.support.boards import LEVEL, A, B, C, at, board_of, run, runs, shown
from tests.support.contract import FIELDS
from trials.common.errors import UserError


def typical(target: float | None = 0.9) -> Leaderboard:
    """Two groups of four algorithms; one diverged seed, some that miss the target, long names."""
    draw = random.Random(3)
    found = [
        run(
            algorithm,
            seed,
            0.8 + draw.random() / 10,
            heterogeneity=level,
            params={"lr": 0.123456, "mu": 0.1, "variant": "heterogeneity", "psi": 1.0},
            lost=(algorithm, seed) == ("folb", 2),
            reached=at(10 * seed) if seed > 2 else {},
        )
        for level in ("iid", LEVEL)
        for algorithm in ("fedavg", "fedprox", "folb", "safl")
        for seed in range(1, 6)
    ]
    return board_of(found, target=target)


def rows_of(board: Leaderboard, *columns: str) -> list[dict[str, str]]:
    return [*csv.DictReader(io.StringIO(render(board, "csv", columns)))]


def test_the_json_document():
    document = json.loads(json.dumps(board_of(runs("a", A), runs("b", B), target=0.9).as_dict()))
    assert (document["study"], document["metric"]) == ("quick", "test_accuracy")
    assert (document["direction"], len(document["rows"])) == ("maximize", 2)
    assert all(set(row) >= FIELDS for row in document["rows"])
    assert document["rows"][0]["params"] == {"lr": 0.1}


def test_csv_parses_back_to_the_last_bit():
    board = typical()
    rows = rows_of(board)
    assert set(rows[0]) >= FIELDS
    for text, row in zip(rows, board.rows, strict=True):
        assert (text["algorithm"], text["heterogeneity"]) == (row.algorithm, row.heterogeneity)
        for field in ("mean", "ci_low", "ci_high", "reached_share", "uploaded_bytes"):
            assert float(text[field]) == getattr(row, field)
        assert int(text["rank"]) == row.rank
        assert text["behind_low"] == ("" if row.behind_low is None else repr(row.behind_low))
        assert "lr=0.123" in text["params"]
        assert text["runs"] == " ".join(row.runs)
        assert not any(value.startswith(("(", "[", "{")) for value in text.values())


def test_columns_are_chosen_in_csv_and_markdown_too():
    board = board_of(runs("a", A), runs("b", B, worst_clients=0.5))
    (first, second) = rows_of(board, "worst 10 %", "trials")
    assert (first["worst_clients"], second["worst_clients"], first["trials"]) == ("", "0.5", "0")
    assert float(first["mean"]) == board.rows[0].mean
    assert "client_spread" not in first
    usual, more = (render(board, "md", columns) for columns in (["MB"], ["trials"]))
    assert ("| trials |" in usual, "| trials |" in more) == (False, True)
    for form in ("csv", "md"):
        with pytest.raises(UserError):
            render(board, form, ["worst 10"])


def test_markdown_has_a_table_for_each_group():
    lines = render(typical(), "md").splitlines()
    rows = [line for line in lines if line.startswith("| ") and line.count("|") > 4]
    assert len(rows) == 2 * (1 + 4)
    assert len({line.count("|") for line in rows}) == 1
    assert f"**digits · logreg · {LEVEL} (night)**" in lines


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        *((name, f"'{name}") for name in ("=HYPERLINK(1)", "+1", "-1", "@SUM(1)", " =1", "\n=1")),
        *(("＝1", "'＝1"), ("\x1b=1", "'=1"), ("\u202e@1", "'@1"), ("a\x1b[2J=1", "a[2J=1")),
    ],
)
def test_no_cell_of_a_spreadsheet_is_a_formula(name, cell):
    (row,) = rows_of(board_of(runs(name, A, sweep="=night")))
    assert (row["algorithm"], row["sweep"]) == (cell, "'=night")
    assert float(row["mean"]) == pytest.approx(0.91)


def test_markdown_has_no_html_and_a_name_is_one_cell():
    text = render(board_of(runs("<img src=x>|b", A)), "md")
    assert not re.search(r"<\w", text)
    assert "&lt;img src=x>\\|b" in text


PAPER = r"""\begin{tabular}{lrrr}
\toprule
 & \multicolumn{2}{c}{digits, test accuracy \%} & mnist, test accuracy \% \\
 & iid & labels(2) & iid \\
\midrule
a & \textbf{91.0 $\pm$ 2.0} & \textbf{91.0 $\pm$ 2.0} & \textbf{91.0 $\pm$ 2.0} \\
c & \underline{70.4 $\pm$ 1.4} & 70.4 $\pm$ 1.4 & \underline{70.4 $\pm$ 1.4} \\
b & -- & \textbf{90.4 $\pm$ 2.1} & -- \\
all & -- & 71.0 $\pm$ 2.0 & -- \\
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
    assert all(line.startswith("%") for line in text[: text.index("\\begin")].splitlines())


@pytest.mark.parametrize("other", [{"model": "mlp"}, {"sweep": "day", "split": "other"}])
def test_latex_tells_groups_apart_and_sets_names_as_they_are(other):
    """Rows of two models (or sweeps) stand in one tabular; a reader must see which is which."""
    errors = runs("my_alg & co", [0.5, 0.6], metric="mse", dataset="50%#1")
    text = render(board_of(runs("a", A), runs("a", C, **other), errors), "latex")
    assert next(iter(other.values())) in text
    assert "my\\_alg \\& co" in text
    assert "50\\%\\#1" in text
    assert "test mse" in text
    assert "0.55 $\\pm$ 0.6353}" in text, "12.706 s / sqrt(2)"


@pytest.mark.parametrize("form", ["csv", "md", "latex"])
def test_an_empty_board_renders(form):
    assert render(board_of(), form)


def test_the_table_says_what_is_noise_and_shows_digits_that_the_interval_allows():
    text = " ".join(shown(board_of(runs("a", A), runs("b", B), runs("[red]x", C)), 120))
    assert "2 of 3 may be the best: a, b." in text
    assert "[red]x" in text, "no markup"
    half = stats.t.ppf(0.975, 4) * stats.sem(A)
    for scale, shown_as in ((1, f"91.0 ± {100 * half:.1f}"), (50, f"91.00 ± {2 * half:.2f}")):
        scores = [0.91 + (score - 0.91) / scale for score in A]
        (row,) = [line for line in shown(board_of(runs("a", scores)), 100) if "│ a " in line]
        assert f" {shown_as} " in row


def test_how_configurations_were_found_is_said_by_sweep_where_it_differs():
    board = board_of(runs("a", A))
    for ways, said in (
        ({"day": "random search", "night": "random search"}, "random search. "),
        ({"day": "grid", "night": "random search"}, "grid (day), random search (night). "),
    ):
        assert f"Searched by {said}" in render(replace(board, searched=ways), "md")


OUTSIDE = "participation is 0.2, its paper's 1.0: few are awake_"


def test_rows_outside_their_papers_settings_and_references_have_no_rank_and_stand_below():
    upper = [s + 0.05 for s in A]
    found = runs("gossip", upper, reference=True, outside=OUTSIDE)
    board = board_of(found, runs("b", B), runs("a", A), runs("all", upper, reference=True))
    assert [(row.algorithm, row.rank) for row in board.rows[:2]] == [("a", 1), ("b", 2)]
    assert {(row.algorithm, row.rank) for row in board.rows[2:]} == {
        ("all", None),
        ("gossip", None),
    }
    assert board.rows[-1].behind == pytest.approx(-0.05)
    alone = board_of(runs("a", A), runs("b", B))
    assert board.differences == alone.differences
    assert board.rows[1].behind_high == alone.rows[1].behind_high
    (note,) = setting_notes(board.rows)
    markdown, latex = render(board, "md"), render(board, "latex")
    assert "| - | all | 96.0 ± 2.0 | -5.0 points |" in markdown
    assert "Not ranked: gossip (participation is 0.2, its paper's 1.0)." in markdown
    assert note in markdown
    assert note in " ".join(shown(board, 200, explain=True))
    assert note not in " ".join(shown(board, 200))
    assert latex.index("b & ") < latex.index("gossip & 96.0")
    (row,) = [row for row in rows_of(board) if row["outside"]]
    assert (row["algorithm"], row["rank"], row["outside"]) == ("gossip", "", OUTSIDE)
    assert "Nothing is ranked." in render(board_of(runs("all", A, reference=True)), "md")


def test_a_row_away_from_its_papers_setting_keeps_its_rank_and_has_a_note():
    folb, c = runs("folb", B, away="steps are equal"), runs("c", B, reference=True, away="x")
    board = board_of(runs("a", A), folb, c)
    assert [(row.algorithm, row.rank, row.away) for row in board.rows] == [
        *(("a", 1, ""), ("folb", 2, "steps are equal"), ("c", None, ""))
    ]
    assert len(setting_notes(board.rows)) == 1
    other = runs("folb", B, away="steps are equal", heterogeneity=LEVEL)
    assert len(setting_notes(board_of(folb, other).rows)) == 1, "one reason once over scenarios"


def test_a_sweep_that_grew_keeps_its_row_unranked():
    old, new = runs("gossip", A[:2]), runs("gossip", A, reference=True, outside=OUTSIDE)[2:]
    board = board_of(old + new, runs("b", B))
    assert [row.rank for row in board.rows] == [1, None]
