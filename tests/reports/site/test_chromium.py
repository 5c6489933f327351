"""The board's site in a real browser, opened from files: the installed Chromium, headless."""

import shlex
import shutil
import subprocess
import sys
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


def test_charts_are_drawn_without_vega_too(page, site, tmp_path):
    """As the shipped site is, which leaves others' code out; what the page says to run puts it there."""
    shutil.copytree(site, tmp_path / "site")
    script = tmp_path / "site" / "assets" / "vega.js"
    whole = script.read_text()
    script.unlink()
    cell = (tmp_path / "site" / "scenarios" / "digits-logreg-iid.html").as_uri()
    page.goto(cell)
    chromium.drawn(page)
    charts = page.locator("figure.chart")
    shown = charts.first.locator("svg text").all_text_contents()
    assert charts.count() >= 2
    assert {"rounds", "fedavg", "fedprox"} <= set(shown)
    assert charts.first.locator("svg path[stroke-width='1.8']").count() == 3
    page.locator(".chip").first.click()
    assert charts.first.locator("svg path[stroke-width='1.8']").count() == 2
    assert "drawn without Vega" in page.inner_text("#charts")
    (line,) = page.locator("#charts pre").all_inner_texts()
    command = [sys.executable, *shlex.split(line)[1:]]
    subprocess.run(command, cwd=tmp_path / "site", check=True)
    assert script.read_text() == whole
    page.goto(cell)
    chromium.drawn(page)
    assert "drawn without Vega" not in page.inner_text("#charts")


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
