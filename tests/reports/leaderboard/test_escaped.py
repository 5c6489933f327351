"""Names that a store holds are no formulas of a spreadsheet and no HTML of a page."""

import csv
import io
import re

import pytest

from reports.leaderboard.comparable import FinalRun
from reports.leaderboard.leaderboard import leaderboard
from reports.wording.formats import render
from trials.run.spec import Scenario
from trials.scoring.metrics import COUNTED


def board(algorithm: str):
    found = [
        FinalRun(
            algorithm=algorithm,
            seed=seed,
            score=0.9,
            entry_id="1",
            sweep="=night",
            study="quick",
            paper="@paper",
            scenario=Scenario("digits", "logreg", "iid"),
            metric="accuracy",
            diverged=False,
            spent=dict.fromkeys(COUNTED, 0.0),
            params={"lr": 0.1},
        )
        for seed in (1, 2)
    ]
    return leaderboard(found, {}, None)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        *(
            (name, f"'{name}")
            for name in ("=HYPERLINK(1)", "+1", "-1", "@SUM(1)", " =1", "\n=1", "＝1")
        ),
        ("\x1b=1", "'=1"),
        ("\u202e@1", "'@1"),
        ("a\x1b[2J=1", "a[2J=1"),
    ],
)
def test_no_cell_of_a_spreadsheet_is_a_formula(name, shown):
    (row,) = csv.DictReader(io.StringIO(render(board(name), "csv")))
    assert row["algorithm"] == shown
    assert (row["sweep"], row["paper"], row["dataset"]) == ("'=night", "'@paper", "digits")
    assert float(row["mean"]) == 0.9


def test_markdown_has_no_html():
    text = render(board("<img src=x onerror=alert(1)>"), "md")
    assert not re.search(r"<\w", text)
    assert "&lt;img src=x onerror=alert(1)>" in text
