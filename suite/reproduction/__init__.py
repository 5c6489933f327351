"""Experiments of papers, run again and judged against the printed results."""
