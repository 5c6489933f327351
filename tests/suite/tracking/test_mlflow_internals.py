"""What of MLflow is used that it does not promise: whether this version has it."""

from pathlib import Path

import mlflow
import pytest

from suite.tracking.mlflow_internals import database
from tests.support.others import has

USED = {
    "mlflow.store.tracking.sqlalchemy_store.SqlAlchemyStore.get_metric_history_bulk": "curves of runs would be read one by one",
    "mlflow.store.tracking.dbmodels.models.SqlRun.lifecycle_stage": "every run would be read to find a few",
    "mlflow.store.tracking.dbmodels.models.SqlTag.run_uuid": "every run would be read to find a few",
    "mlflow.server.fastapi_app.app": "`suite ui` would have no pages of MLflow",
    "mlflow.server.constants.BACKEND_STORE_URI_ENV_VAR": "`suite ui` would have no pages of MLflow",
}
"""Each name, and what a version of MLflow without it would break."""


@pytest.mark.parametrize("name", USED)
def test_this_version_has(name: str) -> None:
    assert has(name), f"MLflow {mlflow.__version__} has no {name} any more: {USED[name]}"


def test_a_store_gives_sessions_of_its_database(tmp_path: Path) -> None:
    store = database(f"sqlite:///{tmp_path}/x.db", str(tmp_path))
    assert hasattr(store, "ManagedSessionMaker"), "every run would be read to find a few"
