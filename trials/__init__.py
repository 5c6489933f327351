"""The code of one trial: a model trained by a federated algorithm on data that are partitioned to clients.

No module here imports Optuna, MLflow or the package `suite`. Only `trials.run.trainable` imports Ray.
"""
