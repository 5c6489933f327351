"""Ray in this process, for tests of what uses a Ray that a program has started itself."""

from suite.execution import cluster


def started() -> None:
    """Start it as a sweep does for itself, unless it runs; the process's end stops it."""
    if not cluster.ray.is_initialized():
        with cluster.surroundings(cluster.TOKEN):
            cluster.start(cluster.Resources())
