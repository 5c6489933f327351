"""What docs/results says of the papers is what its documents hold: every sentence with a number."""

import json
from collections import defaultdict
from functools import cache
from typing import Any

import pytest

from suite.reproduction.experiments import read_paper
from tests.support.pages import section
from tests.support.simulations import ROOT

RESULTS = ROOT / "docs" / "results"
PAGE = RESULTS / "README.md"

Row = dict[str, Any]


@cache
def rows(name: str) -> dict[str, Row]:
    """The rows of a document that were run, by name."""
    found = json.loads((RESULTS / f"{name}.json").read_text())["rows"]
    return {row["row"]: row for row in found if row["seeds"]}


def numbers(row: Row, metric: str) -> dict[str, Row]:
    """A row's numbers of a metric, by method."""
    return {of["method"]: of for of in row["numbers"] if of["metric"] == metric}


def only(name: str, metric: str) -> dict[str, Row]:
    """The numbers of a metric in a document of one row, by method."""
    (row,) = rows(name).values()
    return numbers(row, metric)


def measured(name: str, metric: str) -> dict[str, float]:
    """The means over seeds in a document of one row, by method."""
    return {method: of["measured"] for method, of in only(name, metric).items()}


def said(of: str) -> str:
    """The items of "What is not reproduced, by paper" that begin so, each in one line."""
    page = PAGE.read_text().partition("## What is not reproduced, by paper\n")[2]
    items = [" ".join(item.split()) for item in page.split("\n- ")]
    found = " ".join(item for item in items if item.startswith(of))
    assert found, of
    return found


def to(values: Any, digits: int = 0) -> str:
    """`LEAST to MOST`."""
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def test_safl():
    four = measured("safl-table4", "test_accuracy")
    variants = [value for method, value in four.items() if method.startswith("safl")]
    of = only("safl-table4", "test_accuracy")
    assert (len(four), {number["seeds"] for number in of.values()}) == (8, {3})
    table4 = said("SAFL Table IV")
    assert "all eight methods have three seeds" in table4
    assert (
        f"FedAvg ends at {four['fedavg']:.1f} % where {float(of['fedavg']['published']):.1f} % is printed"
    ) in table4
    assert f"six SAFL variants at {to(variants, 1)} %" in table4
    assert f"SAFL (0.3, 80) is {four['fedavg'] - four['safl_0.3_80']:.1f} points below" in table4
    gaps = [four[f"safl_{e}_10"] - four[f"safl_{e}_80"] for e in (0.3, 0.5, 0.7)]
    assert f"L = 80 is {to(gaps, 1)} points below L = 10" in table4
    assert f"({four['centralized']:.1f} %), the highest" in table4
    assert max(four, key=four.__getitem__) == "centralized"
    three = measured("safl-table3-mnist", "test_accuracy")
    table3 = said("SAFL Table III, MNIST")
    assert f"FedAvg ends at {three['fedavg']:.1f} % where 30 %" in table3
    assert f"SAFL ({three['safl']:.1f} %, printed 94 %)" in table3
    assert f"is {three['fedavg'] - three['safl']:.1f} points below it" in table3
    fives = [
        number
        for path in RESULTS.glob("safl-table5-*.json")
        for number in only(path.stem, "test_accuracy").values()
    ]
    ends, printed = ([float(of[key]) for of in fives] for key in ("measured", "published"))
    assert (
        f"FedAvg and SAFL end at {to(ends)} %, the share of one label, where {to(printed)} % are printed"
    ) in said("SAFL Table V")
    (gain,) = rows("safl-fig6")["mnist"]["numbers"]
    assert (gain["published"], gain["metric"]) == ("> 50", "gain(fedavg)@50")
    assert f"SAFL is {-gain['measured']:.1f} points below FedAvg" in said("SAFL Fig. 6")


def test_folb():
    iid = only("folb-table1-synthetic_iid", "rounds_to(70)")
    text = said("FOLB Synthetic_iid")
    assert {of["reached_share"] for of in iid.values()} == {0.0}
    printed = [iid[method]["published"] for method in ("folb", "fedprox", "fedavg")]
    assert "where {}, {} and {} rounds are printed".format(*printed) in text
    one_one = only("folb-table1-synthetic_1_1", "rounds_to(70)")
    text = said("FOLB Synthetic_1_1")
    folb, prox, avg = (one_one[method] for method in ("folb", "fedprox", "fedavg"))
    assert (folb["verdict"], folb["seeds"]) == ("too noisy to say", 5)
    assert f"FOLB needs {folb['measured']:.0f} rounds on average where {folb['published']}" in text
    assert prox["measured"] == avg["measured"]
    assert (
        f"need {avg['measured']:.0f} rounds where {prox['published']} and {avg['published']}"
        in text
    )
    mnist = only("folb-table1-mnist", "rounds_to(80)")
    text = said("FOLB MNIST")
    assert f"in {to([of['measured'] for of in mnist.values()])} rounds on average" in text
    assert f"(FOLB {mnist['folb']['measured']}; printed {mnist['folb']['published']})" in text
    assert {mnist[of]["published"] for of in ("fedprox", "fedavg")} == {"25"}
    assert {mnist[of]["verdict"] for of in ("fedprox", "fedavg")} == {"not reproduced"}


def test_defed():
    regression = rows("defed-regression")
    lower, *rings = zip(
        *(
            [claim for claim in row["claims"] if claim["metric"] == "train_loss"]
            for row in regression.values()
        ),
        strict=True,
    )
    apart = dict(zip(regression, lower, strict=True))
    assert [row for row, of in apart.items() if of["verdict"] == "reproduced"] == ["full-printed"]
    assert apart["full-printed"]["reason"] == "one of them diverges"
    stable = [all(of["measured"] is not None for of in row) for row in zip(*rings, strict=True)]
    assert dict(zip(regression, stable, strict=True)) == {
        "half": False,
        "half-printed": True,
        "full": False,
        "full-printed": True,
    }
    assert apart["half"]["reason"] == "one of them diverges", "DeFed, so FedAvg is stable"
    assert apart["full"]["reason"] == "both diverge"
    mnist, fashion = (
        rows(f"defed-classification-{of}01")[f"{of}01"] for of in ("mnist", "fashion_mnist")
    )
    text = said("DeFed on MNIST")
    got = [of["verdict"] for of in (*mnist["numbers"], *mnist["claims"])]
    assert set(got) == {"reproduced", "not run"}
    accuracies = numbers(fashion, "test_accuracy")
    assert {of["verdict"] for of in accuracies.values()} == {"reproduced"}
    within, rate, _, six, eight = fashion["claims"]
    assert (
        f"DeFed is {-within['measured']:.1f} points below FedAvg where at most 0.7 is claimed"
        in text
    )
    assert within["verdict"] == six["verdict"] == eight["verdict"] == "too noisy to say"
    assert rate["verdict"] == "not reproduced"
    assert rate["measured"] < 0


def test_fedagg():
    text = said("FedAgg (standardised inputs")
    tables = {**rows("fedagg-table3-mnist-logreg"), **rows("fedagg-table5-mnist-logreg")}
    off = defaultdict(list)
    for name, row in tables.items():
        got = numbers(row, "test_accuracy")
        agg = got.pop("fedagg")
        off[name.split("-")[2]].append(float(agg["published"]) - agg["measured"])
        off["baselines"] += [of["measured"] - float(of["published"]) for of in got.values()]
        if "iid" in name:
            assert abs(agg["measured"] - got["fedavg"]["measured"]) < 0.1
            assert "on IID data FedAgg is within 0.1 points of FedAvg" in text
            assert got["fedadam"]["measured"] > agg["measured"]
    assert f"up to {max(off['baselines']):.1f} points above" in text
    less = sorted({round(of, 1) for of in off["shards"]})
    assert "FedAgg is {} and {} points below what is printed".format(*less) in text


def test_fedagg_with_lenet5():
    text = said("FedAgg Table VI, LeNet-5")
    of = only("fedagg-table6-lenet5", "test_accuracy")
    ends = {name: f"{got['measured']:.1f} %" for name, got in of.items()}
    printed = {name: f"{float(got['published'])} %" for name, got in of.items()}
    assert f"FedAvg ends at {ends['fedavg']} where {printed['fedavg']} is printed" in text
    assert f"FedAgg at {ends['fedagg']} where {printed['fedagg']} is" in text
    (claim,) = rows("fedagg-table6-lenet5")["lenet5"]["claims"]
    assert claim["verdict"] == "too noisy to say"
    half = (claim["ci_high"] - claim["ci_low"]) / 2
    assert f"({-claim['measured']:.1f} ± {half:.1f} points below)" in text
    others = set(read_paper("fedagg").tables["table6"].rows) - {"lenet5"}
    assert len(others) == 5
    assert "The other five networks" in text


def test_fedumf_against_five_others():
    text = said("FedUmf Tables A1 and A2")
    ends = {
        name: numbers(row, "best_test_accuracy") for name, row in rows("fedumf-tableA1").items()
    }
    firsts = {name: numbers(row, "rounds_to(95)") for name, row in rows("fedumf-tableA2").items()}
    assert set(ends) == set(firsts)

    def mine(share: str, key: str) -> list[float]:
        return [float(of["fedumf"][key]) for name, of in firsts.items() if share in name]

    few, many = ([name for name in ends if share in name] for share in ("15pct", "65pct"))
    assert len(few) == len(many) == 3
    others = [of for name in few for method, of in firsts[name].items() if method != "fedumf"]
    verdicts = [of["verdict"] for of in others]
    assert (verdicts.count("reproduced"), verdicts.count("too noisy to say")) == (5, 10)
    assert "of 15 numbers 5 are reproduced, and for 10 three seeds are too few" in text
    for name in few:
        assert min(firsts[name], key=lambda of: firsts[name][of]["measured"]) == "fedumf"
        assert min(ends[name], key=lambda of: ends[name][of]["measured"]) == "fedumf"
        assert max(ends[name], key=lambda of: float(ends[name][of]["published"])) == "fedumf"
    assert (
        f"{to(mine('15', 'measured'))} rounds where {to(mine('15', 'published'))} are printed"
        in text
    )
    ahead = defaultdict(int)
    for name in many:
        assert max(ends[name], key=lambda of: ends[name][of]["measured"]) == "fedumf"
        for claim in rows("fedumf-tableA1")[name]["claims"]:
            ahead[claim["says"].split()[-1]] += claim["verdict"] == "reproduced"
    assert ahead == {"fedavg": 3, "feddyn": 2, "feddc": 0}
    assert "ahead of FedAvg in three rows, of FedDyn in two, and of FedDC in none" in text
    dyn = [firsts[name]["feddyn"]["measured"] for name in many]
    assert (
        f"needs {to(mine('65', 'measured'))} rounds to 95 % where {to(mine('65', 'published'))} are "
        f"printed, FedDyn {to(dyn)}"
    ) in text


def reached(name: str) -> dict[str, dict[str, dict[str, tuple[float, float]]]]:
    """Measured and printed rounds where all runs get there, by row, metric and method."""
    found = defaultdict(lambda: defaultdict(dict))
    for row in rows(name).values():
        for of in row["numbers"]:
            if of["reached_share"] == 1:
                found[row["row"]][of["metric"]][of["method"]] = (
                    of["measured"],
                    float(of["published"]),
                )
    return found


def test_fedumf_against_fedavg():
    text = said("FedUmf Table 1")
    met = [of for row in reached("fedumf-table1").values() for of in row.values()]
    times = [measured / printed for of in met for measured, printed in of.values()]
    assert f"take {to(times, 1)} times the printed rounds" in text
    both = [of for of in met if len(of) == 2]
    ours, theirs = ([of["fedumf"][at] / of["fedavg"][at] for of in both] for at in (0, 1))
    assert f"FedUmf {to(ours, 2)} times as many as FedAvg" in text
    assert f"(printed: {min(theirs):.2f} to {max(theirs):.0f})" in text
    text = said("FedUmf Table 2")
    fast, slow = (
        {n: of for n, of in rows("fedumf-table2").items() if n.startswith(rate)}
        for rate in ("lr0.05", "lr0.01")
    )
    met = [of for name in fast for of in reached("fedumf-table2")[name].values()]
    times = [measured / printed for of in met for measured, printed in of.values()]
    assert f"take {to(times, 1)} times the printed rounds" in text
    assert {
        of["reached_share"]
        for row in fast.values()
        for of in numbers(row, "rounds_to(96)").values()
    } == {0}
    assert {
        of["reached_share"]
        for row in slow.values()
        for of in row["numbers"]
        if of["method"] == "fedavg"
    } == {0}
    least = [numbers(row, "rounds_to(91)")["fedumf"]["reached_share"] for row in slow.values()]
    assert sum(3 * share for share in least) == pytest.approx(3)
    assert "and FedUmf the least of them in three of six runs" in text
    assert not any(
        of["reached_share"]
        for row in slow.values()
        for of in row["numbers"]
        if of["metric"] != "rounds_to(91)"
    )


def test_all_that_is_feasible_has_a_verdict_of_at_least_three_seeds():
    text = section(PAGE, "Published against measured")
    summary = (RESULTS / "summary.md").read_text()
    table = [line for line in PAGE.read_text().splitlines() if line.count("|") == 10]
    assert set(table) <= set(summary.splitlines()), "what is feasible, too"
    _, _, *papers, total = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table]
    assert len(papers) == 5
    for _, numbers, can, _, statements, may, *_ in (*papers, total):
        assert (numbers, statements) == (can, may)
    assert "| not run yet |" not in summary
    assert "Every feasible number and statement has a verdict" in text
    assert "rest on fewer than 3 seeds" not in summary
    assert "every verdict rests on three seeds or more." in text
