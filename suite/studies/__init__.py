"""Studies: YAML in, entries out."""
