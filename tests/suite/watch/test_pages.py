"""The pages of sweeps and trials in a real browser, at two widths: each one's main task by mouse and by keyboard."""

import csv
import io
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from suite.watch.views import Views

from suite.watch.pages import Pages
from suite.watch.server import app, bind, site
from tests.support import browser as chromium
from tests.support.watched import swept

sync_api = chromium.needed()
AXE = Path(os.environ.get("AXE", "node_modules/axe-core/axe.min.js"))
WIDTHS = (1440, 390)
TOKEN = "token"


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    storage = tmp_path_factory.mktemp("pages") / "runs"
    first = swept(storage, "night")
    swept(storage, "day", trials=12, algorithms=["fedprox", "fedavg"])
    return storage, first


@pytest.fixture(scope="module")
def address(entries: tuple[Path, list[str]]) -> Iterator[str]:
    """Our pages, served by this process."""
    routes = Pages(Views(entries[0], None, "/mlflow")).routes()
    with bind("127.0.0.1", 0, 0) as there:
        server = uvicorn.Server(uvicorn.Config(app(routes, TOKEN), log_config=None, lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [there]}, daemon=True)
        thread.start()
        yield site(there)
        server.should_exit = True
        thread.join(60)


@pytest.fixture(scope="module")
def opened() -> Iterator[Any]:
    with chromium.browser(sync_api) as found:
        yield found


@pytest.fixture(params=WIDTHS)
def page(request: pytest.FixtureRequest, opened: Any, address: str) -> Iterator[Any]:
    with chromium.new_page(opened, request.param) as found:
        found.set_default_timeout(60_000)
        found.goto(f"{address}/?token={TOKEN}")
        yield found
        assert found.complaints == []
        assert found.evaluate("document.documentElement.scrollWidth") <= request.param


def column(page: Any, head: str) -> list[str]:
    """A column of the table of trials, from top to bottom."""
    heads = page.locator(".trials thead th").all_inner_texts()
    rows = page.locator(".trials tbody tr")
    return [row.locator("th, td").nth(heads.index(head)).inner_text() for row in rows.all()]


def shown(page: Any, text: str) -> None:
    """Wait until the table says how many trials it shows."""
    page.locator("#filters output", has_text=text).wait_for()


def test_trials_are_filtered_and_sorted_by_the_mouse(page: Any, address: str) -> None:
    page.goto(f"{address}/sweeps/night")
    shown(page, "1 to 50 of 60 trials.")
    page.get_by_label("Filter").fill("fedprox diverged lr>110")
    shown(page, "1 to 3 of 3 trials, of 60 in all.")
    page.locator(".trials thead").get_by_role("link", name="lr").click()
    page.locator("th[aria-sort=descending]", has_text="lr").wait_for()
    assert column(page, "lr") == ["127", "120", "113"]
    assert column(page, "status") == ["diverged"] * 3
    page.locator(".trials thead").get_by_role("link", name="lr").click()
    page.locator("th[aria-sort=ascending]", has_text="lr").wait_for()
    assert column(page, "lr") == ["113", "120", "127"]
    page.reload()
    assert column(page, "lr") == ["113", "120", "127"], "the address says what is shown"


def test_trials_are_filtered_and_sorted_by_the_keyboard(page: Any, address: str) -> None:
    page.goto(f"{address}/sweeps/night")
    page.get_by_label("Filter").focus()
    page.keyboard.type("diverged")
    page.keyboard.press("Enter")
    shown(page, "1 to 8 of 8 trials")
    assert page.evaluate("document.activeElement.name") == "filter", "who types goes on"
    head = page.locator(".trials thead").get_by_role("link", name="lr")
    head.focus()
    page.keyboard.press("Enter")
    page.locator("th[aria-sort=descending]", has_text="lr").wait_for()
    assert column(page, "lr")[0] == "127"
    assert page.evaluate("document.activeElement.textContent") == "lr"


def test_an_algorithm_has_importance_and_parallel_coordinates(
    page: Any, address: str, entries: tuple[Path, list[str]]
) -> None:
    page.goto(f"{address}/sweeps/night")
    assert page.locator("figure[data-chart^=search-]").count() == 0
    page.locator("#trials select").select_option(entries[1][1])
    page.locator("figure[data-chart^=search-][data-drawn]").wait_for()
    said = page.locator("figure[data-chart^=search-] .view").get_attribute("aria-label")
    assert "importance" in said
    assert "mu" in said
    shown(page, "30 trials, of 60 in all.")


def test_a_failure_says_its_configuration_and_leads_to_its_trial(page: Any, address: str) -> None:
    page.goto(f"{address}/sweeps/night")
    row = page.locator("#failures tbody tr").first
    assert "lr=127" in row.inner_text()
    assert "not finite: val_loss" in row.inner_text()
    row.get_by_role("link").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/trials/*")
    assert page.inner_text("h1 small") == "diverged"
    assert "not finite: val_loss" in page.inner_text("header")
    page.get_by_role("link", name="Trial before").click()
    page.locator("h1 small", has_text="finished").wait_for()
    page.locator("figure[data-chart=trial][data-drawn] svg.marks").wait_for()
    assert "suite replay " in page.inner_text("#parts pre")


def test_axes_take_a_log_scale_and_zoom(page: Any, address: str) -> None:
    page.goto(f"{address}/sweeps/night")
    chromium.drawn(page)
    name = page.locator("figure[data-chart^=best-]").first.get_attribute("data-chart")
    scale = f"views.get({name!r}).view.scale('x')"
    assert page.evaluate(f"{scale}.type") == "linear"
    button = page.get_by_role("button", name="log across")
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_function(f"{scale}.type == 'log'")
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    page.wait_for_function(f"{scale}.type == 'linear'")
    before = page.evaluate(f"{scale}.domain()")
    plot = page.locator(f"figure[data-chart={name}] svg.marks")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 3, box["y"] + box["height"] / 2)
    page.keyboard.down("Shift")
    page.mouse.wheel(0, -300)
    page.keyboard.up("Shift")
    page.wait_for_function(f"{scale}.domain()[1] - {scale}.domain()[0] < {before[1] - before[0]}")


def test_two_sweeps_are_compared(page: Any, address: str) -> None:
    page.goto(address)
    page.get_by_role("link", name="Compare").click()
    page.get_by_label("first").select_option("night")
    page.get_by_label("second").select_option("day")
    page.get_by_role("button", name="Compare").focus()
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="What differs in their studies").wait_for()
    rows = page.locator("article tbody tr").all_inner_texts()
    assert any(row.split() == ["trials", "30", "12"] for row in rows)


def test_the_first_page_leads_to_a_sweep_by_the_keyboard(page: Any, address: str) -> None:
    page.goto(address)
    assert page.locator("#sweeps tbody th").all_inner_texts() == ["day", "night"]
    page.get_by_role("link", name="night", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/sweeps/night")


def test_a_table_is_saved_as_it_is_filtered(page: Any, address: str) -> None:
    page.goto(f"{address}/sweeps/night?filter=fedprox+lr<0.03")
    with page.expect_download() as saved:
        page.get_by_role("link", name="Download CSV").click()
    rows = [*csv.DictReader(io.StringIO(Path(saved.value.path()).read_text()))]
    assert [(row["algorithm"], float(row["lr"])) for row in rows] == [
        ("fedprox", 0.02),
        ("fedprox", 0.01),
    ]


@pytest.mark.skipif(not AXE.exists(), reason="needs axe-core (npm): AXE=PATH of axe.min.js")
@pytest.mark.parametrize("path", ["/", "/sweeps/night", "TRIAL", "/compare?a=night&b=day", "ENTRY"])
def test_nothing_serious_bars_the_way(
    page: Any, address: str, entries: tuple[Path, list[str]], path: str
) -> None:
    entry = entries[1][1]
    found = {
        "TRIAL": f"/sweeps/night/trials/{entry}-s0006",
        "ENTRY": f"/sweeps/night?entry={entry}",
    }
    page.goto(address + found.get(path, path))
    chromium.drawn(page)
    page.add_script_tag(path=str(AXE))
    faults = page.evaluate(
        "axe.run().then((found) => found.violations.filter((v) => ['serious', 'critical'].includes(v.impact))"
        ".map((v) => [v.id, ...v.nodes.slice(0, 3).map((n) => n.html + n.failureSummary)]))"
    )
    assert faults == []
