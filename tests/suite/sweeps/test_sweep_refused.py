"""What a sweep is refused for is said before anything starts, and leaves nothing behind; how a resumed one may grow."""

import errno
import os

import pytest
from mlflow.exceptions import MlflowException

from suite.execution import driver
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.recording import SweepRecording
from suite.sweeps.request import SweepRequest, resumed_study
from suite.sweeps.sweep import Sweep
from suite.tracking import StoreError
from tests.support.commands import runs_of, suite_here
from tests.support.foreign import contents, little, play, swept
from trials.common.errors import UserError


def test_opening_a_sweep_writes_nothing_and_locks_nothing(tmp_path):
    place = SweepPaths(tmp_path / "runs", "s")
    with pytest.raises(UserError, match="nofile"):
        Sweep("s", little(warm_start="nofile.yaml"), place)
    Sweep("s", little(), place)
    assert not list(tmp_path.iterdir())
    play(Sweep("s", little(), place), most=1)
    before = contents(tmp_path)
    opened = [Sweep("s", little(), place, resume=True) for _ in range(2)]
    assert [len(sweep.state.ended) for sweep in opened] == [1, 1]
    assert contents(tmp_path) == before
    with pytest.raises(UserError, match="sweep 's' exists in"):
        Sweep("s", little(), place)


def full(*args, **given):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def readonly(recording):
    raise StoreError("here", MlflowException("attempt to write a readonly database"))


@pytest.mark.parametrize(
    ("where", "fails", "said"),
    [
        ((SweepRecording, "_open_run"), readonly, "attempt to write a readonly database"),
        ((driver.tune, "Tuner"), full, "runs/smoke/tune cannot be written: No space left"),
    ],
)
def test_a_place_that_cannot_be_written_halts_and_is_gone_on_with(
    tmp_path, monkeypatch, where, fails, said
):
    monkeypatch.setattr(*where, fails)
    for options in ((), ("--resume",)):
        done = suite_here("sweep", "smoke", *options, cwd=tmp_path, code=3, on_ray=True)
        assert said in done.stderr.rpartition("halted: ")[2]


@pytest.mark.parametrize(
    "changes",
    [
        {"settings.rounds": 3},
        {"sampler": "tpe"},
        {"trials": 1},
        {"algorithms": ["fedprox"]},
    ],
)
def test_a_resumed_sweep_asks_for_nothing_else_and_for_no_less(changes):
    former = little(target=0.5, sampler="random")
    with pytest.raises(UserError) as refused:
        resumed_study(former.model_dump(mode="json"), changes, "sweep s")
    (key,) = changes
    (line,) = str(refused.value).splitlines()[1:]
    assert line.startswith(f"  {key} = ")


def test_what_a_sweep_takes_in_comes_after_what_it_had(tmp_path):
    """So published configurations stay with the level that had them, wherever the option lists it."""
    grown = {"algorithms": ["fedprox", "fedavg"], "heterogeneity": ["labels(2)"], "trials": 4}
    place = swept(tmp_path, **grown)
    before = dict(place.state().requests)
    changes = {"heterogeneity": ["iid", "labels(2)"]}
    sweep = SweepRequest("s", place, changes, resume=True).open()
    assert sweep.study.heterogeneity == ["labels(2)", "iid"]
    play(sweep)
    requests = sweep.search.requests
    assert {i: requests[i] for i in before if "-s" in i} == {
        i: request for i, request in before.items() if "-s" in i
    }


def test_two_sweeps_of_one_name_on_one_server(tmp_path, monkeypatch):
    """Who comes second says so before its first trial."""
    monkeypatch.chdir(tmp_path)  # where MLflow keeps the files of such a store
    uri = f"sqlite:///{tmp_path}/shared.db"
    places = [SweepPaths(tmp_path / name, "s", uri) for name in ("one", "two")]
    first, second = (Sweep("s", little(), place) for place in places)
    play(first, most=1)
    with pytest.raises(UserError, match="holds another sweep 's'"):
        play(second)
    assert not places[1].folder.exists()
    assert [run.tags["sweep_id"] for run in runs_of(first.store, kind="sweep")] == [first.id]
