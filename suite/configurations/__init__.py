"""Tuned configurations: kept, found, transferred."""
