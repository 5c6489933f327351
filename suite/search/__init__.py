"""The search for good configurations: which trial is next, and which configuration is best."""
