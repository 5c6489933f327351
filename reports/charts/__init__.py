"""Charts: what they show, how they look, and one file for each kind."""
