"""A leaderboard as CSV, JSON, Markdown and LaTeX: the same numbers in each, and what others wrote is text."""

import csv
import io
import json
import random
import re

import pytest
from scipy import stats

from reports.leaderboard.board import Leaderboard
from reports.wording.tables import render
from reports.wording.words import behind_text, setting_notes
from tests.support.boards import LEVEL, A, B, C, at, board_of, run, runs, shown
from tests.support.contract import FIELDS
from trials.common.errors import UserError


def typical() -> Leaderboard:
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
    return board_of(found, target=0.9)


def rows_of(board: Leaderboard, *columns: str) -> list[dict[str, str]]:
    return [*csv.DictReader(io.StringIO(render(board, "csv", columns)))]


def test_csv_parses_back_to_the_last_bit_and_json_has_the_same_fields():
    board = typical()
    rows, document = rows_of(board), json.loads(json.dumps(board.as_dict()))
    assert set(rows[0]) >= FIELDS
    assert all(set(row) >= FIELDS for row in document["rows"])
    for text, row in zip(rows, board.rows, strict=True):
        assert (text["algorithm"], text["heterogeneity"]) == (row.algorithm, row.heterogeneity)
        for field in ("mean", "ci_low", "ci_high", "reached_share", "uploaded_bytes"):
            assert float(text[field]) == getattr(row, field)
        assert int(text["rank"]) == row.rank
        assert text["behind_low"] == ("" if row.behind_low is None else repr(row.behind_low))
        assert "lr=0.123" in text["params"]
        assert not any(value.startswith(("(", "[", "{")) for value in text.values())


def test_columns_are_chosen_in_csv_and_markdown_too():
    board = board_of(runs("a", A), runs("b", B, worst_clients=0.5))
    (first, second) = rows_of(board, "worst 10 %", "trials")
    assert (first["worst_clients"], second["worst_clients"], first["trials"]) == ("", "0.5", "0")
    assert "client_spread" not in first
    usual, more = (render(board, "md", columns) for columns in (["MB"], ["trials"]))
    assert ("| trials |" in usual, "| trials |" in more) == (False, True)
    for form in ("csv", "md"):
        with pytest.raises(UserError):
            render(board, form, ["worst 10"])


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        *((name, f"'{name}") for name in ("=HYPERLINK(1)", "+1", "-1", "@SUM(1)", " =1", "＝1")),
        *(("\x1b=1", "'=1"), ("\u202e@1", "'@1"), ("a\x1b[2J=1", "a[2J=1")),
    ],
)
def test_no_cell_of_a_spreadsheet_is_a_formula(name, cell):
    (row,) = rows_of(board_of(runs(name, A, sweep="=night")))
    assert (row["algorithm"], row["sweep"]) == (cell, "'=night")


def test_markdown_has_no_html_and_a_name_is_one_cell():
    lines = render(typical(), "md").splitlines()
    rows = [line for line in lines if line.startswith("| ") and line.count("|") > 4]
    assert (len(rows), len({line.count("|") for line in rows})) == (2 * (1 + 4), 1)
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
    assert "0.55 $\\pm$ 0.6353}" in text, "12.706 s / sqrt(2)"


@pytest.mark.parametrize("form", ["csv", "md", "latex"])
def test_an_empty_board_renders(form):
    assert render(board_of(), form)


@pytest.mark.parametrize(
    ("samples", "scale", "mean", "digits"),
    [
        *((0, 1, "91.0", 1), (360, 1, "91.0", 1), (360, 50, "91.0", 1), (10_000, 50, "91.00", 2)),
        *((10_000, 1, "91.0", 1), (100, 1, "91", 0), (20, 50, "91", 0)),
    ],
)
def test_scores_have_the_digits_that_their_interval_and_the_test_set_allow(
    samples, scale, mean, digits
):
    """One of 360 samples is 0.28 points: the tenth is the last digit, as of the half width."""
    scores = [0.91 + (score - 0.91) / scale for score in A]
    lower = [score - 0.1 - seed / 1e4 for seed, score in enumerate(scores)]
    at_samples = {"test_samples": samples}
    board = board_of(runs("a", scores, **at_samples), runs("b", lower, **at_samples))
    half = 100 * stats.t.ppf(0.975, 4) * stats.sem(scores)
    (row,) = [line for line in shown(board, 100) if "│ a " in line]
    assert f" {mean} ± {half:.{digits}f} " in row
    low, high = (f"{100 * end:.{digits}f}" for end in (board.rows[1].behind_low, board.rows[1].behind_high))  # fmt: skip
    assert behind_text(board.rows[1]) == f"{low} to {high} points"


def test_the_table_says_what_is_noise_and_whose_numbers_are_of_clients_own_models():
    text = " ".join(
        shown(board_of(runs("a", A), runs("b", B, own_models=True), runs("[red]x", C)), 120)
    )
    assert "2 of 3 may be the best: a, b." in text
    assert "b (own models)" in text
    assert "a (own" not in text
    assert "[red]x" in text, "no markup"


def test_notes_on_settings_are_said_once_and_in_every_format():
    outside = "participation is 0.2, its paper's 1.0: few are awake_"
    upper = runs("gossip", A, reference=True, outside=outside)
    away = [runs("folb", B, away="steps are equal", heterogeneity=level) for level in ("iid", LEVEL)]  # fmt: skip
    unranked = runs("c", B, reference=True, away="x")
    board = board_of(upper, runs("b", B), *away, unranked)
    notes = setting_notes(board.rows)
    assert len(notes) == 2, "one reason once over scenarios, and none of who has no rank"
    assert [row.rank for row in board.rows if row.algorithm == "folb"] == [1, 1]
    for note in notes:
        assert note in render(board, "md")
        assert note in render(board, "latex")
        assert note in " ".join(shown(board, 200, explain=True))
    assert "gossip (participation is 0.2, its paper's 1.0)" in " ".join(shown(board, 200))
    assert "Nothing is ranked." in render(board_of(runs("all", A, reference=True)), "md")
