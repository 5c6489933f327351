"""The board's site in a real browser, opened from files: the installed Chromium, headless."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support import browser as chromium
from tests.support.commands import suite_here
from tests.support.simulations import ROOT
from tests.support.stores import recorded

sync_api = chromium.needed()


@pytest.fixture(scope="module")
def browser():
    with chromium.browser(sync_api) as opened:
        yield opened


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    papers = ("--papers", ROOT / "docs" / "results")
    there = recorded(tmp_path_factory)
    suite_here("board", there / "runs", *papers, "--output", folder, cwd=there)
    return folder


@pytest.fixture
def page(browser):
    with chromium.new_page(browser) as opened:
        yield opened


def heads(page: Any) -> list[str]:
    """The columns that are shown."""
    found = page.locator("#matrix th.scenario")
    return [head.inner_text() for head in found.all() if head.is_visible()]


def column(page: Any, number: int) -> list[str]:
    rows = page.locator("#matrix tbody tr")
    return [
        row.locator("th, td").nth(number).inner_text() for row in rows.all() if row.is_visible()
    ]


@pytest.mark.parametrize("width", [1440, 390])
def test_no_page_is_wider_than_the_window_or_complains(browser, site, width):
    with chromium.new_page(browser, width) as page:
        for path in sorted(site.rglob("*.html")):
            page.goto(path.as_uri())
            chromium.drawn(page)
            assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert page.complaints == []


@pytest.mark.parametrize("scripts", [True, False], ids=["without Vega", "without scripts"])
def test_charts_are_seen_without_vega_and_without_scripts(browser, site, tmp_path, scripts):
    """As the shipped site is, which leaves others' code out, and as a mail shows a page."""
    shutil.copytree(site, tmp_path / "site")
    (tmp_path / "site" / "assets" / "vega.js").unlink()
    context = browser.new_context(java_script_enabled=scripts)
    page = context.new_page()
    page.goto((tmp_path / "site" / "scenarios" / "digits-logreg-iid.html").as_uri())
    charts = page.locator("figure.chart")
    assert charts.count() >= 2
    assert {"rounds", "fedavg", "fedprox"} <= set(
        charts.first.locator("svg text").all_text_contents()
    )
    lines = charts.first.locator("svg path[stroke-width='1.8']")
    assert lines.count() == 3
    box = charts.first.bounding_box()
    assert lines.first.bounding_box()["width"] > 0.6 * box["width"], (
        "the plot has the figure's width"
    )
    assert not page.locator(".switches").is_visible(), "there is nothing to switch"
    context.close()


PAGES = (
    "index.html",
    "scenarios/digits-logreg-iid.html",
    "methods/fedprox.html",
    "papers/folb.html",
)


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("path", PAGES)
def test_nothing_keeps_people_from_a_page(browser, site, width, path):
    with chromium.new_page(browser, width) as page:
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.goto((site / path).as_uri())
            chromium.drawn(page)
            chromium.check_axe(page)


@pytest.mark.parametrize("width", [1440, 390])
def test_from_the_matrix_to_a_method_by_keys(browser, site, width):
    """The way of `test_a_number_says_its_configuration_and_command`, without a pointer."""
    with chromium.new_page(browser, width) as page:
        page.goto((site / "index.html").as_uri())
        page.focus("[name=level]")
        page.keyboard.press("i")
        page.locator("#matrix tbody tr", has_text="fedprox").locator("td.n a").first.focus()
        page.keyboard.press("Enter")
        assert "fedprox on digits" in page.inner_text("dialog[open] .eyebrow")
        page.keyboard.press("Escape")
        assert page.locator("dialog[open]").count() == 0
        assert page.inner_text("#left") == "2 of 4 scenarios"
        page.keyboard.press("Enter")
        page.locator("dialog .whole").focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/scenarios/digits-logreg-iid.html#fedprox")
        page.locator("thead th", has_text="algorithm").first.press("Enter")
        assert page.locator("tbody th.name").first.inner_text() == "fedavg"
        page.locator("#fedprox th a").press("Enter")
        page.wait_for_url("**/methods/fedprox.html")
        assert page.complaints == []


def test_verdicts_have_a_colour_and_a_shape(page, site):
    page.goto((site / "papers" / "fedumf.html").as_uri())
    seen = page.evaluate(
        "[...new Set([...document.querySelectorAll('td .mark')].map((mark) => mark.className.split(' ')[1]"
        " + getComputedStyle(mark, '::before').content[1] + getComputedStyle(mark, '::before').color))]"
    )
    looks = {look.split("rgb")[0] for look in seen}
    assert {"yes●", "partly▲", "no✖", "noisy◆"} <= looks
    assert len(looks) == len(seen) == len({look.partition("rgb")[2] for look in seen})


def test_columns_are_filtered_and_ranks_are_over_those_shown(page, site):
    page.goto((site / "index.html").as_uri())
    assert len(heads(page)) == 4
    assert page.inner_text("#left") == ""
    whole = dict(zip(column(page, 0), column(page, 1), strict=True))
    assert whole.pop("local_only") == "–", "a reference has no rank"
    assert sum(map(float, whole.values())) == 3.0, "ranks 1 and 2 in each scenario"
    page.select_option("[name=dataset]", "digits")
    page.select_option("[name=level]", "iid")
    assert page.inner_text("#left") == "1 of 4 scenarios"
    assert len(heads(page)) == 1
    assert heads(page)[0].startswith("digits iid")
    one = dict(zip(column(page, 0), column(page, 1), strict=True))
    assert sorted(one.values()) == ["1.00", "2.00", "–"]
    assert next(iter(one.values())) == "1.00", "the first is on top"
    assert page.locator("#scenarios tbody tr:visible").count() == 1
    page.reload()
    assert page.inner_text("#left") == "1 of 4 scenarios", "the address keeps what was asked for"
    page.select_option("[name=dataset]", "")
    assert page.inner_text("#left") == "2 of 4 scenarios"
    assert page.complaints == []


def test_the_cost_and_what_is_shown_are_switched(page, site):
    page.goto((site / "index.html").as_uri())
    before = dict(zip(column(page, 0), column(page, 3), strict=True))
    page.locator("label", has_text="rank").last.click()
    ranks = dict(zip(column(page, 0), column(page, 3), strict=True))
    assert sorted(ranks.values()) == ["1", "2", "–"]
    page.locator("label", has_text="score").click()
    page.locator("label", has_text="client work").click()
    at = page.evaluate(
        "[...document.querySelectorAll('#matrix tbody tr')].map((row) => "
        "[row.cells[0].innerText, JSON.parse(row.cells[3].dataset.at).steps[0]])"
    )
    assert dict(zip(column(page, 0), column(page, 3), strict=True)) == dict(at)
    page.locator("label", has_text="rounds").click()
    assert dict(zip(column(page, 0), column(page, 3), strict=True)) == before
    assert page.complaints == []


def test_a_number_says_its_configuration_and_command(page, site):
    page.goto((site / "index.html").as_uri())
    page.locator("#matrix tbody tr", has_text="fedprox").locator("td.n a").first.click()
    told = page.locator("dialog[open]")
    assert told.locator(".eyebrow").inner_text() == "fedprox on digits · logreg · iid"
    assert told.locator("pre").inner_text() == (
        "suite run specs/digits-logreg-iid/fedprox.yaml --seed 1"
    )
    assert "after one search of 2 trials" in told.locator(".how").inner_text()
    told.locator(".whole").click()
    page.wait_for_url("**/scenarios/digits-logreg-iid.html#fedprox")
    assert page.locator("#fedprox pre").is_visible(), "its row is open"
    page.locator("#fedprox th a").click()
    page.wait_for_url("**/methods/fedprox.html")
    assert page.complaints == []


def test_it_reads_without_a_script(browser, site):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((site / "index.html").as_uri())
    page.locator("#matrix td.n a").first.click()
    page.wait_for_url("**/scenarios/digits-logreg-iid.html#*")
    assert page.locator("table.sortable tbody tr").first.is_visible()
    context.close()
