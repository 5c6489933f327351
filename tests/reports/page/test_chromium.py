"""The report and MLflow's pages in a real browser: the installed Chromium, headless."""

import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from reports.page.data import Curve, ReportData
from reports.page.page import build
from suite.tracking.store import Store
from tests.support.boards import LEVELS, A, B, C, board_of, runs, trials

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""
if not CHROMIUM:
    pytest.skip("needs Chromium (Debian: apt-get install chromium)", allow_module_level=True)
sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright (pip)")
PATIENCE = 200_000
"""Milliseconds: MLflow's pages are megabytes of script."""


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> Store:
    """One study with six leaderboard rows, and a search run that is none."""
    store = Store(None, tmp_path_factory.mktemp("store") / "runs")
    experiment = store.experiment("quick")
    for place, (level, name) in enumerate(
        (v, n) for v in LEVELS for n in ("zeta", "folb", "alpha")
    ):
        tags = {"kind": "leaderboard", "row": f"night {place:04d}", "heterogeneity": level}
        run = store.create(experiment, f"{name} · {level}", {**tags, "dataset": "digits"})
        store.log(
            run, {"lr": 0.1}, [{"round": 0, "rank": place % 3 + 1, "mean": 0.9 - place / 100}]
        )
        store.set_status(run, "FINISHED")
    store.create(experiment, "a search trial", {"kind": "search"})
    return store


@pytest.fixture(scope="module")
def served(store) -> str:
    """MLflow's pages as `suite ui` starts them."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    folder = store.uri.removeprefix("sqlite:///").removesuffix("/mlflow.db")
    code = f"import sys; sys.argv = ['suite', 'ui', '--port', '{port}', '--storage', {folder!r}]; "
    code += "from suite.cli.app import main; main()"
    command = [sys.executable, "-c", code]
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=quiet, stderr=quiet, process_group=0)
    address, deadline = f"http://127.0.0.1:{port}", time.monotonic() + 200
    try:
        while True:
            try:
                urllib.request.urlopen(f"{address}/health", timeout=5)
                break
            except OSError:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.3)
        yield address
    finally:
        subprocess.run(["kill", "--", f"-{process.pid}"], check=False)
        process.wait(60)


@pytest.fixture(scope="module")
def report(store, served, tmp_path_factory) -> str:
    """A report whose rows link to the served runs."""
    pages = {run.tags["heterogeneity"]: run.page for run in store.find(kind="leaderboard")}
    board = board_of(
        *(
            runs(name, scores, heterogeneity=level, page=pages[level], worst=scores[0])
            for level in LEVELS
            for name, scores in (("zeta", A), ("folb", B), ("alpha", C))
        )
    )
    groups = list(dict.fromkeys(row.group for row in board.rows))
    curve = ((0, 5), (0.1, 0.9), (0.0, 1e6))
    curves = tuple(Curve(r.group, r.algorithm, s, *curve) for r in board.rows for s in (1, 2))
    found = tuple(t for g in groups for n in ("zeta", "folb") for t in trials(g, n))
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(build(ReportData(board, curves, found, server=served)))
    return path.as_uri()


@pytest.fixture
def page(browser):
    """A page that is offline but for the machine itself, and what it complained about."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on(
        "console",
        lambda message: page.complaints.append(message.text) if message.type == "error" else None,
    )
    local = ("http://127.0.0.1", "file:", "data:", "blob:")
    page.route(
        "**/*",
        lambda route: route.continue_() if route.request.url.startswith(local) else route.abort(),
    )
    yield page
    context.close()


def column(page, number: int) -> list[str]:
    """A column of the first group's table, top to bottom."""
    rows = page.locator("article.group").first.locator("tbody tr")
    return [row.locator("td, th").nth(number).inner_text().strip() for row in rows.all()]


def test_rows_sort_by_any_heading(page, report):
    page.goto(report)
    assert column(page, 1) == ["zeta", "folb", "alpha"]
    heads = page.locator("article.group").first.locator("thead th")
    heads.nth(1).click()
    assert column(page, 1) == ["alpha", "folb", "zeta"]
    heads.nth(2).click()
    assert column(page, 1) == ["alpha", "folb", "zeta"], "numbers: the least first"
    heads.nth(2).press("Enter")
    assert column(page, 1) == ["zeta", "folb", "alpha"]
    assert heads.nth(2).get_attribute("aria-sort") == "descending"
    assert page.complaints == []


def test_rows_filter_and_lines_hide(page, report):
    page.goto(report)
    visible = page.locator("article.group tbody tr:visible")
    assert visible.count() == 6
    page.fill("#filter", "labels(2) folb")
    assert visible.count() == 1
    assert page.locator("article.group:visible").count() == 1
    assert page.inner_text("#shown") == "1 of 6 rows"
    page.fill("#filter", "paper of ALPHA")
    assert visible.count() == 2
    page.fill("#filter", "")
    assert visible.count() == 6
    line = page.locator("#curves .s-zeta").first
    assert line.is_visible()
    page.click(".chip[data-slug=zeta]")
    assert not line.is_visible()
    page.click(".chip[data-slug=zeta]")
    assert line.is_visible()
    assert page.complaints == []


@pytest.mark.parametrize("width", [1440, 768, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_reads_at_every_width_and_in_the_dark(page, report, width, scheme):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(report)
    assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out"
    shades = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    ink, paper = (sum(map(int, shade.strip("rgb()").split(","))) for shade in shades)
    assert (ink < paper) == (scheme == "light")
    assert abs(ink - paper) > 3 * 150
    fill = page.evaluate(
        "getComputedStyle([...document.querySelectorAll('#curves svg text')][0]).fill"
    )
    assert fill == shades[0], "figures follow the page"
    assert page.complaints == []


def test_print_shows_what_is_folded(page, report):
    page.goto(report)
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    assert not page.locator("nav").is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0


def test_a_rows_link_leads_to_its_run_in_mlflow(page, report):
    page.goto(report)
    page.locator("article.group").first.get_by_role("link", name="zeta").click()
    page.get_by_text("alpha · iid").first.wait_for()
    assert "/runs/" in page.url


def test_mlflow_opens_as_the_leaderboard(page, store, served):
    ((name, address),) = store.pages(served)
    assert name == "quick"
    page.goto(address, wait_until="commit")
    page.get_by_text("zeta · iid").first.wait_for()
    shown = page.inner_text("body")
    order = [shown.index(f"{n} · {v}") for v in LEVELS for n in ("zeta", "folb", "alpha")]
    assert order == sorted(order), "the order of the board, not of names or times"
    assert "a search trial" not in shown
    for word in ("rank", "mean", "heterogeneity", "dataset"):
        assert word in shown
    assert [c for c in page.complaints if "404" not in c] == [], "MLflow asks who is there: 404"
