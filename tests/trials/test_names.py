"""Names of algorithms, data sets, models and levels: one spelling each, the nearest for a wrong one."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trials import algorithms, datasets, heterogeneity, models
from trials.common.errors import UserError
from trials.run.scenario import Scenario
from trials.run.spec import canonical
from trials.settings import Settings

levels = st.one_of(
    st.just("iid"),
    st.just("natural"),
    st.floats(min_value=0, exclude_min=True, allow_infinity=False).map(lambda a: f"dirichlet({a})"),
    st.integers(1, 99).map(lambda c: f"labels( {c} )"),
)
systems = st.one_of(
    st.just(""),
    st.tuples(st.integers(1, 50), st.integers(0, 50)).map(
        lambda r: f" + system(steps={r[0]}..{r[0] + r[1]})"
    ),
)


@given(levels, systems)
def test_levels_are_spelled_one_way(level, system):
    parsed = heterogeneity.parse(level + system)
    again = heterogeneity.parse(parsed.name)
    assert again == parsed
    assert " " not in parsed.name
    assert len(parsed.modifiers) == bool(system)
    named = level.replace("dirichlet(", "dirichlet(a=").replace("labels(", "labels(c=")
    assert heterogeneity.parse(named + system) == parsed


@pytest.mark.parametrize(
    ("parse", "written", "canonical"),
    [
        (lambda t: heterogeneity.parse(t).name, "dirichlet(0.30)", "dirichlet(0.3)"),
        (lambda t: heterogeneity.parse(t).name, "dirichlet(a=1.0)", "dirichlet(1)"),
        (lambda t: heterogeneity.parse(t).name, "labels( 2 )", "labels(2)"),
        (
            lambda t: heterogeneity.parse(t).name,
            "dirichlet(3e-1) + system( steps = 1..20 )",
            "dirichlet(0.3)+system(steps=1..20)",
        ),
        (models.canonical, "mlp", "mlp"),
        (models.canonical, "mlp(200, 200)", "mlp"),
        (models.canonical, "mlp(64)", "mlp(64,200)"),
        (models.canonical, "mlp(width2=8)", "mlp(200,8)"),
        (models.canonical, "logreg()", "logreg"),
        (datasets.canonical, "synthetic(1.0, 0.50)", "synthetic(1,0.5)"),
        (datasets.canonical, "digits", "digits"),
        (datasets.canonical, "npz:/tmp/../tmp/a.npz", f"npz:{Path('/tmp/a.npz').resolve()}"),
    ],
)
def test_canonical_names(parse, written, canonical):
    assert parse(written) == canonical
    assert parse(canonical) == canonical


@pytest.mark.parametrize(
    ("parse", "known"),
    [
        (datasets.parse, "digits, emnist_byclass"),
        (models.parse, "lenet5, .*logreg, .*mlp"),
        (algorithms.resolve, "fedavg, fedavgm, .*safl"),
    ],
)
def test_a_name_that_is_near_to_none_gets_the_list(parse, known):
    with pytest.raises(UserError, match=f"Known: .*{known}"):
        parse("qqqqqqqqqqqq")


def key(level: str) -> str:
    place = Scenario("digits", "logreg", heterogeneity.parse(level).name)
    return canonical("fedavg", {}, place, Settings(), 0).data_key


def test_data_keys_tell_levels_apart_but_not_their_systems():
    assert key("dirichlet(0.3)+system(steps=1..2)") == key("dirichlet(0.3)")
    found = [key(f"dirichlet({a})") for a in ("0.3", "0.4", "1e16", "1e18", "1e-7", "1e-9")]
    assert len(set(found)) == len(found)
