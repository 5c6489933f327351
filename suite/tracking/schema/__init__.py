"""What a recorded run holds: the names, forms and meaning of its tags, params and metrics."""
