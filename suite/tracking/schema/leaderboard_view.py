"""The view in which MLflow's table of runs is a leaderboard: which runs, in which order, which columns."""

import json
import zlib
from typing import TYPE_CHECKING

from suite.tracking.schema.tags import PREFIX, RunKind

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient  # whose environment the store sets first

VIEW = "leaderboard"
TAGS = ("score", "dataset", "model", "heterogeneity", "paper", "sweep")
METRICS = ("rank", "mean", "worst_clients")
"""What the table shows beside the runs' names."""
UNQUOTABLE = set("'\"\\")
"""What has no escape in MLflow's filters."""


def _page(path: str) -> str:
    """A path of MLflow's pages, below the server's address, in their view of experiments: by itself MLflow opens
    that of language models, where no run is to be seen.
    """
    return f"/#{path}?workflowType=machine_learning"


def start_page() -> str:
    """The path of the experiments in MLflow."""
    return _page("/experiments")


def runs_page(experiment: str) -> str:
    """The path of an experiment's table of runs in MLflow."""
    return _page(f"/experiments/{experiment}/runs")


def run_page(experiment: str, run_id: str) -> str:
    """The path of a run in MLflow."""
    return _page(f"/experiments/{experiment}/runs/{run_id}")


def leaderboard_page(experiment: str, sweep: str | None) -> str:
    """The path of an experiment's table of runs as the leaderboard of a sweep, or of all."""
    return f"{runs_page(experiment)}&viewStateShareKey={_key(sweep)}"


def _key(sweep: str | None) -> str:
    """The key by which an address names the view of a sweep, or of all."""
    own = sweep is not None and not set(sweep) & UNQUOTABLE
    return f"{VIEW}-{zlib.crc32(sweep.encode()):08x}" if own and sweep else VIEW


def share(client: "MlflowClient", experiment: str, sweep: str | None = None) -> None:
    """Keep the view of an experiment as MLflow's own "Share" does, as a tag. Of one sweep it shows no other's rows."""
    where, key = {"kind": str(RunKind.LEADERBOARD)}, _key(sweep)
    if sweep is not None and key != VIEW:
        where["sweep"] = sweep
    columns = [f"tags.`{PREFIX}{tag}`" for tag in TAGS]
    state = {
        "searchFilter": " and ".join(f"tags.`{PREFIX}{k}` = '{v}'" for k, v in where.items()),
        "orderByKey": f"tags.`{PREFIX}row`",
        "orderByAsc": True,
        "selectedColumns": [*columns, *(f"metrics.`{name}`" for name in METRICS)],
    }
    client.set_experiment_tag(experiment, f"mlflow.sharedViewState.{key}", json.dumps(state))
