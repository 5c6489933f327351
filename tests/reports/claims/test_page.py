"""Pages of papers."""

from reports.claims.page import row_blocks


def test_a_target_that_a_paper_never_reached_has_no_unit():
    number = {"method": "fedprox", "metric": "rounds_to(80)", "published": "never"}
    number |= {"unit": "rounds", "measured": None, "difference": None, "verdict": "not run"}
    row = {"source": "Table I", "table": "table1", "row": "mnist", "about": "rounds", "note": ""}
    row |= {"dataset": None, "model": None, "heterogeneity": None, "claims": [], "runs": 0}
    row |= {"settings": [], "readings": [], "numbers": [{**number, "reason": "no data"}]}
    (line,) = row_blocks(row)[-1].lines
    assert line.texts == ["fedprox", "rounds_to(80)", "never", "", "", "not run (no data)"]
