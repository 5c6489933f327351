"""Sweeps: from a study to recorded runs, resumable at any moment."""
