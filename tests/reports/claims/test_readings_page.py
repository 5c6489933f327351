"""The page on a paper's readings, line by line."""

from typing import Any

from reports.claims.readings_page import LEGEND, readings_page


def number(method: str, published: str, measured: float | None, **more: Any) -> dict[str, Any]:
    """A baseline's number under a reading, reproduced and in order."""
    facts = {"method": method, "metric": "rounds_to(80)", "published": published, "seeds": 3}
    facts["reached"] = 0 if measured is None else 3
    facts |= {"measured": measured, "off": 0.5, "reproduced": True, "in_order": True, "spread": 2.0}
    return {**facts, **more}


def reading(place: int, lr: float, explains: bool, *numbers: dict[str, Any]) -> dict[str, Any]:
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
    facts = {"number": place, "values": values, "screened": [], "explained": list(numbers)}
    facts |= {"misfit": 0.5, "explains": explains, "alike": []}
    return {**facts, "numbers": own if explains else [], "claims": []}  # fmt: skip


def report(*readings: dict[str, Any], explaining: list[int]) -> dict[str, Any]:
    """A document of one row."""
    draw = {"data_seed": 0, "partition_seed": "per seed"}
    opened = [
        {"name": "lr", "of": "all", "values": [{"value": 0.1, "why": "one", "default": True}]},
        {
            "name": "draw",
            "of": ["folb"],
            "values": [{"value": draw, "why": "two", "default": True}],
        },
    ]
    given = {"verdict": "depends on the reading", "of": 2, "holds_under": [4]}
    judged = [
        {"says": "FOLB is first", "answer": {**given, "decided_by": {"lr": 0.75, "draw": 0.25}}}
    ]
    row = {
        "table": "t", "row": "r", "source": "Table I", "about": "rounds", "dataset": "mnist",
        "model": "logreg", "heterogeneity": "iid", "open": opened, "readings": list(readings),
        "screened": 9, "explaining": explaining, "best": readings[0]["number"], "decides": {"lr": 0.6},
        "held_out": (3, 1), "judged": judged, "seeds": 3, "seconds": 12.0, "note": "",
    }  # fmt: skip
    return {
        "paper": "FOLB", "cites": "X", "command": "suite reproduce folb --readings", "protocol": "p",
        "verdicts": {"depends on the reading": 1}, "rules": ["A rule."], "rows": [row],
    }  # fmt: skip


def test_a_row_that_is_explained():
    numbers = [number("fedavg", "25", 24.0), number("fedprox", "20", 21.0)]
    off = number("fedavg", "25", None, reproduced=False, in_order=False, spread=None)
    once = number("fedprox", "20", None, reproduced=False, reached=1)
    text = readings_page(
        report(
            reading(4, 0.1, True, *numbers),
            reading(2, 0.01, False, off, once),
            explaining=[4],
        )
    )
    for line in (
        "A reading takes one candidate of each setting that the paper leaves open; the rules are at the end.",
        "**1 of 9 readings explain the baselines: 4.**",
        "| FOLB is first | depends on the reading | 1 of 2 | lr 75%, draw 25% |",
        "Fitted on 2 numbers of 2 baselines: screened with 1 seed, then with 3 where the table says so. All "
        "runs took 12 s of rounds.",
        "What decides how far the baselines are off: lr 60%, combinations of them 40%.",
        "Cross-check: 3 readings explain the baselines of the other rows, in the settings that all of these "
        "rows have open; 1 of them explain this row's.",
        "| reading | lr | draw | seeds | off | fedavg rounds_to(80), printed 25 | fedprox rounds_to(80), "
        "printed 20 | the paper's folb rounds_to(80), printed 11 |",
        "| **4** | 0.1 | data_seed 0, partition_seed per seed | 3 | 0.5 | 24 (sd 2) | 21 (sd 2) | 12 |",
        "| 2 | 0.01 | data_seed 0, partition_seed per seed | 3 | 0.5 | never, off, other order | "
        "never in 2 of 3, off |  |",
        LEGEND,
        "- draw (of folb): data_seed 0, partition_seed per seed (default): two",
    ):
        assert line in text.splitlines()


def test_a_row_with_one_number_says_so_and_one_without_explanation_names_the_nearest():
    text = readings_page(
        report(reading(2, 0.1, False, number("fedavg", "25", 40.0)), explaining=[])
    )
    assert (
        "**no reading of 9 explains the baselines (nearest: reading 2, 0.5 tolerances off in the mean).**"
        in text
    )
    assert (
        "Fitted on 1 number of 1 baseline: screened with 1 seed, then with 3 where the table says so. All "
        "runs took 12 s of rounds. One number is little to fit on: a reading may meet it by chance."
    ) in text


def test_readings_that_fit_alike_share_a_line():
    """They differ in the draw, which is the paper's own method's alone."""
    alike = reading(2, 0.1, False, number("fedavg", "25", 40.0)) | {"alike": [5, 7]}
    text = readings_page(report(alike | {"values": {"lr": 0.1}}, explaining=[]))
    assert "| 2, 5, 7 | 0.1 | any | 3 | 0.5 | 40 (sd 2) |" in text
    assert "more readings" not in text
    farther = [reading(i, 0.1, False, number("fedavg", "25", 24.0)) for i in range(10, 23)]
    text = readings_page(report(*farther, alike, explaining=[]))
    assert "4 more readings, none of which" in text


def test_a_list_of_values_is_the_best_of_them():
    best = reading(1, 0.1, True, number("fedavg", "25", 24.0))
    best["values"] = {"lr": {"server_lr": [0.01, 0.1]}, "draw": 0}
    text = readings_page(report(best, explaining=[1]))
    assert "| **1** | best of 0.01, 0.1 | 0 | 3 |" in text


def test_all_that_explain_are_shown_however_many_are_nearer():
    """Twelve that do not explain are nearer than the last, which does."""
    plain = [reading(i, 0.1, False, number("fedavg", "25", 24.0)) for i in range(1, 15)]
    text = readings_page(
        report(*plain, reading(20, 0.1, True, number("fedavg", "25", 24.0)), explaining=[20])
    )
    assert "| **20** |" in text
    assert (
        "2 more readings, none of which explains the baselines, are in the JSON document." in text
    )
