"""MLflow's server as a part of another, which MLflow offers no public way to.

A version of MLflow may take any of it away. `tests/test_private_names.py` says so in words.
"""

import os
import warnings
from pathlib import Path
from typing import Any

from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import PERMISSION_DENIED
from mlflow.store.artifact import artifact_repository_registry as registry
from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository
from mlflow.utils.file_utils import local_file_uri_to_path


def server(uri: str, artifacts: str) -> Any:
    """Return MLflow's server of a store, an ASGI application to be mounted. It reads where things are from its environment.

    It serves artifacts only below `artifacts`, links resolved, whatever folder an experiment names. MLflow itself trusts
    the folder that a run names. GraphQL has no mutations there. Both hold for the whole process.
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
    root = Path(local_file_uri_to_path(artifacts)).resolve()

    class Below(LocalArtifactRepository):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            if not Path(self.artifact_dir).resolve().is_relative_to(root):
                raise MlflowException(f"only artifacts below {root} are served", PERMISSION_DENIED)

    folders: Any = registry.get_registered_artifact_repositories()  # it says its types wrongly
    folders.clear()
    folders.update({"": Below, "file": Below})
    return app
