"""MLflow: what is recorded, and how it is read back."""

from pathlib import Path

RUNS = Path("runs")
"""Where the store and all sweeps are, unless a person says otherwise."""
