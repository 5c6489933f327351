"""One thread, so that bits do not depend on the load; hypothesis without clock, chance or files;
MLflow's tables made once.
"""

import sqlite3
from collections.abc import Iterator
from unittest.mock import patch

import pytest
import torch
from hypothesis import settings
from mlflow.store.db import utils
from sqlalchemy import Engine

torch.set_num_threads(1)
settings.register_profile("suite", deadline=None, derandomize=True, database=None, max_examples=60)
settings.load_profile("suite")


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
