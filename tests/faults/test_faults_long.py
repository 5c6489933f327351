"""The long forms: `make test-nightly`. Each injects its fault for real, many times or for long."""

import random
import time
from collections import Counter
from pathlib import Path

import psutil  # comes with Ray
import pytest

from suite.tracking.store import Record, Store
from tests.support.faults import (
    Driver,
    Server,
    complete,
    histories,
    journal,
    kill_a_worker,
    rounds_run,
    study,
    unhurt,
)

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(7200)]
LEVELS = '"iid", "labels(2)"'


def killed(folder: Path, path: Path, kills: int) -> int:
    """Start a sweep and kill its driver at random moments, so often; then let it end. Sessions."""
    draw, command, sessions = random.Random(kills), (path, "--set", "max_concurrent=2"), 0
    while True:
        more = ("--resume",) if sessions else ()
        driver = Driver(folder, *command, *more)
        sessions += 1
        if kills == 0:
            driver.finish()
            return sessions
        before, moment = driver.ends(), draw.randrange(2)
        if moment:  # after some trials; else while it starts
            driver.until(lambda d=driver, n=before + moment: d.ends() >= n or over(d))
        time.sleep(draw.random() / 2)
        if over(driver):
            return sessions
        driver.kill()
        kills -= 1


def over(driver: Driver) -> bool:
    return driver.process.poll() is not None


def pruned(runs: list[Record]) -> float:
    """The share of search trials that were stopped."""
    search = Counter(r.tags["status"] for r in runs if r.tags["kind"] == "search")
    return search["pruned"] / search.total()


def test_twenty_kills_of_the_driver_under_asha(tmp_path: Path) -> None:
    """40 trials in two entries; the budget of each is exact, and the rungs are rebuilt."""
    shares = {}
    for name, kills in (("calm", 0), ("hurt", 20)):
        folder = tmp_path / name
        folder.mkdir()
        given = {"trials": 20, "seeds": 2, "rounds": 18, "seconds": 0.1}
        path = study(folder, "kills", scheduler="asha", levels=LEVELS, **given)
        sessions = killed(folder, path, kills)
        assert sessions == kills + 1
        store = Store(None, folder / "runs")
        runs = complete(store, "kills", search=40, finals=4)
        per_cell = Counter((r.tags["entry_id"], r.tags["kind"]) for r in runs)
        assert sorted(per_cell.values()) == [2, 2, 20, 20]
        shares[name] = pruned(runs)
        print(f"{name}: {sessions} sessions, {shares[name]:.0%} of search trials stopped")
    assert shares["calm"] > 0.2
    assert shares["hurt"] >= 0.6 * shares["calm"]


def test_kills_of_the_driver_change_no_number_without_early_stopping(tmp_path: Path) -> None:
    path = study(tmp_path, "kills", trials=10, seeds=2, rounds=18, seconds=0.1, levels=LEVELS)
    assert killed(tmp_path, path, 10) == 11
    store = Store(None, tmp_path / "runs")
    runs = complete(store, "kills", search=20, finals=4)
    assert histories(store, runs) == unhurt(runs)


def test_a_trial_s_process_killed_ten_times(tmp_path: Path) -> None:
    given = {"rounds": 60, "seconds": 0.1, "retries": 10}  # all kills may meet one trial
    path = study(tmp_path, "workers", trials=10, seeds=2, **given)
    driver = Driver(tmp_path, path, "--set", "checkpoint_seconds=0", "--set", "max_concurrent=2")
    for _ in range(10):
        ran = sum(rounds_run(tmp_path).values())
        driver.until(lambda n=ran: sum(rounds_run(tmp_path).values()) >= n + 40)
        kill_a_worker(driver, driver.process.pid)
    driver.finish()
    store = Store(None, tmp_path / "runs")
    runs = complete(store, "workers", search=10, finals=2)
    ran = sum(rounds_run(tmp_path).values())
    died = len(journal(driver.journal, "died"))
    assert died >= 8, "a process may be between two trials when it is killed"
    assert ran < 12 * 60 + died * 30, "they went on from checkpoints, about a second old"
    assert {r.tags["status"] for r in runs} == {"finished"}
    assert histories(store, runs) == unhurt(runs)
    print(f"{died} deaths, {ran - 12 * 60} rounds run again of {12 * 60}")


def test_ray_kills_trials_for_memory(tmp_path: Path) -> None:
    """A trial takes 4 GB, 2.5 GB more than Ray lets this machine's processes have; Ray kills it, and maybe
    others beside it.
    """
    path = study(tmp_path, "hungry", rounds=20, seconds=0.1, retries=6)
    source, mark = tmp_path / "slow.py", tmp_path / "taken"
    hungry = f"""
        if fed.round == 5 and not os.path.exists({str(mark)!r}):
            open({str(mark)!r}, "w").close()
            held = b"x" * (4 << 30)
            time.sleep(60)
"""
    text = source.read_text().replace("import time", "import os\nimport time")
    source.write_text(text.replace("        return super", hungry + "        return super"))
    memory = psutil.virtual_memory()
    share = 1 - (memory.available - 2.5e9) / memory.total
    options = ("--set", "checkpoint_seconds=0", "--set", "max_concurrent=2")
    driver = Driver(tmp_path, path, *options, RAY_memory_usage_threshold=f"{share:.3f}")
    driver.finish()
    died = journal(driver.journal, "died")
    assert died
    assert all("killed due to the node running low on memory" in line["error"] for line in died)
    store = Store(None, tmp_path / "runs")
    runs = complete(store, "hungry", search=4, finals=1)
    assert histories(store, runs) == unhurt(runs)


def test_a_tracking_server_killed_for_half_a_minute(tmp_path: Path) -> None:
    server = Server(tmp_path)
    path = study(tmp_path, "away", trials=30, seeds=2, rounds=10, seconds=0.1)
    driver = Driver(tmp_path, path, "--tracking-uri", server.uri, "--set", "max_concurrent=2")
    driver.until(lambda: driver.ends() >= 4)
    server.kill()
    ended, gone = driver.ends(), time.monotonic()
    driver.until(lambda: driver.ends() >= min(31, ended + 10))
    slowest = time.monotonic() - gone
    time.sleep(max(0.0, 30 - slowest))
    server.start()
    driver.finish()
    store = Store(server.uri, tmp_path)
    runs = complete(store, "away", search=30, finals=2)
    assert histories(store, runs) == unhurt(runs)
    recorded = [event["trial_id"] for event in journal(driver.journal, "recorded")]
    assert recorded == [event["trial_id"] for event in journal(driver.journal, "end")], "in order"
    server.kill()
    print(f"10 trials in {slowest:.1f} s while the server was away")


@pytest.mark.parametrize("name", ["gcs_server", "raylet"])
def test_a_process_of_the_sweep_s_own_cluster_is_killed(name: str, tmp_path: Path) -> None:
    """It says so and ends, before Ray ends it with words of its own; and it goes on."""
    path = study(tmp_path, "ray", rounds=60)
    driver = Driver(tmp_path, path, "--set", "max_concurrent=2")
    driver.until(lambda: sum(rounds_run(tmp_path).values()) >= 10)
    (victim,) = (
        child
        for child in psutil.Process(driver.process.pid).children(recursive=True)
        if child.name() == name
    )
    victim.kill()
    driver.finish(code=3)
    assert f"halted: Ray's process {name} has died" in driver.said
    assert "Traceback" not in driver.said
    assert not journal(driver.journal, "died"), "no trial is to blame"
    driver = Driver(tmp_path, path, "--set", "max_concurrent=2", "--resume")
    driver.finish()
    store = Store(None, tmp_path / "runs")
    runs = complete(store, "ray", search=4, finals=1)
    assert histories(store, runs) == unhurt(runs)
