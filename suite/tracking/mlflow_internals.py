"""What the suite needs of MLflow and MLflow offers no public way to: questions to a store's database that its client
answers by reading every run, and its server as a part of another.

A version of MLflow may take any of it away. `tests/test_private_names.py` says so in words.
"""

import contextlib
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import PERMISSION_DENIED
from mlflow.store.tracking.dbmodels.models import SqlRun, SqlTag
from sqlalchemy import select
from sqlalchemy.orm import aliased

from suite.tracking.schema.long_texts import PART
from suite.tracking.schema.tags import PREFIX

if TYPE_CHECKING:
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
    from starlette.types import ASGIApp

RARE = ("trial_id", "kind", "sweep")
"""Tags by which few runs are found, the fewest first: a database begins with these."""


def database(uri: str, artifacts: str) -> "SqlAlchemyStore":
    """MLflow's store of the database itself, which can be asked of several runs at once."""
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    return SqlAlchemyStore(uri, artifacts)


def server(uri: str, artifacts: str) -> "ASGIApp":
    """MLflow's server of a store, to be mounted. It reads where things are from its environment.

    It serves artifacts below `artifacts` alone, links resolved, whatever folder an experiment names; GraphQL has no
    mutations there. Both hold for the whole process.
    """
    # Else it starts runners of jobs that nothing here submits, a handful of processes.
    os.environ.setdefault("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")
    from mlflow.server import constants

    os.environ[constants.BACKEND_STORE_URI_ENV_VAR] = uri
    os.environ[constants.ARTIFACT_ROOT_ENV_VAR] = "mlflow-artifacts:/"
    os.environ[constants.SERVE_ARTIFACTS_ENV_VAR] = "true"
    os.environ[constants.ARTIFACTS_DESTINATION_ENV_VAR] = artifacts
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow's imports, of what they will have to change
        from mlflow.server.fastapi_app import app
        from mlflow.server.graphql.graphql_schema_extensions import schema
    schema.graphql_schema.mutation_type = None
    _confine(artifacts)
    return app


def _confine(artifacts: str) -> None:
    """Let this process open no folder of artifacts but those below `artifacts`. MLflow itself takes the folder that a
    run names on trust, and then refuses what leads out of that folder only.
    """
    from mlflow.store.artifact.artifact_repository_registry import (
        get_registered_artifact_repositories,
    )
    from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository
    from mlflow.utils.file_utils import local_file_uri_to_path

    root = Path(local_file_uri_to_path(artifacts)).resolve()

    class Below(LocalArtifactRepository):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            if not Path(self.artifact_dir).resolve().is_relative_to(root):
                raise MlflowException(f"only artifacts below {root} are served", PERMISSION_DENIED)

    folders: Any = get_registered_artifact_repositories()  # of classes, which it says wrongly
    folders.clear()
    folders.update({"": Below, "file": Below})


def having(database: "SqlAlchemyStore", tags: Mapping[str, str], most: int) -> list[str] | None:
    """The runs that have these tags, deleted ones among them; None where they are more than `most`. No value is
    so long that it is in parts.
    """
    order = [name for name in RARE if name in tags] + [name for name in tags if name not in RARE]
    first, *others = (aliased(SqlTag) for _ in order)
    found = select(first.run_uuid).where(
        first.key == PREFIX + order[0], first.value == tags[order[0]]
    )
    for name, other in zip(order[1:], others, strict=True):
        same = (other.run_uuid == first.run_uuid) & (other.key == PREFIX + name)
        found = found.join(other, same).where(other.value == tags[name])
    with database.ManagedSessionMaker() as session:
        runs = list(session.execute(found.limit(most + 1)).scalars())
    return runs if len(runs) <= most else None


def trials(database: "SqlAlchemyStore", sweep: str) -> dict[str, str]:
    """The trial that each run of a sweep is of, by the run's id, "" of one of none; without trials whose
    configuration cannot be read.
    """
    of, trial, params = aliased(SqlTag), aliased(SqlTag), aliased(SqlTag)
    found = (
        select(of.run_uuid, trial.value, params.value)
        .join(SqlRun, SqlRun.run_uuid == of.run_uuid)
        .outerjoin(trial, (trial.run_uuid == of.run_uuid) & (trial.key == f"{PREFIX}trial_id"))
        .outerjoin(params, (params.run_uuid == of.run_uuid) & (params.key == f"{PREFIX}params"))
        .where(of.key == f"{PREFIX}sweep", of.value == sweep)
        .where(SqlRun.lifecycle_stage == "active")
    )
    with database.ManagedSessionMaker() as session:
        return {
            run_id: trial_id or ""
            for run_id, trial_id, text in session.execute(found)
            if trial_id is None or _is_mapping(text)
        }


def _is_mapping(text: str | None) -> bool:
    """Whether a text is JSON of a mapping, or the first part of a long one."""
    with contextlib.suppress(ValueError):
        return text is not None and (len(text) == PART or isinstance(json.loads(text), dict))
    return False
