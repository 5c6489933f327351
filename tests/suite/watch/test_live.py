"""The live page in a real browser, of a sweep that runs meanwhile: the installed Chromium, headless."""

import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from reports.page.live import READ_ONLY
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
    """A sweep, and the address that `suite watch` says."""
    folder = tmp_path_factory.mktemp("live")
    command = [SUITE, "sweep", str(study_file(folder, MANY)), "--name", "night"]
    process = subprocess.Popen([*command, "--set", "max_concurrent=1"], cwd=folder)
    goes_on(process, (folder / "runs" / "night" / "journal.jsonl").exists)
    page = subprocess.Popen(
        [SUITE, "watch", "night"], cwd=folder, stderr=subprocess.PIPE, text=True
    )
    assert page.stderr is not None
    for text in page.stderr:
        if found := re.fullmatch(r"Watch: (http://\S+)\n", text):
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


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """A page of another site, on this machine."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<!doctype html><link rel=icon href=data:,><p>elsewhere")

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_a_sweep_is_watched_and_stopped(swept: tuple[Any, str], elsewhere: str) -> None:
    process, address = swept
    with chromium.browser(sync_api) as opened, chromium.new_page(opened) as page:
        page.goto(address)
        assert page.url == address.partition("?")[0], "without the secret, which is a cookie now"
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
        with chromium.new_page(opened) as other:
            other.goto(elsewhere)
            other.evaluate(f"fetch('{page.url}/stop', {{method: 'POST'}}).catch(() => 0)")
            other.goto(page.url)
            assert other.get_by_role("button", name="Stop").count() == 0, "another's browser"
            assert READ_ONLY in other.inner_text("header")
        assert page.inner_text(".state") == "running", "who asks from elsewhere is refused"
        buttons = page.locator(".ask button")
        for word in ("Stop", "Cancel"):
            page.get_by_role("button", name=word, exact=True).click()
            assert buttons.all_inner_texts() == [f"Yes, {word.lower()}", "No, go on"]
            page.get_by_role("button", name="No, go on").click()
            assert buttons.all_inner_texts() == ["Stop", "Cancel"]
        page.get_by_role("button", name="Stop", exact=True).click()
        page.get_by_role("button", name="Yes, stop").click()
        page.get_by_text("Asked night to stop; it answers within seconds.").wait_for()
        assert process.wait(120) == 130
