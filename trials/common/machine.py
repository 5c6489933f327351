"""The processors and the memory that this process may use, within the limits of containers and SLURM jobs."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")  # the folder of Linux's control groups
OWN = Path("/proc/self/cgroup")  # the file that names this process's group


def usable_cpus() -> int:
    """Return how many processors this process may use, at least 1. CPU affinity, control groups and SLURM may limit the number."""
    linux = hasattr(os, "sched_getaffinity")
    limits: list[float] = [len(os.sched_getaffinity(0)) if linux else os.cpu_count() or 1]
    for text in _limits("cpu.max"):
        with suppress(ValueError):  # "max": no limit
            quota, period = map(int, text.split())
            limits.append(quota / period)
    with suppress(KeyError, ValueError):
        limits.append(float(os.environ["SLURM_CPUS_PER_TASK"]))
    return max(1, int(min(limits)))


def machine_memory() -> int:
    """Return how many bytes of memory this process may use. Control groups may allow less memory than the machine has."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([installed, *(int(text) for text in _limits("memory.max") if text.isdigit())])


def _limits(name: str) -> Iterator[str]:
    """Yield the contents of each file `name` in this process's control group and in the parents of this group."""
    group = GROUPS
    with suppress(OSError):
        group /= OWN.read_text().strip().rpartition("::/")[2]
    for folder in [group, *group.parents]:
        if folder.is_relative_to(GROUPS):
            with suppress(OSError):
                yield (folder / name).read_text().strip()
