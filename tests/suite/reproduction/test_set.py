"""`--set` of `suite reproduce`: what it reaches, what is refused, and that what it changes runs."""

import pytest

from suite.reproduction.experiments import (
    PER_SEED,
    Decision,
    otherwise,
)
from tests.support.papers import SMALL, toy
from trials.common.errors import UserError

SEARCHED = SMALL.replace("{params: {mu: 0.1}}", "{search: {mu: [0.1, 1.0]}}").replace(
    "\n    rows:\n", "\n    open: [mu, heterogeneity]\n    rows:\n", 1
)
OURS = "--set; the suite's own choice: "


def test_set_reaches_what_is_open_or_chosen_and_one_method_alone():
    made = toy(SEARCHED)
    (level,) = otherwise([made], {"heterogeneity": "iid + system(epochs = 1..2)"})
    fedavg = level.methods["fedavg"]
    assert fedavg.scenario.heterogeneity == "iid+system(epochs=1..2)"
    assert fedavg.readings == (f"heterogeneity = iid+system(epochs=1..2): {OURS}iid",)
    (fixed,) = otherwise([made], {"fedavg.partition_seed": 3, "momentum": 0.5})
    spec = fixed.methods["fedavg"].spec({}, 1, 5, 5)
    assert (spec.seed, spec.settings.partition_seed, spec.settings.momentum) == (1, 3, 0.5)
    assert fixed.methods["fedprox"].value("partition_seed") == PER_SEED
    assert fixed.methods["fedprox"].decisions["momentum"] == Decision(0.5, f"{OURS}0.0")
    assert fixed.methods["fedprox"].decisions["lr"] == made.methods["fedprox"].decisions["lr"]


def test_searched_values_give_way_to_one_or_to_others():
    made = toy(SEARCHED)
    fixed, other = (otherwise([made], {"mu": mu})[0].methods["fedprox"] for mu in (0.5, [1, 2]))
    assert (fixed.variants, fixed.value("mu")) == ([{}], 0.5)
    assert other.variants == [{"mu": 1}, {"mu": 2}]
    (same,) = otherwise([made], {"mu": 0.1})
    chosen, searched = same.methods["fedprox"], made.methods["fedprox"]
    assert chosen.spec({}, 0, 5, 5) == searched.spec({"mu": 0.1}, 0, 5, 5), "the run is the same"


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"mu": []}, "mu"),
        ({"heterogeneity": "iidd"}, "'iid'"),
        ({"lr": 0.5}, "--set lr"),
        ({"keep_moments": True}, "--set keep_moments"),
        ({"fedprx.aggregation": "plain"}, "fedprx.aggregation"),
        ({"momentun": 0.5}, "momentum"),
        ({"momentum": 2.0}, "toy/one/iid, fedavg: momentum"),
        ({"optimizer": "adam", "momentum": 0.5}, "toy/one/iid, fedavg: momentum"),
    ],
)
def test_what_cannot_be_set(values, key):
    with pytest.raises(UserError) as refused:
        otherwise([toy(SEARCHED)], values)
    assert key in str(refused.value)


def test_what_comes_with_another_choice_has_to_be_chosen_too():
    """FOLB's psi is there in its second variant only."""
    text = SMALL.replace(
        "fedprox: {params: {mu: 0.1}}",
        "fedprox: {algorithm: folb, params: {mu: 0.1}, chosen: {variant: [plain, a guess]}}",
    )
    made = toy(text)
    with pytest.raises(UserError, match="psi"):
        otherwise([made], {"variant": "heterogeneity"})
    (both,) = otherwise([made], {"variant": "heterogeneity", "psi": 0.5})
    assert both.methods["fedprox"].spec({}, 0, 5, 5).params["psi"] == 0.5
