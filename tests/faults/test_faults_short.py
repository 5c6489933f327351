"""A short form of each fault, on real sweeps; the long forms are in test_faults_long.py."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from suite.execution.stop_signal import Control
from suite.tracking.store import Store
from tests.support.commands import suite_here
from tests.support.faults import (
    Driver,
    Server,
    complete,
    histories,
    journal,
    kill_a_worker,
    rounds_run,
    shared_cluster,
    study,
    unhurt,
    workers_of,
)

pytestmark = [
    pytest.mark.timeout(1800),  # seconds on a machine of one's own, minutes on a busy one
    pytest.mark.slow("processes that are stopped, and go on"),
]


@pytest.mark.nightly
def test_two_sweeps_share_a_cluster_that_loses_a_node_a_worker_and_the_records(
    tmp_path: Path,
) -> None:
    """Two Ray nodes, one tracking server over HTTP, one storage, two sweeps. A trial's process is
    killed, then the server, then a node; the server comes back.
    """
    server = Server(tmp_path)
    with shared_cluster() as cluster:
        lost = cluster.add_node(num_cpus=2)
        shared = ("--address", cluster.address, "--tracking-uri", server.uri)
        shared = (*shared, "--set", "checkpoint_seconds=0", "--set", "max_concurrent=2")
        paths = [study(tmp_path, name, rounds=30, trials=3) for name in ("one", "two")]
        drivers = [Driver(tmp_path, path, *shared) for path in paths]
        drivers[0].until(lambda: len(workers_of(os.getpid())) >= 3)
        drivers[0].until(lambda: sum(rounds_run(tmp_path).values()) >= 40)
        kill_a_worker(drivers[0], os.getpid())
        drivers[0].until(lambda: sum(rounds_run(tmp_path).values()) >= 60)
        server.kill()
        cluster.remove_node(lost, allow_graceful=False)
        drivers[0].until(lambda: sum(d.ends() for d in drivers) >= 3)
        server.start()
        for driver in drivers:
            driver.finish()
    store = Store(server.uri, tmp_path)
    died, ran = 0, sum(rounds_run(tmp_path).values())
    for driver, name in zip(drivers, ("one", "two"), strict=True):
        runs = complete(store, name, search=3, finals=1)
        died += len(journal(driver.journal, "died"))
        assert histories(store, runs) == unhurt(runs)
        assert not list((tmp_path / "runs" / name).rglob("*.pt"))
    assert died >= 1
    assert ran < 2 * 4 * 30 + died * 20, "trials went on from their checkpoints"
    server.kill()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator["Disk"]:
    """A disk of its own."""
    disk = Disk(tmp_path)
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk.path], check=True)


class Disk:
    """An ext4 file system of 32 MB, which turns read-only when it finds an error, as real ones do."""

    def __init__(self, folder: Path) -> None:
        self.image, self.path = folder / "image", folder / "disk"
        self.path.mkdir()
        with self.image.open("wb") as file:
            file.truncate(32 << 20)
        try:
            subprocess.run(["mkfs.ext4", "-q", self.image], check=True, capture_output=True)
            self._mount()
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("needs the right to mount a file system")

    def _mount(self) -> None:
        options = ["-o", "loop,errors=remount-ro"]
        mount = ["mount", *options, self.image, self.path]
        subprocess.run(mount, check=True, capture_output=True)

    def fail(self) -> None:
        """Have the kernel find an error: from now on nothing can be written, open files included."""
        found = ["findmnt", "-no", "SOURCE", self.path]
        device = subprocess.run(found, check=True, capture_output=True, text=True).stdout.strip()
        Path("/sys/fs/ext4", Path(device).name, "trigger_fs_error").write_text("a test")

    def repair(self) -> None:
        """Check it and mount it again."""
        subprocess.run(["umount", self.path], check=True)
        subprocess.run(["e2fsck", "-fy", self.image], check=False, capture_output=True)
        self._mount()


@pytest.mark.nightly
def test_a_disk_that_turns_read_only_or_fills_up_and_a_torn_checkpoint(
    tmp_path: Path, small_disk: Disk
) -> None:
    path, storage = study(tmp_path, "full", rounds=40), small_disk.path / "runs"
    command = (
        path,
        "--storage",
        storage,
        "--set",
        "checkpoint_seconds=0",
        "--set",
        "max_concurrent=2",
    )
    checkpoints = storage / "full" / "checkpoints"

    def under_way(rounds: int) -> bool:
        return sum(rounds_run(tmp_path).values()) >= rounds and any(checkpoints.glob("*.pt"))

    driver = Driver(tmp_path, *command)
    driver.until(lambda: under_way(rounds=8))
    small_disk.fail()
    driver.finish(code=3)
    # Whoever writes as it turns meets an error of the disk, and whoever writes later a disk for reading.
    assert re.search("Read-only file system|Input/output error", said(driver))
    small_disk.repair()
    before = sum(rounds_run(tmp_path).values())
    driver = Driver(tmp_path, *command, "--resume")
    driver.until(lambda: under_way(rounds=before + 8))
    fill(small_disk.path / "ballast")
    driver.finish(code=3)
    # Whoever writes first meets it: a checkpoint, or the store of running trials.
    assert re.search("No space left on device|database or disk is full", said(driver))
    (small_disk.path / "ballast").unlink()
    torn = next(checkpoints.glob("*.pt"))
    torn.write_bytes(torn.read_bytes()[:100])
    again = suite_here("sweep", *command, "--resume", cwd=tmp_path, code=3)
    assert f"{torn} is damaged" in again.stderr.rpartition("halted: ")[2]
    assert "Traceback" not in again.stderr
    suite_here("sweep", *command, "--resume", cwd=tmp_path)
    store = Store(None, storage)
    runs = complete(store, "full", search=4, finals=1)
    assert histories(store, runs) == unhurt(runs)


def fill(path: Path) -> None:
    """Write until the disk is full."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def said(driver: Driver) -> str:
    """What the last session said: one message, and nothing like a traceback."""
    text = driver.said.rpartition("halted: ")[2]
    assert driver.said.count("halted: ") >= 1
    assert "Traceback" not in driver.said
    return text


def test_stop_lets_running_trials_finish_and_cancel_does_not(tmp_path: Path) -> None:
    path = study(tmp_path, "asked", rounds=40, trials=6)
    command = (path, "--set", "checkpoint_seconds=0", "--set", "max_concurrent=2")
    control = Control(tmp_path / "runs" / "asked")
    driver = Driver(tmp_path, *command)
    driver.until(lambda: sum(rounds_run(tmp_path).values()) >= 10)
    control.ask("stop")
    driver.finish(code=130)
    assert "Stopped; everything is kept" in driver.said
    assert driver.ends() == len(journal(driver.journal, "request")) == 4, (
        "two packs of two, of 6 trials"
    )
    again = Driver(tmp_path, *command, "--resume")
    again.until(lambda: list((tmp_path / "runs" / "asked" / "checkpoints").glob("*.pt")) != [])
    control.ask("cancel")
    again.finish(code=130)
    assert "Cancelled; everything is kept" in again.said
    assert len(journal(driver.journal, "request")) > again.ends() >= 4


def test_cancel_ends_what_never_returns(tmp_path: Path) -> None:
    """A pack of two, in a round without an end."""
    path = study(tmp_path, "stuck", seconds=1e6)
    driver = Driver(tmp_path, path, "--set", "max_concurrent=1")
    driver.until(lambda: driver.journal.exists() and journal(driver.journal, "request") != [])
    driver.until(lambda: len(workers_of(driver.process.pid)) > 0)
    Control(tmp_path / "runs" / "stuck").ask("cancel")
    driver.finish(code=130)
    assert "Cancelled; everything is kept" in driver.said
    assert driver.ends() == 0
    assert not workers_of(os.getpid())
