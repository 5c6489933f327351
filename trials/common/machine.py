"""What this process may use of its machine: processors and memory, as its containers and jobs limit them."""

import os
from contextlib import suppress
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
"""Where Linux shows control groups: the second version here, controllers of the first in folders of theirs."""
OWN = Path("/proc/self/cgroup")
"""Which groups this process is in."""


def usable_cpus() -> int:
    """How many processors this process may keep busy, at least 1: those that it may run on (`taskset`,
    cpusets), and no more than the quotas of its control groups (a container's `--cpus`) and the `-c` of
    its SLURM job let it.
    """
    limits = [_placed(), *filter(None, map(_quota, _groups("cpu")))]
    with suppress(KeyError, ValueError):
        limits.append(float(os.environ["SLURM_CPUS_PER_TASK"]))
    return max(1, int(min(limits)))


def machine_memory() -> int:
    """Bytes of memory that this machine has, or the tightest of this process's control groups lets it take."""
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for group in _groups("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):  # a ValueError for "max": no limit
                there = min(there, int((group / name).read_text()))
    return there


def _placed() -> int:
    """How many processors the kernel runs this process on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quota(group: Path) -> float | None:
    """How many processors' time a control group may take; None where it has no limit."""
    with suppress(OSError, ValueError):  # a ValueError for "max": no limit
        quota, period = map(int, (group / "cpu.max").read_text().split())
        return quota / period
    with suppress(OSError, ValueError):
        quota = int((group / "cpu.cfs_quota_us").read_text())
        if quota > 0:  # -1: no limit
            return quota / int((group / "cpu.cfs_period_us").read_text())
    return None


def _groups(controller: str) -> list[Path]:
    """The folders of the control groups of this process that have a controller, and of those around them.

    A container may show its own group as the topmost one, by a path that is the machine's: what is not
    there of such a path is skipped.
    """
    roots = [GROUPS, GROUPS / controller]
    found = dict.fromkeys(roots)
    with suppress(OSError):
        for line in OWN.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and controller not in controllers.split(","):
                continue
            group = roots[bool(controllers)] / path.lstrip("/")
            found |= dict.fromkeys([group, *group.parents])
    return [group for group in found if group.is_relative_to(GROUPS)]
