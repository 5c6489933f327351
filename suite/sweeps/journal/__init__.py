"""A sweep's journal: its events, its file, where it lies, and how it is resumed."""
