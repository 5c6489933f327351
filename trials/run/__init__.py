"""One trial: from its specification to its result."""
