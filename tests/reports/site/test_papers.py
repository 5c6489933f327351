"""Pages of papers on a site."""

from reports.site.papers import _row


def test_a_target_that_a_paper_never_reached_has_no_unit():
    number = {"method": "fedprox", "metric": "rounds_to(80)", "published": "never"}
    number |= {"unit": "rounds", "measured": None, "difference": None, "verdict": "not run"}
    row = {"source": "Table I", "table": "table1", "row": "mnist", "about": "rounds", "note": ""}
    row |= {"dataset": None, "model": None, "heterogeneity": None, "claims": []}
    (line,) = _row({**row, "numbers": [{**number, "reason": "no data"}]})["numbers"]
    assert line == ["fedprox", "rounds_to(80)", "never", "", "", "not run (no data)"]
