"""What one trial does: federated learning on data, models, an engine and algorithms.

Knows nothing of Optuna, MLflow or the driver; only `trials.run.trainable` knows Ray.
"""
