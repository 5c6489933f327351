"""How trials are run: Ray Tune on a cluster."""
