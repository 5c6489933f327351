"""What this process may use of its machine: processors and memory, as its containers and jobs limit them."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

GROUPS, OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")  # Linux's, and this process's


def usable_cpus() -> int:
    """Return how many processors this process may keep busy, by its affinity, control groups and SLURM job; at least 1."""
    here = hasattr(os, "sched_getaffinity")  # Linux alone has it
    limits: list[float] = [len(os.sched_getaffinity(0)) if here else os.cpu_count() or 1]
    for text in _limits("cpu.max"):
        with suppress(ValueError):  # "max": no limit
            quota, period = map(int, text.split())
            limits.append(quota / period)
    with suppress(KeyError, ValueError):
        limits.append(float(os.environ["SLURM_CPUS_PER_TASK"]))
    return max(1, int(min(limits)))


def machine_memory() -> int:
    """Return the bytes of memory that this machine has, or the tightest of this process's control groups lets it take."""
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([there, *(int(text) for text in _limits("memory.max") if text.isdigit())])


def _limits(name: str) -> Iterator[str]:
    """Yield the content of a file in this process's control group and those around it. A container may lack some."""
    group = GROUPS
    with suppress(OSError):
        group /= OWN.read_text().strip().rpartition("::/")[2]
    for folder in [group, *group.parents]:
        if folder.is_relative_to(GROUPS):
            with suppress(OSError):
                yield (folder / name).read_text().strip()
