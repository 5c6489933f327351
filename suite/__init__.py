"""Drives studies: command line, Ray Tune, Optuna, MLflow."""
