"""Studies: YAML in, cells out."""
