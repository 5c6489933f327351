"""Stores with runs that are damaged, foreign or of a later version, and stores that are none: what is
sound is read, and what is not is said in one line.
"""

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from mlflow.version import VERSION

from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.sweep import Sweep
from suite.tracking.schema.tags import PREFIX, Tags
from suite.tracking.store import Store
from tests.support.commands import document, suite_here
from tests.support.foreign import little, play, swept

READ = "reading the records\n"
FORMS = [
    ("final", "sweep", None),
    ("final", "entry_id", None),
    ("final", "spec", None),
    ("final", "spec", "soup"),
    ("final", "spec", '{"algorithm":"fedavg","params":{},"place":"moon"}'),
    ("final", "params", "[0.1]"),
    ("final", "params", "[" * 100_000),
    ("final", "seed", "three"),
    ("final", "status", "teleported"),
    ("final", "metric", None),
    ("final", "reached", "perhaps"),
    ("final", "params", '{"lr":[0.1]}'),
    ("final", "target", "nan"),
    ("final", "source", "soup"),
    ("final", "code", '{"a.py:A":7}'),
    ("final", "run_status", None),
    ("search", "trial_id", "soup"),
    ("entry", "entry_id", None),
    ("entry", "space", '{"lr":{"type":"float"}}'),
    ("sweep", "study_json", "{}"),
    ("sweep", "study_json", '{"sampler":1,"scheduler":[],"trials":"x"}'),
    ("leaderboard", "importance", '{"lr":"much"}'),
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage with a sweep of two entries."""
    folder = tmp_path_factory.mktemp("sound")
    swept(folder, heterogeneity=["iid", "labels(2)"])
    return folder


@pytest.fixture
def here(sound: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    shutil.copytree(sound / "runs", tmp_path / "runs")
    return tmp_path


def first(here: Path, kind: str) -> str:
    """The oldest run of a kind; of a kind that entries have, of the level `iid`."""
    found = Store(None, here / "runs").find(kind=kind)
    return next(run.run_id for run in found if run.tags.get("heterogeneity") in (None, "iid"))


def set_tag(here: Path, run_id: str, name: str, text: str | None) -> None:
    with sqlite3.connect(here / "runs" / "mlflow.db") as database:
        database.execute("delete from tags where run_uuid = ? and key = ?", (run_id, PREFIX + name))
        if text is not None:
            row = (PREFIX + name, text, run_id)
            database.execute("insert into tags (key, value, run_uuid) values (?, ?, ?)", row)


def levels(here: Path) -> tuple[list[str], str]:
    """The levels that a leaderboard shows, and what it said."""
    done = suite_here("leaderboard", "--json", cwd=here)
    return sorted(row["heterogeneity"] for row in document(done)["rows"]), done.stderr


def changed(tags: Tags, name: str, text: str | None) -> Tags:
    rest = {key: value for key, value in tags.items() if key != name}
    return Tags(rest if text is None else {**rest, name: text})


@pytest.mark.parametrize(("kind", "name", "text"), FORMS)
def test_what_readers_ask_of_a_run_is_read_before(
    sound: Path, kind: str, name: str, text: str | None
):
    found = Store(None, sound / "runs").find(kind=kind)[0].tags
    assert found.fault == ""
    assert changed(found, name, text).fault == f"suite.{name}"


def test_a_leaderboard_goes_on_without_the_runs_that_cannot_be_read(here: Path):
    for kind, name, text in (
        ("final", "spec", "soup"),
        ("search", "trial_id", "soup"),
        ("entry", "entry_id", None),
        ("sweep", "study_json", "{}"),
        ("leaderboard", "importance", "[]"),
    ):
        set_tag(here, first(here, kind), name, text)
    names = ["spec", "trial_id", "entry_id", "study_json", "importance"]
    lines = [f"1 run of sweep s could not be read: tag suite.{name}" for name in names]
    shown, said = levels(here)
    assert shown == ["labels(2)"]
    assert sorted(said.splitlines()) == sorted([*lines, READ.strip()])


def test_runs_of_a_sweep_are_counted_in_one_line(here: Path):
    for run in Store(None, here / "runs").find(kind="search"):
        set_tag(here, run.run_id, "metric", "beauty")
    for run in Store(None, here / "runs").find(kind="entry"):  # as a sweep that goes on has it
        set_tag(here, run.run_id, "searched", None)
    said = f"{READ}4 runs of sweep s could not be read: tag suite.metric\n"
    assert levels(here) == (["iid", "labels(2)"], said)


def test_runs_of_others_and_of_later_versions_are_passed_over(here: Path):
    store = Store(None, here / "runs")
    experiment = store.experiment("elsewhere")
    store.client.create_run(experiment, tags={"mlflow.runName": "theirs"})
    store.create(experiment, "later", {"kind": "federated", "sweep": "s"})
    store.create(experiment, "bare", {"kind": "final"})
    said = f"{READ}1 run of no sweep could not be read: tag suite.sweep\n"
    assert levels(here) == (["iid", "labels(2)"], said)


@pytest.mark.parametrize(
    "change",
    ["delete from {}", "update {} set value = 0, is_nan = 1", "update {} set value = 1e300"],
    ids=["none", "nan", "huge"],
)
def test_a_final_run_without_its_score_is_passed_over(here: Path, change: str):
    run_id = first(here, "final")
    with sqlite3.connect(here / "runs" / "mlflow.db") as database:
        for table in ("metrics", "latest_metrics"):
            where = " where run_uuid = ? and key = 'test/score'"
            database.execute(change.format(table) + where, (run_id,))
    said = f"{READ}1 run of sweep s could not be read: metric test_score\n"
    assert levels(here) == (["labels(2)"], said)


def test_a_tuned_configuration_that_cannot_be_read_is_passed_over(here: Path):
    set_tag(here, first(here, "leaderboard"), "tuned", "soup")
    done = suite_here("tuned", "list", "--json", cwd=here)
    assert [item["heterogeneity"] for item in document(done)] == ["labels(2)"]
    assert done.stderr == f"{READ}1 run of sweep s could not be read: tag suite.tuned\n"


def test_a_report_shows_what_is_sound(here: Path):
    set_tag(here, first(here, "final"), "spec", "soup")
    set_tag(here, first(here, "search"), "trial_id", "soup")
    lines = ["1 run of sweep s could not be read: tag suite.spec"]
    assert reported(here) == lines, "its entry says what the search trial did"
    for run in Store(None, here / "runs").find(kind="entry"):  # as a sweep that goes on has it
        set_tag(here, run.run_id, "searched", None)
    assert reported(here) == [*lines, "1 run of sweep s could not be read: tag suite.trial_id"]


def reported(here: Path) -> list[str]:
    """What `suite report` says could not be read, once it has written its page."""
    done = suite_here("report", "--json", cwd=here)
    assert Path(here / document(done)["page"]).exists()
    return sorted(line for line in done.stderr.splitlines() if "could not be read" in line)


def test_a_resumed_sweep_records_again_what_cannot_be_read(here: Path):
    run_id = first(here, "search")
    set_tag(here, run_id, "spec", "soup")
    set_tag(here, run_id, "params", "soup")
    study = little(heterogeneity=["iid", "labels(2)"])
    play(Sweep("s", study, SweepPaths(here / "runs", "s"), resume=True))
    store = Store(None, here / "runs")
    assert len(store.sound(kind="search")) == len(store.find(kind="search")) == 4
    assert run_id not in {run.run_id for run in store.find()}


def later(database: Path) -> None:
    with sqlite3.connect(database) as opened:
        opened.execute("update alembic_version set version_num = 'ffffffffffff'")


def other(database: Path) -> None:
    database.unlink()
    with sqlite3.connect(database) as opened:
        opened.execute("create table bookmarks (place text)")


def half(database: Path) -> None:
    database.write_bytes(database.read_bytes()[: database.stat().st_size // 2])


def none(database: Path) -> None:
    database.write_bytes(b"hello" * 1000)


SCHEMA = (
    "tracking store sqlite:///{} does not answer: its schema is ffffffffffff, and MLflow {} reads "
    "{}: a later MLflow wrote it, which it needs, or an earlier one, after which `mlflow db upgrade` "
    "brings it up"
)
BROKEN = {
    later: SCHEMA,
    other: "store {} is a database of something else than MLflow: it has bookmarks",
    half: "cannot read store {}: database disk image is malformed",
    none: "cannot read store {}: file is not a database",
}


@pytest.mark.parametrize("damage", BROKEN)
def test_a_database_of_another_schema_or_a_broken_one_says_so(here: Path, damage: Any):
    database = here / "runs" / "mlflow.db"
    with sqlite3.connect(database) as opened:
        ((schema,),) = opened.execute("select version_num from alembic_version")
    damage(database)
    before = database.read_bytes()
    done = suite_here("leaderboard", cwd=here, code=2)
    assert done.stderr == f"{READ}error: {BROKEN[damage].format(database, VERSION, schema)}\n"
    assert database.read_bytes() == before
