"""The journal of a sweep: its events, its file, and the folder that it is in."""
