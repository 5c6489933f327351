"""Runs outside a sweep: one, or a fixed list."""
