"""The live page in a real browser, of a sweep that runs meanwhile: the installed Chromium, headless."""

import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import browser as chromium
from tests.support.commands import SUITE, goes_on, study_file

sync_api = chromium.needed()
MANY = """
algorithms: [fedavg, fedprox]
datasets: [digits]
models: [logreg]
heterogeneity: [iid]
trials: 400
seeds: 2
sampler: random
settings: {rounds: 200, clients: 4, participation: 1.0, execution: batched}
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, str]]:
    """A sweep, and the address that `suite ui` says."""
    folder = tmp_path_factory.mktemp("live")
    command = [SUITE, "sweep", str(study_file(folder, MANY)), "--name", "night"]
    process = subprocess.Popen([*command, "--set", "max_concurrent=1"], cwd=folder)
    goes_on(process, (folder / "runs" / "night" / "journal.jsonl").exists)
    page = subprocess.Popen([SUITE, "ui", "night"], cwd=folder, stderr=subprocess.PIPE, text=True)
    assert page.stderr is not None
    for text in page.stderr:
        if found := re.fullmatch(r"Pages: (http://\S+)\n", text):
            break
    else:
        pytest.fail("no address was said")
    rest = threading.Thread(target=page.stderr.read)
    rest.start()
    yield process, found[1]
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
    process.wait(120)
    page.terminate()
    page.wait(120)
    rest.join()


def test_a_sweep_is_watched_until_it_is_stopped(swept: tuple[Any, str]) -> None:
    process, address = swept
    with chromium.browser(sync_api) as opened, chromium.new_page(opened) as page:
        page.goto(address)
        page.evaluate("window.mine = true")
        ranks = page.locator("#parts tbody td.rank")
        assert ranks.all_inner_texts() == ["-", "-"]
        page.wait_for_function(
            "[...document.querySelectorAll('tbody td.rank')].every((c) => c.textContent != '-')"
        )
        page.locator("figure[data-chart^=best-][data-drawn]").wait_for()
        assert page.evaluate("window.mine"), "without a reload"
        assert "interim, validation only" in page.inner_text("#scenarios")
        for width in (1440, 768, 390):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.complaints == []
        assert page.inner_text(".state") == "running"
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 130
        page.get_by_text("not running", exact=True).wait_for()
