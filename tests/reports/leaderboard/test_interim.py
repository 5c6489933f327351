"""Standings of scenarios that are not over."""

from reports.leaderboard.interim import Standing, ranked


def standing(algorithm: str, level: str, best: float) -> Standing:
    cell = ("digits", "logreg", level)
    counts = {"trials": 1, "planned": 2, "finals": 0, "seeds": 1}
    names = {"sweep": "s", "study": "s", "entry_id": algorithm + level}
    return Standing(
        algorithm, *cell, "val_accuracy", None, best, **counts, params={}, reference=False, **names
    )


def test_a_method_that_a_sweep_was_extended_by_is_ranked_in_its_cell():
    """Its entries were recorded after those of all other scenarios."""
    first = [standing(a, level, 0.8) for level in ("iid", "labels(2)") for a in ("fedavg", "folb")]
    added = [standing("safl", "iid", 0.9), standing("safl", "labels(2)", 0.7)]
    found = [(one.heterogeneity, one.algorithm, one.rank) for one in ranked([*first, *added])]
    assert found == [
        ("iid", "safl", 1),
        ("iid", "fedavg", 2),
        ("iid", "folb", 2),
        ("labels(2)", "fedavg", 1),
        ("labels(2)", "folb", 1),
        ("labels(2)", "safl", 3),
    ]
