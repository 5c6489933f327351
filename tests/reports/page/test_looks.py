"""Colours, labels and spans of charts."""

import pytest

from reports.charts import charts, line_charts, style
from trials.algorithms import ALGORITHMS


def test_labels_keep_a_line_of_text_apart():
    """1.0 of a span is 240 pixels, a line of text 12 of them: 0.05."""
    found = line_charts.apart({"a": 0.5, "b": 0.51, "c": 0.2, "d": 1.4}, (0.0, 1.0))
    assert found == pytest.approx({"c": 0.2, "a": 0.5, "b": 0.55})
    found = line_charts.apart({"a": 0.99, "b": 1.0}, (0.0, 1.0))
    assert found == pytest.approx({"a": 0.95, "b": 1.0}), "down where there is no room above"


def test_spans_show_the_leaders_the_ties_and_all():
    ends = {"a": 0.9, "b": 0.8, "c": 0.7, "d": 0.1}
    found = [line_charts.Trace(name, (0, 1, 2), (0.0, end, end)) for name, end in ends.items()]
    spans = line_charts.spans(found, 1, ["a", "b"])
    assert list(spans) == ["leaders", "ties", "all"]
    assert spans["leaders"] == pytest.approx((0.7 - 0.006, 0.9 + 0.006)), "the better three"
    assert spans["ties"] == pytest.approx((0.8 - 0.003, 0.9 + 0.003))
    assert spans["all"] == pytest.approx((-0.027, 0.927))


def test_thirty_algorithms_look_different():
    look = style.styles([f"a{i}" for i in range(30)])
    assert len({(hue, str(dash)) for hue, dash in look.values()}) == 30


def test_a_method_looks_alike_in_every_order_and_only_references_are_grey():
    names = ["folb", "fedavg", "local_only", "fedprox"]
    one, other = (style.styles(given, {"local_only"}) for given in (names, names[::-1]))
    assert {**one} == {**other}
    assert list(one) == names, "in the order of the page"
    assert [name for name, (hue, _) in one.items() if hue == style.GREY] == ["local_only"]


def test_a_method_has_one_colour_whatever_stands_beside_it():
    alone, beside = (
        style.styles(["fedavg", "mine.py:Mine"]),
        style.styles(["scaffold", *ALGORITHMS]),
    )
    assert alone["fedavg"] == beside["fedavg"]
    assert len(set(map(str, beside.values()))) == len(ALGORITHMS), "no two of the project's alike"
    others = style.styles(["fedavg", *(f"m{i}.py:M{i}" for i in range(29))])
    assert others["fedavg"] == alone["fedavg"]
    assert len(set(map(str, others.values()))) == 30
    first = style.styles(style.FIRST).values()
    assert {hue for hue, _ in first} == set(style.HUES)
    assert {dash for _, dash in first} == {style.DASHES[0]}


def luminance(hue):
    """Of the Web Content Accessibility Guidelines."""
    parts = [int(hue[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("near", [i / 100 for i in range(101)])
def test_numbers_of_a_heat_map_can_be_read_on_every_shade(near):
    ends = [[int(hue[i : i + 2], 16) for i in (1, 3, 5)] for hue in charts.SHADES]
    shade = [round(far + near * (best - far)) for far, best in zip(*ends, strict=True)]
    text = "#ffffff" if near > charts.LIGHT else "#000000"
    assert contrast("#" + "".join(f"{part:02x}" for part in shade), text) >= 4.5


@pytest.mark.parametrize("hue", [*style.HUES, style.GREY])
def test_names_at_lines_can_be_read_on_white_and_on_black(hue, monkeypatch):
    assert contrast(style.text_hue(hue), "#ffffff") >= 4.5
    monkeypatch.setattr(style, "INK", "#e6e9ec")  # of page.css, in the dark
    assert contrast(style.text_hue(hue), "#14171a") >= 4.5
