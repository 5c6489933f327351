"""The pages in a real browser, at two widths: each one's main task by mouse and by keyboard, and a sweep that runs."""

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import browser as chromium
from tests.support.commands import SUITE, goes_on, study_file
from tests.support.served import Served, served
from tests.support.watched import swept

sync_api = chromium.needed()
pytestmark = pytest.mark.nightly
MANY = """
{algorithms: [fedavg, fedprox], datasets: [digits], models: [logreg], heterogeneity: [iid],
trials: 400, seeds: 2, sampler: random, settings: {rounds: 200, clients: 4, participation: 1.0, execution: batched}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    swept(folder / "runs", "night")
    swept(folder / "runs", "day", trials=12)
    return folder


@pytest.fixture(scope="module")
def ui(folder: Path) -> Iterator[Served]:
    with served("--storage", str(folder / "runs")) as pages:
        yield pages


@pytest.fixture(scope="module")
def opened() -> Iterator[Any]:
    with chromium.browser(sync_api) as found:
        yield found


@pytest.fixture(params=(1440, 390))
def page(request: pytest.FixtureRequest, opened: Any, ui: Served) -> Iterator[Any]:
    with chromium.new_page(opened, request.param) as found:
        found.set_default_timeout(60_000)
        found.goto(ui.door)
        yield found
        assert found.complaints == []
        if "/dashboard" not in found.url:  # which is not made for telephones
            assert found.evaluate("document.documentElement.scrollWidth") <= request.param


def test_the_first_page_leads_to_a_sweep_and_its_searches_by_the_keyboard(page: Any) -> None:
    names = page.locator("#sweeps tbody th a")
    assert names.all_inner_texts() == ["day", "night"]
    assert page.locator("progress").first.get_attribute("value") == "22"
    names.nth(1).focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/sweeps/night")
    assert page.inner_text("h1") == "night"
    page.locator("summary").focus()
    page.keyboard.press("Enter")
    page.get_by_role("link", name="fedprox · digits").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/dashboard/studies/*")
    page.get_by_text("Hyperparameter Importance").first.wait_for()
    page.get_by_text("Intermediate values").first.wait_for()


@pytest.fixture(scope="module")
def sweep(folder: Path) -> Iterator[Any]:
    command = [SUITE, "sweep", str(study_file(folder, MANY)), "--name", "now"]
    process = subprocess.Popen([*command, "--set", "max_concurrent=1"], cwd=folder)
    goes_on(process, (folder / "runs" / "now" / "journal.jsonl").exists)
    yield process
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    process.wait(120)


def test_a_sweep_is_watched_until_it_is_stopped(opened: Any, ui: Served, sweep: Any) -> None:
    with chromium.new_page(opened) as page:
        page.goto(ui.door)
        page.goto(f"{ui.address}/sweeps/now")
        sync_api.expect.set_options(timeout=60_000)
        page.evaluate("window.mine = true")
        page.get_by_text(re.compile(r"\d+ of 200")).first.wait_for()
        page.locator("summary").click()
        page.get_by_role("heading", name="So far, on validation data").wait_for()
        trials = page.locator("progress").get_attribute("value")
        sync_api.expect(page.locator("progress")).not_to_have_attribute("value", trials)
        assert page.locator("details[open]").count() == 1, "what was opened stays open"
        assert page.evaluate("window.mine"), "without a reload"
        sweep.send_signal(signal.SIGINT)
        assert sweep.wait(120) == 130
        page.get_by_text("not running", exact=True).wait_for()
        assert page.complaints == []
