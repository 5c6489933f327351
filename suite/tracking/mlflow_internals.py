"""All uses of private names of MLflow: its server as a part of another one, for which it has no public interface.

A new version of MLflow may lack these names. Then `tests/test_private_names.py` fails and says what breaks.
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
    """Return MLflow's server for the store at `uri`, as an ASGI application.

    The server reads artifacts only from the folder with the URI `artifacts`. Plain MLflow would read any folder that a run
    names. The server's GraphQL has no mutations. These changes affect the whole process.
    """
    # By default it would start several processes for jobs, which nothing here submits.
    os.environ.setdefault("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")
    from mlflow.server import constants

    os.environ[constants.BACKEND_STORE_URI_ENV_VAR] = uri
    os.environ[constants.ARTIFACT_ROOT_ENV_VAR] = "mlflow-artifacts:/"
    os.environ[constants.SERVE_ARTIFACTS_ENV_VAR] = "true"
    os.environ[constants.ARTIFACTS_DESTINATION_ENV_VAR] = artifacts
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow's own imports are deprecated
        from mlflow.server.fastapi_app import app
        from mlflow.server.graphql.graphql_schema_extensions import schema
    schema.graphql_schema.mutation_type = None
    root = Path(local_file_uri_to_path(artifacts)).resolve()

    class ServedFolder(LocalArtifactRepository):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            if not Path(self.artifact_dir).resolve().is_relative_to(root):
                raise MlflowException(f"only artifacts below {root} are served", PERMISSION_DENIED)

    repositories: Any = registry.get_registered_artifact_repositories()  # its annotation is wrong
    repositories.clear()
    repositories.update({"": ServedFolder, "file": ServedFolder})
    return app
