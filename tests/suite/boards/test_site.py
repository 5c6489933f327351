"""The board's site: its files, what they say, and that every link leads somewhere."""

import re
import shlex
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest

from reports.leaderboard.names import renamed, without_folders
from tests.support.commands import document, fault, study_file, suite_here
from tests.support.simulations import ROOT
from tests.support.stores import forge, recorded


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory)


@pytest.fixture(scope="module")
def site(there: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of a store and a paper's documents."""
    folder = tmp_path_factory.mktemp("site") / "site"
    papers = ("--papers", ROOT / "docs" / "results")
    suite_here("board", "runs", *papers, "--output", folder, cwd=there)
    return folder


class Links(HTMLParser):
    """What a page refers to, and its own fragments."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids |= {given["id"] or ""} if "id" in given else set()
        keys = ("href", "src", "data-spec")
        self.links |= {value for key in keys if (value := given.get(key))}


def test_every_link_leads_to_a_file_and_a_place_in_it(site: Path) -> None:
    pages = {path: Links(path.read_text()) for path in site.rglob("*.html")}
    missing = []
    for page, found in pages.items():
        for link in found.links - {"data:,"}:
            assert "://" not in link, "no other host"
            name, _, fragment = link.partition("#")
            target = (page.parent / unquote(name)).resolve() if name else page
            if not target.is_file() or (fragment and fragment not in pages[target].ids):
                missing.append((page.name, link))
    assert missing == []


def test_it_has_a_page_a_cell_a_method_and_a_paper(site: Path) -> None:
    names = {path.relative_to(site).as_posix() for path in site.rglob("*.html")}
    assert {name for name in names if name.startswith("scenarios/")} == {
        f"scenarios/{data}-logreg-{level}.html"
        for data in ("digits", "synthetic-1-1")
        for level in ("iid", "dirichlet-0-3")
    }
    assert {name for name in names if name.startswith("methods/")} == {
        f"methods/{name}.html" for name in ("fedavg", "fedprox", "local-only")
    }
    assert {"papers/folb.html", "papers/safl.html", "papers/fedagg.html"} <= names
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) < 5_000_000


def test_it_names_nothing_of_the_machine(site: Path, there: Path) -> None:
    for path in site.rglob("*"):
        assert not path.is_file() or str(there).encode() not in path.read_bytes(), path


def test_a_number_is_repeated_by_the_command_beside_it(site: Path, there: Path) -> None:
    """Run in the site's folder, it gives the score of the row's first final run."""
    page = (site / "scenarios" / "digits-logreg-iid.html").read_text()
    found = re.search(
        r"<pre>suite (run specs/digits-logreg-iid/fedprox\.yaml --seed 1)</pre>", page
    )
    assert found is not None
    done = suite_here(*found[1].split(), "--storage", there / "elsewhere", cwd=site)
    said = " ".join(done.stdout.split())
    told = re.search(r"mean of 2 seeds: (\S+); with seed 1: (\S+)$", said)
    assert told is not None
    mean, own = told.groups()
    assert f"test accuracy {own} (mean of the last" in said
    row = page[page.index('id="fedprox"') :]
    assert f">{mean}" in row[: row.index("</tr>")]


def test_the_study_beside_it_is_one(site: Path, there: Path) -> None:
    page = (site / "scenarios" / "digits-logreg-iid.html").read_text()
    assert "<pre>suite sweep studies/s.yaml --name s-again</pre>" in page
    command = ("sweep", "studies/s.yaml", "--name", "s-again", "--dry-run", "--json")
    plan = document(suite_here(*command, "--storage", there / "elsewhere", cwd=site))
    assert len(plan["entries"]) == 12


def test_the_commands_of_the_docs_run(there: Path, tmp_path: Path) -> None:
    """As docs/board.md begins, of a sweep `s` instead of the quickstart."""
    shutil.copytree(there / "runs", tmp_path / "runs")
    for name in ("theirs.zip", "mine.zip"):
        shutil.copy(there / "s.zip", tmp_path / name)
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    block = (ROOT / "docs" / "board.md").read_text().split("```")[1]
    commands = [shlex.split(line, comments=True)[1:] for line in block.strip().splitlines()]
    assert len(commands) == 6
    for command in commands:
        suite_here(*(word.replace("quickstart", "s") for word in command), cwd=tmp_path)


def test_a_method_has_its_equations_ranges_and_cells(site: Path) -> None:
    page = (site / "methods" / "fedprox.html").read_text()
    assert "<dt>Equations</dt>" in page
    assert "mu = 0.01 (0.0001..1 log)" in page
    assert page.count('<circle cx="') == 2 * 4, "two hyperparameters in four scenarios"
    assert len(re.findall(r'href="\.\./scenarios/[^"]+#fedprox"', page)) == 4


def test_a_site_is_made_anew_and_over_nothing_else(there: Path, tmp_path: Path) -> None:
    for _ in range(2):
        done = document(
            suite_here("board", there / "s.zip", "--output", "out", "--json", cwd=tmp_path)
        )
    assert done["pages"] == 1 + 4 + 3
    (tmp_path / "out" / "index.html").write_text("mine")
    assert fault(suite_here("board", there / "s", "--output", "out", cwd=tmp_path, code=2)) == (
        "out/index.html exists and was not written by suite, so it is kept: choose another place, or move it "
        "away"
    )


def test_sources_that_share_a_sweeps_name_stand_beside_each_other(
    there: Path, tmp_path: Path
) -> None:
    """The same runs count once; others under the same name get their source's."""
    asked = ("board", there / "runs", there / "s.zip", "--output", "out")
    assert "is shown as" not in suite_here(*asked, cwd=tmp_path).stderr
    other = tmp_path / "theirs"
    shutil.copytree(there / "s", other)
    for name in ("records", "searches", "finals"):
        path = other / "sweeps" / "s" / f"{name}.json"
        path.write_text(re.sub(r'"run_id":"(\w+)"', r'"run_id":"x\1"', path.read_text()))
    forge(other, "board.json", lambda board: None)
    done = suite_here("board", there / "runs", other, "--output", "out", cwd=tmp_path)
    assert "theirs: its sweep s is shown as s@theirs, since runs has one\n" in done.stderr
    assert "s@theirs" in (tmp_path / "out" / "index.html").read_text()


def test_a_publisher_s_folders_are_on_no_page(tmp_path: Path) -> None:
    """Columns are told apart by model and level; of own data the file's name is shown."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(80, 4)).astype("float32"), np.arange(80) % 2
    np.savez(tmp_path / "my.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    study = f"""
algorithms: [fedavg]
datasets: ["npz:{tmp_path}/my.npz"]
models: [logreg, "mlp(4)"]
heterogeneity: ["dirichlet(0.3)"]
trials: 1
seeds: 2
settings: {{rounds: 1, clients: 3, participation: 1.0, execution: batched}}
"""
    suite_here("sweep", study_file(tmp_path, study), "--name", "mine", cwd=tmp_path)
    suite_here("board", "--output", tmp_path / "site", cwd=tmp_path)
    pages = [*(tmp_path / "site").rglob("*.html"), tmp_path / "site" / "board.csv"]
    for path in pages:
        assert tmp_path.name not in path.read_text() + str(path.relative_to(tmp_path)), path
    first = (tmp_path / "site" / "index.html").read_text()
    heads = re.findall(r"<b>(npz:my\.npz)</b> <i>(.*?)</i> (.*?)</a>", first)
    assert [head[0] for head in heads] == ["npz:my.npz"] * 2
    assert len({head[1] for head in heads}) == 2
    lead = re.search(r'<p class="lead">(.*?)</p>', first)
    assert lead is not None
    assert "on logreg; " in lead[1]
    assert "on mlp(4" in lead[1]


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["digits", "dirichlet(0.3)"], {}),
        (["npz:/home/me/my.npz"], {"npz:/home/me/my.npz": "npz:my.npz"}),
        (["/a b/m.py:Mine"], {"/a b/m.py:Mine": "m.py:Mine"}),
        (
            ["npz:/a/x.npz", "npz:/b/x.npz"],
            {"npz:/a/x.npz": "npz:x.npz", "npz:/b/x.npz": "npz:x.npz (2)"},
        ),
    ],
)
def test_names_without_their_folders(names: list[str], shown: dict[str, str]) -> None:
    assert without_folders(names) == shown
    assert renamed({"a": [(name,) for name in names]}, shown) == {
        "a": [(shown.get(name, name),) for name in names]
    }
