"""The suite from Python: a sweep, what came out of it, single runs, and a search of one's own.

    python examples/python_interface.py

takes under a minute on two cores. Everything it records lies in `runs/`.
"""

from pathlib import Path

from ray import tune
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search.optuna import OptunaSearch

import suite

# A sweep, as `suite sweep smoke --algorithms fedavg,folb ...`; keywords replace the study's keys.
swept = suite.sweep(
    "smoke",
    name="from_python",
    algorithms=["fedavg", "folb"],
    heterogeneity=["labels(2)"],
    trials=4,
    settings={"rounds": 6},
)
print(swept.summary.trials_finished, "search trials in", swept.summary.seconds, "s")

# Its leaderboard, now or from the store at any time, and as a table of pandas.
board = suite.leaderboard("from_python")
assert board.rows[0].mean == swept.leaderboard.rows[0].mean
print(board.to_pandas()[["algorithm", "rank", "mean", "ci_low", "ci_high", "params.lr"]])

# The best configuration of an algorithm, run again with a seed of its own: a typed result.
best = suite.tuned("folb", dataset="digits")[0]
again = suite.run(best, seed=7)
print(again.status, again.test_score)
print(again.to_pandas()[["round", "test_accuracy", "train_loss", "uploaded_bytes"]])

# Any algorithm as an ordinary trainable of Ray Tune, with a searcher and a scheduler of Ray's.
question = {"heterogeneity": "labels(2)", "settings": {"rounds": 6, "clients": 4, "eval_every": 1}}
results = tune.Tuner(
    suite.trainable("folb", **question),
    param_space={"mu": tune.loguniform(1e-3, 1), "lr": tune.loguniform(0.01, 1), "seed": 1},
    tune_config=tune.TuneConfig(
        metric="val_score",
        mode="max",
        num_samples=4,
        max_concurrent_trials=2,
        reuse_actors=True,
        search_alg=OptunaSearch(seed=0),
        scheduler=ASHAScheduler(time_attr="round", max_t=6, grace_period=2),
    ),
    run_config=tune.RunConfig(storage_path=str(Path("runs/ray_tune").resolve()), verbose=0),
).fit()

# A trial's config is what `run` takes, and gives the same numbers to the last bit.
winner = results.get_best_result()
assert suite.run("folb", **question, **winner.config).val_score == winner.metrics["val_score"]
print(winner.config, winner.metrics["val_score"])
