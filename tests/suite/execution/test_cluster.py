"""What fits where, estimates of what trials take, and asking a sweep of another process to end."""

import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from suite.execution import cluster
from suite.execution.cluster import Cluster, Resources, fits
from suite.execution.estimate import Estimates
from suite.execution.stop_signal import Control
from suite.search.trial import TrialRequest
from suite.studies.entries import load_data
from suite.sweeps.journal.events import Begun, Died, Journal, Requested, SweepState, ended
from tests.support.commands import STUDY, document, fault, records, study_file, suite_here
from tests.support.searches import a_study, a_trial, entries_of
from trials.algorithms import ALGORITHMS
from trials.common.errors import UserError
from trials.engine.federation import ClientRows
from trials.run.outcome import Status, TrialKind, TrialResult
from trials.run.trial import fit_model, load_dataset, partition_data, simulate
from trials.sizing import footprint, pack_size

NODES = [
    {"CPU": 8.0, "memory": 10e9},
    {"CPU": 4.0, "GPU": 2.0, "memory": 100e9, "node:10.0.0.2": 1.0},
]


def test_how_many_trials_a_node_holds() -> None:
    assert fits(NODES[0], {"CPU": 1.0}) == 8
    assert fits(NODES[0], {"CPU": 0.1}) == 80, "tenths do not add up to less than a whole"
    assert fits(NODES[0], {"CPU": 1.0, "memory": 3e9}) == 3
    assert fits(NODES[0], {"CPU": 1.0, "GPU": 0.25}) == 0
    assert fits(NODES[1], {"CPU": 0.5, "GPU": 0.25, "memory": 1e9}) == 8
    assert fits({"GPU": 4.0}, {"GPU": 0.4}) == 8, "2 on each of 4 cards, not 10"
    assert fits({"GPU": 4.0}, {"GPU": 1.0}) == 4


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Two nodes, and one that is dead."""
    found = [{"Alive": True, "Resources": node} for node in NODES]
    found.append({"Alive": False, "Resources": {"CPU": 1000.0, "memory": 1e15}})
    monkeypatch.setattr(cluster.ray, "nodes", lambda: found)
    return found


def test_the_cluster_is_filled_and_refilled(nodes: list[dict[str, Any]], monkeypatch) -> None:
    made = Cluster(Resources(cpus_per_trial=2, address="auto"))
    assert made.slots() == 6
    assert Cluster(Resources(max_concurrent=3)).slots() == 3
    nodes[0]["Alive"] = False
    assert made.slots() == 6, "nodes are counted every few seconds"
    monkeypatch.setattr(cluster, "REFRESH_SECONDS", -1.0)
    assert made.slots() == 2


def test_a_trial_that_no_node_can_hold_is_refused_with_the_reason(nodes: list) -> None:
    made = Cluster(Resources(cpus_per_trial=2, gpus_per_trial=1, address="auto"))
    made.refuse({"small": 10**9})
    with pytest.raises(
        UserError, match=r"a trial of large: .* 200 memory.* 8 CPU, 0 GPU, 10 memory"
    ):
        made.refuse({"small": 10**9, "large": 200 * 10**9})
    # Where nodes may join, the person's word counts.
    many = Resources(max_concurrent=3, cpus_per_trial=500, address="auto")
    Cluster(many).refuse({"large": 10**12})


def test_what_trials_wait_for_on_a_cluster_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    free = {"CPU": 1.0}
    monkeypatch.setattr(cluster.ray, "available_resources", lambda: free)
    monkeypatch.setattr(cluster.ray, "cluster_resources", lambda: {"CPU": 8.0})
    shared = Cluster(Resources(address="auto"))
    assert shared.waits() == ""
    free.clear()
    assert shared.waits().startswith("waiting for CPUs that other work holds (0 of 8 free")


@pytest.mark.usefixtures("no_ray_yet")
def test_a_limit_of_addresses_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster.resource, "getrlimit", lambda kind: (4 * 10**9, -1))
    with pytest.raises(UserError, match="ulimit -v unlimited"):
        cluster.check(Resources())


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_state_s_size_is_known_before_it_exists(algorithm: str) -> None:
    """Against the state after rounds in which every client took part."""
    spec = a_trial(algorithm)
    data = partition_data(spec, load_dataset(spec, None))
    found = footprint(spec, data, fit_model(spec, data.dataset), "cpu")
    simulation = simulate(spec, data)
    while not simulation.finished:
        simulation.advance()
    sizes = []
    for value in simulation.state.values():
        tensor = value.values if isinstance(value, ClientRows) else value
        sizes.append(0 if tensor is None else tensor.numel() * tensor.element_size())
    assert found.state == sum(sizes)
    if not ALGORITHMS[algorithm].reference and algorithm in ("fedavg", "fedprox", "scaffold"):
        assert found.steps * 3 == simulation.fed.counters["client_steps"]


PEAK = """
import resource, sys
from trials.run.spec import TrialSpec
from trials.sizing import footprint
from trials.run.trial import partition_data, fit_model, load_dataset, simulate
spec = TrialSpec.model_validate_json(sys.argv[1])
data = partition_data(spec, load_dataset(spec, None))
simulation = simulate(spec, data)
while not simulation.finished:
    simulation.advance()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(peak, footprint(spec, data, fit_model(spec, data.dataset), "cpu").memory)
"""


@pytest.mark.nightly
def test_the_estimate_is_near_what_a_process_takes() -> None:
    """250 clients' states of 4 x 77,000 weights are a third of a gigabyte."""
    spec = a_trial("scaffold", "mlp(1024)", clients=250, rounds=2)
    command = [sys.executable, "-c", PEAK, spec.model_dump_json()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    measured, estimated = map(int, done.stdout.split())
    assert measured > 7e8, "more than a process with nothing in it"
    assert 0.8 * measured < estimated < 1.5 * measured


def test_memory_per_trial_replaces_the_estimate() -> None:
    (entry,) = entries_of()
    data = load_data([entry], None, "test")
    given = Estimates(a_study(), data, Resources(memory_per_trial=1.5))
    assert given.memory([entry]) == {entry.id: 1_500_000_000}
    assert Estimates(a_study(), data, Resources()).memory([entry])[entry.id] > 10**8


@pytest.mark.parametrize(("of", "size"), [({}, 6), ({"rounds": 50_000}, 1), ({"clip_norm": 1}, 1)])
def test_only_short_compiled_trials_share_a_process(of: dict[str, int], size: int) -> None:
    spec = a_trial("fedavg", clients=4, **of)
    data = partition_data(spec, load_dataset(spec, None))
    model = fit_model(spec, data.dataset)
    assert pack_size(spec, data, model, "cpu", footprint(spec, data, model, "cpu")) == size


def test_the_plan_says_what_a_sweep_takes(tmp_path: Path) -> None:
    path = study_file(tmp_path)
    plan = document(suite_here("sweep", path, "--dry-run", "--json", cwd=tmp_path))
    assert (plan["trials"], plan["rounds"], plan["retries"]) == (4 * 8, 4 * 8 * 6, 2)
    assert plan["cpu_hours"] is None
    iid = [c["estimate"] for c in plan["entries"] if "iid" in c["name"]]
    # digits: 1797 samples, a fifth for tests, a tenth of the rest for validation; 4 clients, full
    # participation, one epoch of minibatches of 32.
    spec = a_trial("fedavg", clients=4)
    sizes = partition_data(spec, load_dataset(spec, None)).sizes
    assert iid[0]["client_steps"] == 8 * 6 * sum(-(-int(m) // 32) for m in sizes)
    assert plan["client_steps"] == sum(c["estimate"]["client_steps"] for c in plan["entries"])
    assert iid[0]["checkpoint_bytes_per_trial"] == 650 * 4
    assert not (tmp_path / "runs").exists()
    measured = document(suite_here("sweep", path, "--calibrate", "--json", cwd=tmp_path))
    assert 0 < measured["cpu_hours"] < 1
    assert measured["gpu_hours"] == 0
    assert measured["entries"][0]["estimate"]["seconds"] > 0


def test_a_sweep_is_asked_to_end_by_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "mine"
    journal = Journal(folder / "journal.jsonl", SweepState())
    study = a_study(trials=3, seeds=2).model_dump(mode="json")
    place = {"dataset": "digits", "model": "logreg", "heterogeneity": "iid"}
    about = {"1f3a": {"algorithm": "fedavg", **place, "metric": "accuracy"}}
    planned = {"1f3a": 5}
    journal.write(
        Begun(study_name="s", study=study, lag=4, planned=planned, id="id", entries=about)
    )
    for index, trial_id in enumerate(("1f3a-s0000", "1f3a-s0001")):
        request = TrialRequest(trial_id, "1f3a", TrialKind.SEARCH, index, "default", {}, 0, 0)
        journal.write(Requested(request=request))
    journal.write(Died(trial_id="1f3a-s0000", round=3, error="x"))
    journal.write(*ended("1f3a-s0000", TrialResult(Status.FINISHED)))
    status = document(suite_here("status", "mine", "--json", cwd=tmp_path))
    assert status["running"] is True, "another file handle holds the lock"
    wanted = {"requested": 2, "running_trials": 0, "ended": 1, "finished": 1, "died": 1}
    wanted |= {"recorded": 0, "expected": 5}
    assert wanted.items() <= status.items(), "a trial that waits for a process does not run"
    control = Control(folder)
    assert not control.draining
    suite_here("stop", "mine", cwd=tmp_path)
    control._next = 0.0
    assert control.draining
    assert not control.ends_now
    assert document(suite_here("status", "--json", cwd=tmp_path))[0]["asked_to"] == "stop"
    suite_here("stop", "mine", "--now", cwd=tmp_path)
    control._next = 0.0
    assert control.ends_now
    assert control.ending == "cancelled"
    control.clear()
    journal.close()
    said = suite_here("stop", "mine", cwd=tmp_path).stderr
    assert "No process" in said
    assert "not running here, asked to stop" in suite_here("status", cwd=tmp_path).stdout
    assert "'mine'" in fault(suite_here("stop", "mime", cwd=tmp_path, code=2))


def test_faults_and_signals_are_stronger_than_a_request_to_stop(tmp_path: Path) -> None:
    control = Control(tmp_path)
    control.end("stopped")
    assert not control.ends_now
    control.end("interrupted")
    control.end("stopped")
    assert control.ends_now
    control.halt("disk full")
    control.halt("disk still full")
    control.end("cancelled")
    assert (control.ending, control.fault) == ("halted", "disk full")


@pytest.mark.usefixtures("no_ray_yet")
@pytest.mark.parametrize("address", ["127.0.0.1:9", "somewhere", "host:port", "127.0.0.1:99999"])
def test_an_address_at_which_nobody_is(address: str, tmp_path: Path) -> None:
    """Asked before Ray, which would ask for half a minute, and before a store is made."""
    path = study_file(tmp_path, STUDY)
    said = fault(suite_here("sweep", path, "--address", address, cwd=tmp_path, code=2))
    assert said.startswith(f"--address {address} cannot be joined")
    assert [path.name for path in tmp_path.iterdir()] == ["small.yaml"]


def test_auto_is_a_cluster_that_was_started_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray would join any that runs here, another sweep's own included."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    with pytest.raises(UserError, match="no `ray start` cluster"):
        cluster.address_of("auto")
    (tmp_path / "ray").mkdir()
    (tmp_path / "ray" / "ray_current_cluster").write_text("10.0.0.1:6379")
    assert cluster.address_of("auto") == "10.0.0.1:6379"
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.2:6379")
    assert cluster.address_of("auto") == "10.0.0.2:6379"
    assert cluster.address_of("10.0.0.3:6379") == "10.0.0.3:6379"


def test_ray_s_folder_is_one_s_own_and_has_a_short_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path / ("long" * 9)))
    folder = cluster._folder()
    assert len(str(folder)) <= cluster.SHORT + len("/suite-12345678")
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.rmdir()
    assert f"{tmp_path}/long" in capsys.readouterr().err, (
        "what was asked for is not left in silence"
    )
    monkeypatch.setattr(cluster, "SHORT", 1)
    with pytest.raises(UserError, match="set RAY_TMPDIR"):
        cluster._folder()


@pytest.mark.usefixtures("no_ray_yet")
def test_who_answers_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the address and how the two sides have to agree."""

    def unsupported(address: str, **given: Any) -> None:
        packages = [Path(place).name for place in given["runtime_env"]["py_modules"]]
        assert packages == ["suite", "trials", "reports", "search_spaces"]
        raise ConnectionError("not as you are")

    path = study_file(tmp_path, STUDY)
    monkeypatch.setattr(cluster.ray, "init", unsupported)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        command = ("sweep", path, "--address", address)
        said = suite_here(*command, cwd=tmp_path, code=2, on_ray=True).stderr
    assert f"cluster {address} cannot be joined: not as you are" in said
    assert "RAY_AUTH_MODE" in said
    assert not records(tmp_path)
