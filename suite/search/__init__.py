"""Which trial is next."""
