"""Open settings of a paper's file: what a reading changes, what is refused, in which order they come."""

from dataclasses import replace

import pytest

from suite.reproduction.experiments import PER_SEED, experiment, read_paper, selected
from suite.reproduction.fit_rows import FitRow
from suite.reproduction.plan import Effort
from suite.reproduction.readings import (
    check_open,
    default_reading,
    otherwise,
    read,
    readings,
)
from tests.support.papers import OPEN, SMALL, opened, toy
from trials.common.errors import UserError


def test_the_default_reading_changes_nothing():
    made = opened()
    assert default_reading(made).picks == dict.fromkeys(made.open, 0)
    assert read(made, readings(made)[0]) == made


def test_all_combinations_the_default_first_then_single_changes():
    made = opened()
    found = readings(made)
    assert len(found) == len({tuple(r.picks.values()) for r in found}) == 2 * 2 * 2 * 2 * 3
    changed = [sum(i != 0 for i in r.picks.values()) for r in found]
    assert changed[:7] == [0, 1, 1, 1, 1, 1, 1]
    assert set(changed[7:]) == {2, 3, 4, 5}
    assert [r.picks for r in found] == [r.picks for r in readings(opened())]


def test_a_reading_reaches_settings_places_draws_and_scores():
    made = opened()
    other = next(r for r in readings(made) if set(r.picks.values()) == {1})
    changed = read(made, other).methods["fedavg"]
    spec = changed.spec({}, 3, 5, 5)
    assert spec.heterogeneity == "iid+system(epochs=1..3)"
    assert (spec.settings.aggregation, spec.settings.momentum) == ("plain", 0.5)
    assert (spec.seed, spec.settings.partition_seed, spec.settings.data_seed) == (3, 7, 0)
    assert changed.decisions["momentum"].why == "other"
    assert (changed.value("scored"), made.methods["fedavg"].value("scored")) == ("best", "last")
    assert made.methods["fedavg"].value("partition_seed") == PER_SEED


def test_an_open_setting_concerns_the_methods_it_names():
    text = SMALL.replace("paper: Toy", "paper: FOLB").replace(
        "fedavg: {}", "fedavg: {}\n      folb: {params: {mu: 0.1, variant: plain}}"
    )
    made = toy(text.replace("\n    rows:\n", OPEN, 1))
    assert made.own == {"folb"}
    changed = next(
        r
        for r in readings(made)
        if {k for k, i in r.picks.items() if i} == {"weighting of the baselines"}
    )
    weighting = {m: c.value("aggregation") for m, c in read(made, changed).methods.items()}
    assert weighting == {"fedavg": "plain", "fedprox": "plain", "folb": "samples"}


def test_a_setting_that_changes_nothing_here_is_left_out():
    text = OPEN.replace(
        "{values: [[{partition_seed: per seed}, one]",
        "{of: own, values: [[{partition_seed: per seed}, one]",
    )
    assert "draw" not in default_reading(opened(text)).picks


SEARCHED = SMALL.replace("{params: {mu: 0.1}}", "{search: {mu: [0.1, 1.0]}}")
MU = "\n    open: {mu: {of: [fedprox], values: [[[0.1, 1.0], best], [0.1, one], [[], none]]}}\n    rows:\n"


def test_the_best_of_several_values_is_a_candidate_and_one_of_them_another():
    made = toy(SEARCHED.replace("\n    rows:\n", MU.replace(", [[], none]", ""), 1))
    check_open(made)
    best, one = (read(made, reading).methods["fedprox"] for reading in readings(made))
    assert best == made.methods["fedprox"]
    assert (best.variants, best.value("mu")) == ([{"mu": 0.1}, {"mu": 1.0}], [0.1, 1.0])
    assert (one.variants, one.value("mu")) == ([{}], 0.1)
    assert one.spec({}, 0, 5, 5) == best.spec({"mu": 0.1}, 0, 5, 5), "the run is the same"
    both = MU.replace(
        "[[[0.1, 1.0], best], [0.1, one], [[], none]]", "[[0.1, one], [[1.0, 0.1], best]]"
    )
    decided = toy(
        SMALL.replace("{params: {mu: 0.1}}", "{chosen: {mu: [0.1, one]}}").replace(
            "\n    rows:\n", both, 1
        )
    )
    check_open(decided)
    best = read(decided, readings(decided)[1]).methods["fedprox"]
    assert best.variants == [{"mu": 1.0}, {"mu": 0.1}]
    (fixed,) = otherwise([made], {"mu": 0.5})
    assert fixed.methods["fedprox"].variants == [{}]
    assert (
        fixed.methods["fedprox"].decisions["mu"].why == "--set; the suite's own choice: [0.1, 1.0]"
    )
    with pytest.raises(UserError, match=r"mu = \[\]: must name at least one value"):
        check_open(toy(SEARCHED.replace("\n    rows:\n", MU, 1)))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("momentum: {values", "lr: {values", "toy/one/iid: 2 faults, nothing was started\n  open.lr = 'lr': is stated by the paper for fedavg"),
        ("momentum: {values: [[0.0", "momentum: {values: [[0.1", "open.momentum: what is chosen has to be one of the candidates"),
        ("of: baselines", "of: [fedavgg]", "Did you mean 'fedavg'?"),
        ("momentum: {values", "momentun: {values", "Did you mean 'momentum'?"),
        ("[0.9, third]", "[9.0, third]", "momentum = 9.0: must be less than 1"),
        ("iid+system(epochs=1..3)", "iidd", "Did you mean 'iid'?"),
        ("{scored: best}", "{scored: first}", "unknown scored 'first'. Known: best, last."),
        ("{scored: best}", "{scored_model: avrage}", "unknown scored_model 'avrage'. Did you mean 'average'?"),
    ],
)  # fmt: skip
def test_what_cannot_be_open(old, new, said):
    assert old in OPEN
    with pytest.raises(UserError) as refused:
        check_open(opened(OPEN.replace(old, new)))
    assert said in str(refused.value)


@pytest.mark.parametrize("place", selected(None), ids="/".join)
def test_the_open_settings_of_the_shipped_papers_are_sound(place):
    made = experiment(read_paper(place[0]), *place)
    if made is not None:
        check_open(made)


def test_set_reaches_what_is_open_and_one_method_alone():
    made = opened()
    (level,) = otherwise([made], {"heterogeneity": "iid+system(epochs=1..2)"})
    assert level.methods["fedavg"].scenario.heterogeneity == "iid+system(epochs=1..2)"
    (fixed,) = otherwise([made], {"partition_seed": 3})
    assert fixed.methods["fedavg"].spec({}, 1, 5, 5).settings.partition_seed == 3
    (one,) = otherwise([made], {"fedprox.aggregation": "plain"})
    assert [one.methods[m].value("aggregation") for m in ("fedavg", "fedprox")] == [
        "samples",
        "plain",
    ]
    assert one.methods["fedprox"].decisions["aggregation"].why == (
        "--set; the suite's own choice: samples"
    )
    closed = replace(made, open={})
    (scored,) = otherwise([closed], {"scored": "best", "fedavg.partition_seed": 3})
    assert [scored.methods[m].value("scored") for m in ("fedavg", "fedprox")] == ["best"] * 2
    assert [scored.methods[m].value("partition_seed") for m in ("fedavg", "fedprox")] == [
        3,
        PER_SEED,
    ]
    with pytest.raises(UserError, match="unknown scored 'frist'"):
        otherwise([closed], {"scored": "frist"})
    with pytest.raises(UserError, match="--set dataset: the paper states it"):
        otherwise([made], {"dataset": "digits"})
    with pytest.raises(UserError, match="unknown method 'fedprx'"):
        otherwise([made], {"fedprx.aggregation": "plain"})


def test_the_fit_never_sees_the_methods_numbers():
    """Screening and full runs, and what they are held against, are the same whatever is printed of FOLB."""
    paper = read_paper("folb")
    row = paper.tables["table1"].rows["mnist"]
    other = row.model_copy(
        update={"numbers": {k: {**v, "folb": 199} for k, v in row.numbers.items()}}
    )
    table = paper.tables["table1"]
    table = table.model_copy(update={"rows": {**table.rows, "mnist": other}})
    changed = paper.model_copy(update={"tables": {**paper.tables, "table1": table}})
    fits = [
        FitRow.of(p, experiment(p, "folb", "table1", "mnist"), Effort(2)) for p in (paper, changed)
    ]
    assert fits[0].numbers == fits[1].numbers == {"rounds_to(80)": {"fedprox": 25, "fedavg": 25}}
    for plan in (FitRow.screen, FitRow.full):
        jobs = [{k: j.id for k, j in plan(fit, 5).jobs.items()} for fit in fits]
        assert jobs[0] == jobs[1]
        assert {method for method, _, _ in jobs[0]} == {"fedprox", "fedavg"}
