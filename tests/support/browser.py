"""The installed Chromium, headless, for tests of pages: offline but for this machine, and its complaints."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
PATIENCE = 200_000
"""Milliseconds: MLflow's pages are megabytes of script."""
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
        "[...document.querySelectorAll('figure.chart')].every("
        "(f) => 'drawn' in f.dataset || f.closest('details:not([open])'))"
    )
