"""Leaderboards in sentences and tables, and as text: for terminals, CSV, Markdown and LaTeX."""
