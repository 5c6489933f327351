"""The page on a paper's readings, line by line."""

from typing import Any

from reports.claims.readings_page import LEGEND, readings_page

TABLE = {
    "table": "t", "rows": ["r"], "readings": 12, "judging": 9, "left": 1, "best_p": 0.25,
    "candidates": "0123456789ab", "left_by_chance": 0.125, "recall": 0.9,
}  # fmt: skip


def number(method: str, published: str, measured: float | None, **more: Any) -> dict[str, Any]:
    """A baseline's number under a reading."""
    facts = {"method": method, "metric": "rounds_to(80)", "published": published, "seeds": 3}
    facts["reached"] = 0 if measured is None else 3
    facts |= {"measured": measured, "off": 0.5, "spread": 2.0}
    return {**facts, **more}


def reading(place: int, lr: float, left: bool, *numbers: dict[str, Any]) -> dict[str, Any]:
    """A reading with two open settings: a rate, and a draw with two parts."""
    values = {"lr": lr, "draw": {"data_seed": 0, "partition_seed": "per seed"}}
    own = [
        {
            "method": "folb",
            "metric": "rounds_to(80)",
            "published": "11",
            "measured": 12.0,
            "reached_share": 1,
        }
    ]
    facts = {"number": place, "values": values, "screened": [], "compared": list(numbers)}
    facts |= {
        "misfit": 0.5,
        "left": left,
        "alike": [],
        "apart": "",
        "p": 0.25,
        "weight": 0.5 * left,
    }
    return {**facts, "numbers": own if left else [], "claims": []}  # fmt: skip


def report(*readings: dict[str, Any], left: list[int]) -> dict[str, Any]:
    """A document of one row."""
    draw = {"data_seed": 0, "partition_seed": "per seed"}
    opened = [
        {
            "name": "lr",
            "of": "all",
            "values": [{"value": 0.1, "why": "one", "says": "ours", "default": True}],
        },
        {
            "name": "draw",
            "of": ["folb"],
            "values": [{"value": draw, "why": "two", "says": "paper", "default": True}],
        },
    ]
    given = {"verdict": "undecided", "of": 2}
    judged = [{"says": "FOLB is first", "answer": given}]
    row = {
        "table": "t", "row": "r", "source": "Table I", "about": "rounds", "dataset": "mnist",
        "model": "logreg", "heterogeneity": "iid", "open": opened, "readings": list(readings),
        "screened": 9, "left": left, "best": readings[0]["number"],
        "judged": judged, "seeds": 3, "seconds": 12.0, "note": "",
    }  # fmt: skip
    return {
        "paper": "FOLB", "cites": "X", "command": "suite reproduce folb --readings", "protocol": "p",
        "verdicts": {"undecided": 1}, "rules": ["A rule."], "rows": [row], "tables": [TABLE],
    }  # fmt: skip


def test_a_row_that_leaves_a_reading():
    numbers = [number("fedavg", "25", 24.0), number("fedprox", "20", 21.0)]
    off = number("fedavg", "25", None, spread=None)
    once = number("fedprox", "20", None, reached=1)
    text = readings_page(
        report(
            reading(4, 0.1, True, *numbers),
            reading(2, 0.01, False, off, once) | {"apart": "against"},
            left=[4],
        )
    )
    for line in (
        "A reading takes one candidate of each setting that the paper leaves open; the rules are at the end.",
        "**t, 1 row together: 1 of 9 readings is left.** 3 more are against the paper's text or late, and "
        "judge nothing. Of tables with every number shifted at random by up to two tolerances, 12% leave some reading. What "
        "one of its own seeds would have printed leaves a reading in 90%. Candidates: `0123456789ab`.",
        "**1 of 9 readings is left: 4.**",
        "| FOLB is first | undecided | 2 |",
        "Held against 2 numbers of 2 baselines: screened with 1 seed, then with 3 where one does not refute. All "
        "runs took 12 s of rounds.",
        "| reading | lr | draw | apart | seeds | p | weight | off | fedavg rounds_to(80), printed 25 | fedprox rounds_to(80), "
        "printed 20 | the paper's folb rounds_to(80), printed 11 |",
        "| **4** | 0.1 | data_seed 0, partition_seed per seed |  | 3 | 0.25 | 0.50 | 0.5 | 24 (sd 2) | 21 (sd 2) | 12 |",
        "| 2 | 0.01 | data_seed 0, partition_seed per seed | against the text | 3 | 0.25 |  | 0.5 | never | "
        "never in 2 of 3 |  |",
        LEGEND,
        "- draw (of folb): data_seed 0, partition_seed per seed (the paper, default): two",
    ):
        assert line in text.splitlines()


def test_a_row_that_leaves_no_reading_names_the_nearest():
    text = readings_page(report(reading(2, 0.1, False, number("fedavg", "25", 40.0)), left=[]))
    assert (
        "**0 of 9 readings are left (nearest: reading 2, 0.5 tolerances off here in the mean).**"
        in text
    )


def test_readings_of_alike_baselines_share_a_line():
    """They differ in the draw, which is the paper's own method's alone."""
    alike = reading(2, 0.1, False, number("fedavg", "25", 40.0)) | {"alike": [5, 7]}
    text = readings_page(report(alike | {"values": {"lr": 0.1}}, left=[]))
    assert "| 2, 5, 7 | 0.1 | any |  | 3 | 0.25 |  | 0.5 | 40 (sd 2) |" in text
    assert "more readings" not in text
    farther = [reading(i, 0.1, False, number("fedavg", "25", 24.0)) for i in range(10, 23)]
    text = readings_page(report(*farther, alike, left=[]))
    assert "4 more readings, none of which" in text


def test_a_list_of_values_is_the_best_of_them():
    best = reading(1, 0.1, True, number("fedavg", "25", 24.0))
    best["values"] = {"lr": {"server_lr": [0.01, 0.1]}, "draw": 0}
    text = readings_page(report(best, left=[1]))
    assert "| **1** | best of 0.01, 0.1 | 0 |  | 3 |" in text


def test_all_that_are_left_are_shown_however_many_are_nearer():
    """Twelve that are ruled out are nearer than the last, which is left."""
    plain = [reading(i, 0.1, False, number("fedavg", "25", 24.0)) for i in range(1, 15)]
    text = readings_page(
        report(*plain, reading(20, 0.1, True, number("fedavg", "25", 24.0)), left=[20])
    )
    assert "| **20** |" in text
    assert "2 more readings, none of which is left, are in the JSON document." in text
