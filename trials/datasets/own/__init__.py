"""Data of one's own: files, tables, plays, functions and data given in Python."""
