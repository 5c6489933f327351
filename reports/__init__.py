"""Leaderboards and pages made from recorded runs. Nothing here trains a model or imports torch."""
