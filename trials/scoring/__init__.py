"""Losses for training, scores of models, and metrics of runs."""
