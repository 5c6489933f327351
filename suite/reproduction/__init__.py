"""The papers' experiments, run again and judged."""
