"""One thread, so that bits do not depend on the load; hypothesis without clock, chance or files;
MLflow's tables made once; and what several files of tests start from.
"""

import sqlite3
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
import torch
import yaml
from hypothesis import settings
from mlflow.store.db import utils
from sqlalchemy import Engine

from suite.execution import driver
from suite.studies.entries import Entry, load_data, make_entries
from suite.studies.study import read_study
from trials import datasets
from trials.common.errors import UserError
from trials.datasets.base import Dataset
from trials.run import trial

torch.set_num_threads(1)
settings.register_profile("suite", deadline=None, derandomize=True, database=None, max_examples=60)
settings.load_profile("suite")


@pytest.fixture(scope="session", autouse=True)
def a_store_of_their_own() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield


@pytest.fixture(scope="session", autouse=True)
def one_migration() -> Iterator[None]:
    """Sixty migrations take MLflow seconds: a process's later SQLite stores are copies of its first."""
    make = utils._initialize_tables
    made = sqlite3.connect(":memory:", check_same_thread=False)

    def make_or_copy(engine: Engine) -> None:
        if engine.dialect.name != "sqlite":
            make(engine)
            return
        empty = made.execute("select count(*) from sqlite_master").fetchone() == (0,)
        if empty:
            make(engine)
        with engine.connect() as connection:
            store = connection.connection.driver_connection
            if empty:
                store.backup(made)
            else:
                made.backup(store)

    with patch.object(utils, "_initialize_tables", make_or_copy):
        yield
    made.close()


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweeps run their trials in this process, without Ray, each to its end in one step."""
    monkeypatch.setattr(driver, "drive", driver.in_process)
    monkeypatch.setattr(trial, "REPORT_SECONDS", 1e9)


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return datasets.parse("digits").load(0, None, None)


@pytest.fixture
def study_file(tmp_path):
    """Writes a study and returns its path."""

    def write(content: Any) -> str:
        text = content if isinstance(content, str) else yaml.safe_dump(content)
        path = tmp_path / "mine.yaml"
        path.write_text(text)
        return str(path)

    return write


def accept(path: str, overrides: dict[str, Any]) -> list[Entry]:
    """All checks that a sweep makes before it starts."""
    name, study = read_study(path, overrides)
    entries = make_entries(study, f"study {name}")
    load_data(entries, None, f"study {name}")
    return entries


@pytest.fixture
def faults(study_file):
    """The message with which a study is refused."""

    def refused(content: Any, overrides: dict[str, Any] | None = None) -> str:
        with pytest.raises(UserError) as caught:
            accept(study_file(content), overrides or {})
        return str(caught.value)

    return refused
