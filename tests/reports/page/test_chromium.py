"""The report and MLflow's pages in a real browser: the installed Chromium, headless."""

import re
from collections.abc import Iterator

import pytest

from reports.leaderboard.board import Curve, ReportData
from reports.page.page import build
from suite.tracking.store import Store
from suite.tracking.tags import run_page
from tests.support import browser as chromium
from tests.support.boards import LEVELS, A, B, C, board_of, runs, searched
from tests.support.commands import runs_of
from tests.support.served import Served, served

sync_api = chromium.needed()
pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def browser():
    with chromium.browser(sync_api) as opened:
        yield opened


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
    note = tmp_path_factory.mktemp("note") / "note.txt"
    note.write_text("a note")
    for run in runs_of(store, kind="leaderboard"):
        store.client.log_artifact(run.run_id, str(note), "files")
    return store


@pytest.fixture(scope="module")
def ui(store) -> Iterator[Served]:
    """MLflow's pages as `suite ui` serves them."""
    folder = store.uri.removeprefix("sqlite:///").removesuffix("/mlflow.db")
    with served("--storage", folder) as pages:
        yield pages


@pytest.fixture
def refused(page, ui) -> set[str]:
    """What of MLflow's the browser, with its cookie, is not given."""
    page.goto(ui.door)
    paths: set[str] = set()

    def note(response) -> None:
        if not response.ok:
            paths.add(response.url.removeprefix(ui.address).partition("?")[0])

    page.on("response", note)
    return paths


@pytest.fixture(scope="module")
def report(store, ui, tmp_path_factory) -> str:
    """A report whose rows link to the served runs."""
    pages = {
        run.tags["heterogeneity"]: run_page(run.experiment, run.run_id)
        for run in runs_of(store, kind="leaderboard")
    }
    board = board_of(
        *(
            runs(name, scores, heterogeneity=level, page=pages[level], worst_clients=scores[0])
            for level in LEVELS
            for name, scores in (("zeta", A), ("folb", B), ("alpha", C))
        )
    )
    curve = ((0, 5), (0.1, 0.9), (0.0, 1e6))
    curves = tuple(Curve(r.group, r.algorithm, s, *curve) for r in board.rows for s in (1, 2))
    found = {(row.sweep, row.entry_id): searched(0.5, 0.9, 0.8) for row in board.rows}
    path = tmp_path_factory.mktemp("report") / "report.html"
    long = "params: {" + ", ".join(f"hyperparameter{i}: 0.123456789" for i in range(30)) + "}"
    tuned = {(row.sweep, row.entry_id): long for row in board.rows}
    path.write_text(build(ReportData(board, curves, found, server=ui.address, tuned=tuned))[0])
    return path.as_uri()


@pytest.fixture
def page(browser):
    with chromium.new_page(browser) as opened:
        yield opened


NEEDLESS = {
    f"/mlflow/ajax-api/{path}"
    for path in (
        "2.0/mlflow/gateway-proxy",
        "2.0/mlflow/users/current",
        "3.0/mlflow/assistant/config",
        "3.0/mlflow/assistant/providers",
    )
}
"""What MLflow's pages ask for and do without: helpers that write, or ask other servers."""


def column(page, number: int) -> list[str]:
    """A column of the first group's table, top to bottom."""
    rows = page.locator("article.group").first.locator("tbody tr")
    return [row.locator("td, th").nth(number).inner_text().strip() for row in rows.all()]


def test_rows_sort_and_filter_and_lines_hide(page, report):
    page.goto(report)
    heads = page.locator("article.group").first.locator("thead th")
    heads.nth(1).click()
    assert column(page, 1) == ["alpha", "folb", "zeta"]
    heads.nth(2).click()
    assert column(page, 1) == ["zeta", "folb", "alpha"], "scores: the best first"
    assert heads.nth(2).get_attribute("aria-sort") == "descending"
    heads.nth(2).press("Enter")
    assert column(page, 1) == ["alpha", "folb", "zeta"]
    heads.nth(4).click()
    assert column(page, 1) == ["zeta", "folb", "alpha"], "behind the best: the least first"
    visible = page.locator("article.group tbody tr:visible")
    for words, rows in (("labels(2) folb", 1), ("paper of ALPHA", 2), ("", 6)):
        page.fill("#filter", words)
        assert visible.count() == rows
    chromium.drawn(page)
    lines = "document.querySelectorAll('#curves svg .mark-line path').length"
    assert page.evaluate(lines) == 3 * 4, "two scenarios, against rounds and bytes"
    page.locator(".chip[data-name=zeta]").press("Enter")
    page.wait_for_function(f"{lines} == 2 * 4")
    page.click(".chip[data-name=zeta]")
    page.wait_for_function(f"{lines} == 3 * 4")
    assert page.complaints == []


@pytest.mark.parametrize("width", [1440, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_reads_at_every_width_and_in_the_dark(browser, report, width, scheme):
    with chromium.new_page(browser, width) as page:
        page.emulate_media(color_scheme=scheme)
        page.goto(report)
        chromium.drawn(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out"
        cut = "[...document.querySelectorAll('.scroll')].some((e) => e.scrollWidth > e.clientWidth)"
        assert width < 1440 or not page.evaluate(cut), "no table is cut off"
        ink, paper, text = page.evaluate(
            "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor,"
            " getComputedStyle([...document.querySelectorAll('#curves svg text')][0]).fill]"
        )
        assert text == ink, "figures follow the page"
        ink, paper = (sum(map(int, shade.strip("rgb()").split(","))) for shade in (ink, paper))
        assert (ink < paper) == (scheme == "light")
        assert abs(ink - paper) > 3 * 150
        assert page.complaints == []
        chromium.check_axe(page)


def test_print_begins_with_the_leaderboards_and_is_short(page, report, tmp_path):
    page.goto(report)
    chromium.drawn(page)
    page.emulate_media(media="print")
    for hidden in ("nav", ".tools", ".chips"):
        assert not page.locator(hidden).first.is_visible(), hidden
    page.emulate_media(media="screen")
    document = page.pdf(format="A4")
    assert document.count(b"/Type /Page\n") <= 6
    assert document.count(b"/Type /Page\n") >= 2


def test_the_first_page_and_a_row_s_link_lead_into_mlflow(page, report, ui):
    """With the cookie that the printed address left."""
    page.goto(ui.door)
    page.get_by_role("link", name="MLflow", exact=True).first.click()
    page.get_by_role("link", name="quick").wait_for()
    page.goto(report)
    page.locator("article.group").first.get_by_role("link", name="zeta").click()
    page.get_by_text("alpha · iid").first.wait_for()
    assert "/runs/" in page.url


def test_all_of_mlflow_s_pages_of_runs_show(page, store, ui, refused):
    experiment = store.experiment("quick")
    first, second = (run.run_id for run in runs_of(store, kind="leaderboard")[:2])
    both = f'runs=["{first}","{second}"]&experiments=["{experiment}"]'
    runs = f"experiments/{experiment}/runs"
    for path, text in (
        ("experiments?workflowType=machine_learning", "quick"),
        (runs, "zeta · iid"),
        (f"{runs}?compareRunsMode=CHART", "rank"),
        (f"{runs}/{first}", "Finished"),
        (f"{runs}/{first}/model-metrics", "rank"),
        (f"{runs}/{first}/system-metrics", "System metrics"),
        (f"{runs}/{first}/traces", "Traces"),
        (f"{runs}/{first}/artifacts/files/note.txt", "a note"),
        (f"compare-runs?{both}", "Comparing 2 Runs from 1 Experiment"),
        (f'metric?{both}&metric="mean"&plot_metric_keys=["mean"]', "mean"),
        (f"experiments/{experiment}/models", "Models"),
        (f"experiments/{experiment}/traces", "Traces"),
        ("models", "Registered Models"),
    ):
        page.goto("about:blank")
        page.goto(f"{ui.address}/mlflow/#/{path}")
        page.get_by_text(text).locator("visible=true").first.wait_for()
        page.wait_for_timeout(500)
        assert not re.search("[Ee]rror (while|occurred)|permission", page.inner_text("body")), path
    assert refused <= NEEDLESS
