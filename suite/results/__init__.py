"""Results, from the tracking store alone."""
