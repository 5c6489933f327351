"""Names of algorithms, data sets, models and levels: one spelling each, the nearest for a wrong one."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trials import datasets, heterogeneity, models

LEVELS = st.one_of(
    st.sampled_from(["iid", "natural"]),
    st.floats(min_value=0, exclude_min=True, allow_infinity=False).map(lambda a: f"dirichlet({a})"),
    st.integers(1, 99).map(lambda c: f"labels( {c} )"),
)
SYSTEMS = st.tuples(st.integers(1, 50), st.integers(0, 50)).map(
    lambda r: f" + system(steps={r[0]}..{r[0] + r[1]})"
)


@given(LEVELS, st.one_of(st.just(""), SYSTEMS))
def test_levels_are_spelled_one_way(level, system):
    parsed = heterogeneity.parse(level + system)
    assert heterogeneity.parse(parsed.name) == parsed
    assert " " not in parsed.name
    assert len(parsed.modifiers) == bool(system)
    named = level.replace("dirichlet(", "dirichlet(a=").replace("labels(", "labels(c=")
    assert heterogeneity.parse(named + system) == parsed


@pytest.mark.parametrize(
    ("parse", "written", "canonical"),
    [
        (lambda t: heterogeneity.parse(t).name, "dirichlet(a=1.0)", "dirichlet(1)"),
        (
            lambda t: heterogeneity.parse(t).name,
            "dirichlet(3e-1) + system( steps = 1..20 )",
            "dirichlet(0.3)+system(steps=1..20)",
        ),
        (models.canonical, "mlp(200, 200)", "mlp"),
        (models.canonical, "mlp(64)", "mlp(64,200)"),
        (models.canonical, "mlp(width2=8)", "mlp(200,8)"),
        (models.canonical, "logreg()", "logreg"),
        (models.canonical, "lenet5_fedagg(6)", "lenet5_fedagg"),
        (datasets.canonical, "synthetic(1.0, 0.50)", "synthetic(1,0.5)"),
        (datasets.canonical, "npz:/tmp/../tmp/a.npz", f"npz:{Path('/tmp/a.npz').resolve()}"),
    ],
)
def test_canonical_names(parse, written, canonical):
    assert parse(written) == canonical
    assert parse(canonical) == canonical
