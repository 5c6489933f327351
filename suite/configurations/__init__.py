"""Tuned configurations: how they are stored, selected, reused by searches, and exported as programs."""
