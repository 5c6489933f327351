"""A saved model as one of MLflow's, kept with its run.

It is a generic Python model: MLflow's own flavour for PyTorch pickles the module, and loading such a file
runs what it says. Here MLflow is told to let `suite.tracking.models` load the state dict.
"""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from mlflow import pyfunc
from mlflow.entities import LoggedModelOutput, LoggedModelStatus
from mlflow.models import Model

from suite.tracking.faults import StoreError
from suite.tracking.schema.tags import PREFIX, versions
from suite.tracking.store import Store

if TYPE_CHECKING:
    from trials.models.torch_modules import TrainedModel

NAME = "model"


def log_model(store: Store, run_id: str, folder: Path, step: int, params: Mapping[str, Any]) -> str:
    """Keep the model saved in a folder with a run, as its output at a round, unless the run has one; return
    MLflow's id of it.
    """
    client = store.client
    experiment = client.get_run(run_id).info.experiment_id
    there = client.search_logged_models([experiment], f"source_run_id = '{run_id}'")
    if ready := [model.model_id for model in there if model.status == LoggedModelStatus.READY]:
        return str(ready[0])
    texts = {key: str(value) for key, value in params.items()}
    model_id = client.create_logged_model(experiment, NAME, run_id, params=texts).model_id
    with TemporaryDirectory() as temporary:
        here = Path(temporary) / NAME
        pyfunc.save_model(
            here,
            loader_module=__name__,
            data_path=str(folder),
            mlflow_model=Model(run_id=run_id, model_id=model_id),
            pip_requirements=[f"suite-fl=={versions()['version']}"],
        )
        client.log_model_artifacts(model_id, str(here))
    tags = {PREFIX + key: value for key, value in versions().items()}
    client.set_logged_model_tags(model_id, tags)
    client.finalize_logged_model(model_id, "READY")
    client.log_outputs(run_id, [LoggedModelOutput(model_id, step)])
    return str(model_id)


def delete_models(store: Store, experiment: str, run_id: str) -> None:
    """Remove the models that are kept with a run: MLflow would list them when the run is gone."""
    try:
        for model in store.client.search_logged_models([experiment], f"source_run_id = '{run_id}'"):
            store.client.delete_logged_model(model.model_id)
    except StoreError as error:
        if error.passes:  # else it is a server that knows no models
            raise


class Predictor:
    """What MLflow's `load_model` gives: `predict` maps samples (b, *shape) to outputs (b, C)."""

    def __init__(self, module: "TrainedModel") -> None:
        self.module = module

    def predict(self, samples: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Return the outputs of samples as arrays; logits, or the one output of a regression."""
        import numpy as np
        import torch

        x = torch.from_numpy(np.array(samples))
        with torch.no_grad():
            return self.module(x.view(len(x), *self.module.fitted.shape)).numpy()


def _load_pyfunc(path: str) -> Predictor:
    """Load the model for MLflow; nothing in its files is run."""
    from trials.run.saved_model import read_named

    return Predictor(read_named(Path(path), None).module())
