"""What a process may use: affinity, nested control groups, a SLURM job."""

import os
from pathlib import Path

import pytest

from trials.common import machine
from trials.common.machine import machine_memory, usable_cpus


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for control groups on a machine with 64 processors."""
    monkeypatch.setattr(machine, "GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(machine, "OWN", tmp_path / "own")
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda process: set(range(64)))
    monkeypatch.delenv("SLURM_CPUS_PER_TASK", raising=False)
    return tmp_path / "cgroup"


def write(groups: Path, own: str, **files: str) -> None:
    """Put this process into groups, whose files are named as `folder__file`."""
    (groups.parent / "own").write_text(own)
    for name, text in files.items():
        path = groups / name.replace("__", "/").replace("_max", ".max")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")


def test_without_groups_it_is_the_machine(groups: Path) -> None:
    assert usable_cpus() == 64
    assert machine_memory() == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_the_tightest_of_nested_groups_counts(groups: Path) -> None:
    whole = machine_memory()
    write(
        groups,
        "0::/a/b/c\n",
        a__cpu_max="350000 100000",
        a__b__cpu_max="max 100000",
        a__b__c__cpu_max="1200000 100000",
        a__memory_max="max",
        a__b__memory_max="1000000",
        a__b__c__memory_max="2000000",
        other__memory_max="1",
        other__cpu_max="1 100000",
    )
    assert usable_cpus() == 3, "of 3.5 processors' time"
    assert machine_memory() == 1_000_000 < whole


def test_a_container_shows_its_own_group_as_the_topmost(groups: Path) -> None:
    """Its path is the machine's, and leads nowhere in the container."""
    write(groups, "0::/docker/1f3a\n", cpu_max="50000 100000", memory_max="7000000")
    assert (usable_cpus(), machine_memory()) == (1, 7_000_000)


@pytest.mark.parametrize(("given", "counted"), [("3", 3), ("100", 64), ("0", 1), ("many", 64)])
def test_a_slurm_job_s_processors(
    given: str, counted: int, groups: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", given)
    assert usable_cpus() == counted
