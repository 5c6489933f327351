"""Studies: what people write in YAML, and the entries that a sweep makes of it."""
