"""What a sweep is refused for is said before anything starts, and leaves nothing behind."""

import errno
import os

import pytest
from mlflow.exceptions import MlflowException

from suite.execution import driver
from suite.sweeps.journal.file import Journal
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.recording import SweepRecording
from suite.sweeps.request import resumed_study
from suite.sweeps.sweep import Sweep
from suite.tracking.faults import StoreError
from tests.support.commands import runs_of, suite_here
from tests.support.foreign import contents, little, play, swept
from trials.common.errors import UserError


def test_files_to_start_from_are_needed_by_a_sweep_that_has_not_begun(tmp_path):
    place = SweepPaths(tmp_path, "mine")
    with pytest.raises(UserError, match="nofile"):
        place.check("nofile.yaml")
    Journal(place.journal).close()
    place.check("nofile.yaml")


def test_opening_a_sweep_writes_nothing_and_locks_nothing(tmp_path):
    place = SweepPaths(tmp_path / "runs", "s")
    Sweep("s", little(), place)
    assert not list(tmp_path.iterdir())
    play(Sweep("s", little(), place), most=1)
    before = contents(tmp_path)
    opened = [Sweep("s", little(), place, resume=True) for _ in range(2)]
    assert [len(sweep.state.ended) for sweep in opened] == [1, 1]
    assert contents(tmp_path) == before
    with pytest.raises(UserError, match="sweep 's' exists in"):
        Sweep("s", little(), place)


def test_a_store_that_cannot_be_written_halts_and_is_gone_on_with(tmp_path, monkeypatch):
    def unsupported(recording):
        raise StoreError("here", MlflowException("attempt to write a readonly database"))

    monkeypatch.setattr(SweepRecording, "open", unsupported)
    for options in ((), ("--resume",)):
        done = suite_here("sweep", "smoke", *options, cwd=tmp_path, code=3)
        assert done.stderr.splitlines()[-1] == (
            f"halted: tracking store sqlite:///{tmp_path}/runs/mlflow.db cannot be written: attempt to "
            "write a readonly database. Nothing is lost: run the command again with --resume when "
            "that is mended."
        )


def test_a_disk_that_is_full_where_tune_begins_halts(tmp_path, monkeypatch):
    """As it still is where a sweep that a full disk halted is resumed."""

    def full(*args, **given):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(driver.tune, "Tuner", full)
    for options in ((), ("--resume",)):
        done = suite_here("sweep", "smoke", *options, cwd=tmp_path, code=3)
        _, _, said = done.stderr.rpartition("halted: ")
        assert said == (
            "storage runs/smoke/tune cannot be written: No space left on device. Nothing is lost: run "
            "the command again with --resume when that is mended.\n"
        )


def test_what_only_a_plan_measures_starts_no_sweep(tmp_path):
    done = suite_here("sweep", "smoke", "--calibrate", cwd=tmp_path)
    assert done.stdout.endswith("Nothing was started.\n")
    assert "About" in done.stdout
    assert not (tmp_path / "runs").exists()


def test_a_target_that_costs_are_counted_to_stays(tmp_path):
    """Under another one, trials that the sampler was told of would have had other costs."""
    place = swept(tmp_path, target=0.5, constraints={"rounds_to_target": {"max": 2}})
    with pytest.raises(UserError) as refused:
        resumed_study(place, {"target": 0.6})
    assert str(refused.value) == (
        "sweep s: 1 fault, nothing was started\n"
        "  target = 0.6: the sweep was begun with 0.5; use another --name"
    )


def test_of_settings_only_what_changed_is_told(tmp_path):
    place = swept(tmp_path)
    with pytest.raises(UserError) as refused:
        resumed_study(place, {"settings.rounds": 3, "sampler": "tpe"})
    assert str(refused.value) == (
        "sweep s: 2 faults, nothing was started\n"
        "  sampler = 'tpe': the sweep was begun with random; use another --name\n"
        "  settings.rounds = 3: the sweep was begun with 2; use another --name"
    )


@pytest.mark.parametrize("at_once", [False, True])
def test_two_sweeps_of_one_name_on_one_server(tmp_path, monkeypatch, at_once):
    """Also where neither sees the other's run when it begins: who comes second says so before its first trial."""
    monkeypatch.chdir(tmp_path)  # where MLflow keeps the files of such a store
    uri = f"sqlite:///{tmp_path}/shared.db"
    places = [SweepPaths(tmp_path / name, "s", uri) for name in ("one", "two")]
    first, second = (Sweep("s", little(), place) for place in places)
    play(first, most=1)
    looks, own = [None] * at_once, SweepRecording._own
    monkeypatch.setattr(
        SweepRecording, "_own", lambda recording: looks.pop() if looks else own(recording)
    )
    with pytest.raises(UserError) as refused:
        play(second)
    assert str(refused.value) == (
        f"{uri} holds another sweep 's', which another storage has, or whose folder is gone: choose another "
        "--name, or its --storage"
    )
    assert not places[1].folder.exists()
    assert [run.tags["sweep_id"] for run in runs_of(first.store, kind="sweep")] == [first.id]
