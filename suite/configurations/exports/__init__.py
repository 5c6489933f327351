"""Tuned configurations as files for other programs."""
