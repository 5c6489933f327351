"""Databases that are none of MLflow's, or of another schema."""

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from mlflow.version import VERSION

from tests.support.commands import suite_here
from tests.support.foreign import swept

READ = "reading the records\n"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    swept(tmp_path / "first")
    return Path(shutil.copytree(tmp_path / "first", tmp_path / "copy"))  # which nobody has open


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
@pytest.mark.parametrize("command", ["replay x"])
def test_a_database_of_another_schema_or_a_broken_one_says_so(
    here: Path, damage: Any, command: str
):
    database = here / "runs" / "mlflow.db"
    with sqlite3.connect(database) as opened:
        ((schema,),) = opened.execute("select version_num from alembic_version")
    damage(database)
    before = database.read_bytes()
    done = suite_here(*command.split(), cwd=here, code=2)
    assert done.stderr == f"{READ}error: {BROKEN[damage].format(database, VERSION, schema)}\n"
    assert database.read_bytes() == before
