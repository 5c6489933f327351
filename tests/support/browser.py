"""The installed Chromium, headless, for tests of pages: offline but for this machine, and its complaints."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
PATIENCE = 200_000
"""Milliseconds: MLflow's pages are megabytes of script."""
AXE = Path(os.environ.get("AXE") or "nowhere")
"""`axe.min.js` of the npm package axe-core, which finds what keeps people from using a page."""
LOCAL = ("http://127.0.0.1", "file:", "data:", "blob:")


def needed() -> Any:
    """Playwright's interface; skips the module where it or Chromium is missing."""
    if not CHROMIUM:
        pytest.skip("needs Chromium (Debian: apt-get install chromium)", allow_module_level=True)
    return pytest.importorskip("playwright.sync_api", reason="needs playwright (pip)")


@contextmanager
def browser(sync_api: Any) -> Iterator[Any]:
    """Chromium."""
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@contextmanager
def new_page(browser: Any, width: int = 1440) -> Iterator[Any]:
    """A page, with what it complained about in `complaints`."""
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("console", lambda m: m.type == "error" and page.complaints.append(m.text))
    page.route(
        "**/*",
        lambda route: route.continue_() if route.request.url.startswith(LOCAL) else route.abort(),
    )
    yield page
    context.close()


def drawn(page: Any) -> None:
    """Wait until the charts that are to be seen are drawn."""
    page.wait_for_function(
        "!window.vegaEmbed || [...document.querySelectorAll('figure.chart')].every("
        "(f) => 'drawn' in f.dataset || f.closest('details:not([open])'))"
    )


def check_axe(page: Any) -> None:
    """Open what is folded, and look for serious and critical violations; skips the test where axe-core is missing."""
    if not AXE.is_file():
        pytest.skip("needs axe-core: npm pack axe-core, and its axe.min.js in the variable AXE")
    page.evaluate("for (const fold of document.querySelectorAll('main details')) fold.open = true")
    drawn(page)
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    bad = [of for of in found if of["impact"] in ("serious", "critical")]
    assert not bad, [(of["id"], of["nodes"][0]["html"][:200], page.url) for of in bad]
