"""The views in which MLflow shows an experiment: its table of runs as a leaderboard, its charts as curves of final runs."""

import json
import zlib
from typing import TYPE_CHECKING

from suite.tracking.schema.tags import PREFIX, RunKind

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient  # whose environment the store sets first

VIEW, CURVES = "leaderboard", "curves"
TAGS = ("score", "dataset", "model", "heterogeneity", "paper", "sweep")
METRICS = ("rank", "mean", "worst_clients")
"""What the table shows beside the runs' names."""
UNQUOTABLE = set("'\"\\")
"""What has no escape in MLflow's filters."""


def start_page(path: str = "") -> str:
    """Return the path of the experiments in MLflow, or of what is below, at the server's address."""
    # In MLflow's view of experiments: by itself it opens that of language models, where no run is to be seen.
    return f"/#/experiments{path}?workflowType=machine_learning"


def run_page(experiment: str, run_id: str) -> str:
    """Return the path of a run in MLflow."""
    return start_page(f"/{experiment}/runs/{run_id}")


def runs_page(experiment: str) -> str:
    """Return the path of an experiment's table of runs in MLflow."""
    return start_page(f"/{experiment}/runs")


def leaderboard_page(experiment: str, sweep: str | None) -> str:
    """Return the path of an experiment's table of runs as the leaderboard of a sweep, or of all."""
    return f"{runs_page(experiment)}&viewStateShareKey={_key(VIEW, sweep)}"


def curves_page(experiment: str, sweep: str | None) -> str:
    """Return the path of an experiment's charts of a sweep's final runs, or of all, a line an algorithm."""
    key = _key(CURVES, sweep)
    return f"{runs_page(experiment)}&compareRunsMode=CHART&viewStateShareKey={key}"


def _key(view: str, sweep: str | None) -> str:
    return view if sweep is None else f"{view}-{zlib.crc32(sweep.encode()):08x}"


def share(client: "MlflowClient", experiment: str, sweep: str | None = None) -> None:
    """Keep the views of an experiment as MLflow's own "Share" does, as tags. Of one sweep they show no other's runs, unless its
    name cannot be asked for.
    """
    columns = [f"tags.`{PREFIX}{tag}`" for tag in TAGS] + [f"metrics.`{name}`" for name in METRICS]
    quotable = sweep is not None and not set(sweep) & UNQUOTABLE
    own = f" and tags.`{PREFIX}sweep` = '{sweep}'" if quotable else ""
    rows = {
        "searchFilter": f"tags.`{PREFIX}kind` = '{RunKind.LEADERBOARD}'{own}",
        "orderByKey": f"tags.`{PREFIX}row`",
        "orderByAsc": True,
        "selectedColumns": columns,
    }
    by = {"mode": "tag", "groupByData": f"{PREFIX}algorithm"}
    curves = {
        "searchFilter": f"tags.`{PREFIX}kind` = '{RunKind.FINAL}'{own}",
        "groupBy": {"aggregateFunction": "average", "groupByKeys": [by]},
        "useGroupedValuesInCharts": True,
    }
    for view, state in ((VIEW, rows), (CURVES, curves)):
        key = f"mlflow.sharedViewState.{_key(view, sweep)}"
        client.set_experiment_tag(experiment, key, json.dumps(state))


ABOUT = """Sweeps of the study **{study}**, made by `suite`.

- Rows of the leaderboard: `tags.suite.kind = 'leaderboard'`. The metric `mean` is the score on test data, `rank` the place.
- Final runs, one a seed: `tags.suite.kind = 'final'`. Group them by the tag `suite.algorithm` for curves.
- Search trials: `tags.suite.kind = 'search'`. They are chosen by `val_score`, on validation data.

The links *MLflow* and *Curves* of `suite ui` open the first two.
"""
"""What an experiment says of itself, in Markdown."""
