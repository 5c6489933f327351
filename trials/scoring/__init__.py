"""Losses, scores and metrics."""
