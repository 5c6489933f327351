"""Measurements: what rounds, sweeps and commands cost."""
