"""Bundles: what is published, what is refused, and what verification finds."""

import csv
import json
import random
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

from suite.boards import files, verify
from suite.boards.bundle import Bundle
from suite.boards.sources import located
from suite.results.leaderboards import read_leaderboard
from suite.tracking.store import Store
from tests.support.commands import document, fault, suite_here
from tests.support.stores import forge, recorded

FINALS = "sweeps/s/finals.json"
RUNS = 4 * 3 * 2
SITE = Path(__file__).parents[3] / "docs" / "results" / "board"


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory)


@pytest.fixture
def mine(there: Path, tmp_path: Path) -> Path:
    """A copy of the bundle, to be changed."""
    return Path(shutil.copytree(there / "s", tmp_path / "s"))


def test_a_bundle_has_the_leaderboard_of_its_store(there: Path) -> None:
    """Every number of it, also at equal bytes, and every metric of every final run to the bit."""
    store, bundle = Store(None, there / "runs"), Bundle.read(there / "s")
    ours, theirs = read_leaderboard(store), read_leaderboard(bundle)
    assert [row.algorithm for row in theirs.rows] == [row.algorithm for row in ours.rows]
    for mine, other in zip(ours.rows, theirs.rows, strict=True):
        assert (mine.mean, mine.ci_low, mine.params) == (other.mean, other.ci_low, other.params)
        assert mine.audit is not None
        assert other.audit is not None
        assert mine.audit.trials == other.audit.trials == 2
    assert theirs.budgets == ours.budgets
    assert theirs.overall == ours.overall
    for run in store.find(kind="final"):
        for metric in run.metrics.keys() - {"round_seconds", "evaluation_seconds"}:
            if metric not in ("val_score", "test_score"):
                assert bundle.history(run.run_id, metric) == store.history(run.run_id, metric)


def test_a_bundle_is_plain(there: Path) -> None:
    names = {path.relative_to(there / "s").as_posix() for path in (there / "s").rglob("*.*")}
    assert {Path(name).suffix for name in names if (there / "s" / name).is_file()} == {
        ".json",
        ".yaml",
    }
    packed = files.read_files(there / "s.zip")
    assert packed == files.read_files(there / "s")
    listing = json.loads(packed["bundle.json"])
    assert listing["sweeps"] == ["s"]
    assert {"processor", "architecture", "system", "python"} == set(listing["machine"])
    assert {"version", "torch_version"} <= set(listing["versions"])
    assert sum(name.startswith("tuned/s/") for name in packed) == 12
    assert str(there) not in "".join(text.decode() for text in packed.values()), "no paths of ours"


def test_publish_says_what_it_wrote(there: Path, tmp_path: Path) -> None:
    asked = ("publish", "--name", "s", "--storage", there / "runs")
    done = document(suite_here(*asked, "--output", "b", "--json", cwd=tmp_path))
    again = document(suite_here(*asked, "--output", "b", "--json", cwd=tmp_path))
    assert done == again
    assert files.read_files(tmp_path / "b") == files.read_files(there / "s.zip")
    assert (done["rows"], done["finals"], done["searches"]) == (12, RUNS, 4 * 3 * 2)
    (tmp_path / "b" / "board.json").write_text("mine")
    assert fault(suite_here(*asked, "--output", "b", cwd=tmp_path, code=2)) == (
        "b/board.json exists and was not written by suite, so it is kept: choose another place, or move it "
        "away"
    )
    assert (tmp_path / "b" / "board.json").read_text() == "mine"
    (tmp_path / "b" / "board.json").unlink()
    (tmp_path / "b" / "board.json").symlink_to(tmp_path / "elsewhere")
    assert fault(suite_here(*asked, "--output", "b", cwd=tmp_path, code=2)).startswith(
        "b/board.json "
    )
    assert not (tmp_path / "elsewhere").exists(), "nothing is written through a link"


@pytest.mark.parametrize("name", ["s", "s.zip"])
def test_a_good_bundle_repeats_to_the_bit(there: Path, name: str) -> None:
    done = suite_here("verify", name, "--sample", 2, "--seed", 7, cwd=there)
    assert done.stdout == f"{name}: identical to the bit\n"
    lines = done.stderr.splitlines()
    assert lines[0].endswith("files are as listed; drawing 2 runs with --seed 7")
    assert lines[1].startswith("running 2 runs again takes about ")
    assert lines[1].endswith(" client steps")
    assert [line.rpartition(": ")[2] for line in lines[2:4]] == ["identical to the bit"] * 2
    assert lines[4:] == ["its rows are those of its runs"]


def test_a_changed_byte_is_refused(mine: Path) -> None:
    content = (mine / FINALS).read_bytes()
    (mine / FINALS).write_bytes(content.replace(b"0.9", b"1.9", 1))
    said = fault(suite_here("verify", "s", cwd=mine.parent, code=2))
    assert said.startswith(f"bundle s: {FINALS} was changed: its SHA-256 is ")
    assert fault(suite_here("board", "s", cwd=mine.parent, code=2)) == said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda folder: (folder / FINALS).unlink(), f"{FINALS} is listed but missing"),
        (lambda folder: (folder / "x.json").touch(), "x.json is not listed"),
        (lambda folder: (folder / "x.json").symlink_to("board.json"), "x.json is a link"),
    ],
)
def test_a_bundle_that_is_not_its_list_is_refused(mine: Path, change: Any, said: str) -> None:
    change(mine)
    found = fault(suite_here("verify", "s", cwd=mine.parent, code=2))
    assert found == f"bundle s: {said}"


def test_a_result_that_differs_is_said(mine: Path) -> None:
    """A number of a run's course is another one, and the list was made anew for it."""

    def change(runs: list[dict[str, Any]]) -> None:
        for run in runs:
            for stretch in run["curve"]:
                if "train_loss" in stretch["values"]:
                    stretch["values"]["train_loss"][-1] += 0.25

    forge(mine, FINALS, change)
    done = suite_here("verify", "s", "--sample", 1, cwd=mine.parent, code=1)
    assert done.stdout == "s: differs\n"
    assert ": differs\n  train_loss at round 2: recorded " in done.stderr
    assert "its rows are those of its runs" in done.stderr


def test_rows_that_are_not_of_the_runs_are_said(mine: Path) -> None:
    def better(board: dict[str, Any]) -> None:
        board["rows"][0]["mean"] += 0.05

    forge(mine, "board.json", better)
    bundle = Bundle.read(mine)
    row, before = bundle.rows[0], read_leaderboard(bundle).rows[0].mean
    found = verify.verify(bundle, 1, 0, None, lambda run: None)
    assert found.verdict == "differs"
    name = f"{row['algorithm']} · digits · logreg · iid · s"
    assert found.faults == (
        f"{name}: mean is {row['mean']!r} in its rows and {before!r} by its runs",
    )


def test_scores_that_are_not_of_the_course_are_said(mine: Path) -> None:
    def better(runs: list[dict[str, Any]]) -> None:
        runs[0]["metrics"]["test_score"] += 0.05

    forge(mine, FINALS, better)
    found = verify.verify(Bundle.read(mine), 1, 0, None, lambda run: None)
    assert found.verdict == "differs"
    assert any(": its score is " in fault for fault in found.faults)


@pytest.mark.parametrize("rounds", [10**9, 2**62])
def test_work_beyond_the_budget_is_not_begun(mine: Path, rounds: int) -> None:
    """It is said how much it is, and of which run."""

    def longer(runs: list[dict[str, Any]]) -> None:
        for run in runs:
            spec = json.loads(run["tags"]["spec"])
            spec["settings"] |= {"rounds": rounds}
            run["tags"]["spec"] = json.dumps(spec)

    forge(mine, FINALS, longer)
    words = ("verify", "s", "--sample", 1, "--seed", 0)
    said = suite_here(*words, cwd=mine.parent, code=2).stderr
    work = re.search(r"running 1 runs again takes about ([0-9,]+) client steps\n", said)
    assert work
    assert int(work[1].replace(",", "")) >= rounds
    assert "error: that is more than --budget 1,000,000: run " in said
    assert f"{rounds:,} rounds) takes {work[1]}. A larger --budget runs it" in said


def test_a_run_that_no_memory_holds_cannot_be_repeated(mine: Path) -> None:
    def longer(runs: list[dict[str, Any]]) -> None:
        for run in runs:
            spec = json.loads(run["tags"]["spec"])
            spec["settings"] |= {"local_epochs": 10**9}
            run["tags"]["spec"] = json.dumps(spec)

    forge(mine, FINALS, longer)
    (found,) = verify.verify(Bundle.read(mine), 1, 0, None, lambda run: None).repeated
    assert (found.verdict, len(found.said)) == (verify.CANNOT, 1)
    assert found.said[0].startswith("local_epochs: ")


def test_a_tuned_file_of_other_runs_is_said(mine: Path) -> None:
    path = next(path for path in sorted(mine.rglob("tuned/**/fedavg.yaml")))
    path.write_text(path.read_text().replace("  lr: ", "  lr: 1"))
    forge(mine, "board.json", lambda board: None)
    found = verify.verify(Bundle.read(mine), 1, 0, None, lambda run: None)
    named = path.relative_to(mine).as_posix()
    assert found.faults == (f"{named} is not the configuration of the runs that it names",)


@pytest.mark.parametrize(("apart", "verdict"), [(1e-6, verify.NEAR), (0.5, verify.DIFFERS)])
def test_another_processor_agrees_to_rounding(mine: Path, apart: float, verdict: str) -> None:
    def change(runs: list[dict[str, Any]]) -> None:
        for run in runs:
            for stretch in run["curve"]:
                if "train_loss" in stretch["values"]:
                    stretch["values"]["train_loss"][-1] += apart

    forge(mine, FINALS, change)
    assert verify.verify(Bundle.read(mine), 1, 0, None, lambda run: None).verdict == verify.DIFFERS
    listing = json.loads((mine / "bundle.json").read_text())
    listing["machine"]["processor"] = "an abacus"
    (mine / "bundle.json").write_text(json.dumps(listing))
    found = verify.verify(Bundle.read(mine), 1, 0, None, lambda run: None)
    assert found.verdict == verdict
    assert ("an abacus, here " in found.repeated[0].said[0]) == (verdict == verify.NEAR)


def test_the_draw_is_the_seeds(there: Path) -> None:
    bundle = Bundle.read(there / "s")
    finals = [run.run_id for run in bundle.sound(kind="final")]
    found = verify.verify(bundle, 3, 5, None, lambda run: None)
    assert [run.run_id for run in found.repeated] == random.Random(5).sample(finals, 3)
    assert (found.runs, found.rows) == (RUNS, 12)


@pytest.mark.parametrize("name", ["../out.json", "/etc/passwd", "a/../../b", "a\\b"])
def test_a_zip_stays_inside(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), "{}")
    said = fault(suite_here("verify", "b.zip", cwd=tmp_path, code=2))
    assert said == f"bundle b.zip: {name!r} leads outside of it"


def test_a_zip_that_grows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BYTES", 1000)
    with zipfile.ZipFile(tmp_path / "b.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.json", " " * 100_000)
    said = fault(suite_here("board", "b.zip", cwd=tmp_path, code=2))
    assert said == "bundle b.zip holds more than 1,000 bytes or 20,000 files, which no bundle does"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot read bundle b.zip: it does not exist"),
        (
            b"PK\x03\x04 and no more",
            "bundle b.zip is not a readable zip: File is not a zip file",
        ),
    ],
)
def test_what_is_no_zip_is_said(tmp_path: Path, content: bytes | None, said: str) -> None:
    if content is not None:
        (tmp_path / "b.zip").write_bytes(content)
    assert fault(suite_here("verify", "b.zip", cwd=tmp_path, code=2)) == said


def test_a_folder_that_is_no_source_is_said(tmp_path: Path) -> None:
    assert fault(suite_here("board", ".", cwd=tmp_path, code=2)) == (
        ". is neither a bundle nor the folder of a store: it has neither bundle.json nor mlflow.db"
    )
    assert fault(suite_here("verify", ".", cwd=tmp_path, code=2)) == (
        ". is no bundle: it has no bundle.json"
    )


def test_tuned_files_are_imported_from_bundles_and_by_name(there: Path, tmp_path: Path) -> None:
    found = document(suite_here("tuned", "import", there / "s.zip", "--json", cwd=tmp_path))
    assert len(found) == 12
    boards = tmp_path / "runs" / "boards"
    boards.mkdir()
    shutil.copy(there / "s.zip", boards / "theirs.zip")
    assert (
        len(document(suite_here("tuned", "import", "board:theirs", "--json", cwd=tmp_path))) == 12
    )
    said = fault(suite_here("tuned", "import", "board:thiers", cwd=tmp_path, code=2))
    assert said.startswith("unknown board 'thiers'")
    assert "theirs" in said


@pytest.mark.parametrize(("name", "count"), [("board:second", 304), ("board:methods", 126)])
def test_what_is_shipped_is_imported_by_name(tmp_path: Path, name: str, count: int) -> None:
    found = document(suite_here("tuned", "import", name, "--json", cwd=tmp_path))
    assert len(found) == count
    listed = document(suite_here("tuned", "list", "--dataset", "digits", "--json", cwd=tmp_path))
    assert {item["dataset"] for item in listed} == {"digits"}


def test_no_row_of_the_shipped_board_contradicts_itself() -> None:
    """Each says what eight partitions or splits show, and the site in docs/results/board has the same rows."""
    rows = Bundle.read(located("board:methods", Path("runs"))).rows
    with open(SITE / "board.csv", encoding="utf-8", newline="") as file:
        drawn = list(csv.DictReader(file))
    assert len(rows) == 126
    for row, other in zip(rows, drawn, strict=True):
        assert row["units"] == 8
        assert row["within_noise"] == (not row["beaten_by"]), "no method is a reference there"
        assert row["behind_low"] == 0 or row["beaten_by"]
        assert row["beaten_by"] or not row["equivalent"] or row["behind_high"] <= 0.01
        for key in ("algorithm", "dataset", "heterogeneity", "mean", "behind_low", "behind_high"):
            assert str(row[key]) == other[key]
        assert " ".join(row["beaten_by"]) == other["beaten_by"]
