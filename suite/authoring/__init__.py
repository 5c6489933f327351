"""Templates of a new algorithm and its test."""
