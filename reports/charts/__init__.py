"""Charts: what they show, how they look, and how they become files."""
