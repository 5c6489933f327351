"""Sweeps slow enough to be hurt, the means to hurt them, and what must be true afterwards."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import pytest
from ray._private.authentication_test_utils import reset_auth_token_state

from measuring import descendants
from suite.execution.cluster import TOKEN
from suite.sweeps.recording import LAST_ONLY
from suite.tracking.store import Record, Store
from tests.support.commands import SUITE, goes_on, runs_of
from trials.run.outcome import TrialKind
from trials.run.spec import TrialSpec
from trials.run.trial import run

SLOW = '''
import time
from dataclasses import dataclass
from trials.algorithms.fedavg import FedAvg

@dataclass(frozen=True)
class Slow(FedAvg):
    """FedAvg that takes its time and says which rounds it ran."""

    def round(self, state, fed):
        time.sleep({seconds})
        with open({log!r}, "a") as log:
            log.write(f"{{self.lr}} {{fed.seed}} {{fed.round}}\\n")
        return super().round(state, fed)
'''
STUDY = """
algorithms: [{algorithms}]
datasets: [digits]
models: [logreg]
heterogeneity: [{levels}]
trials: {trials}
seeds: {seeds}
sampler: random
scheduler: {scheduler}
retries: {retries}
settings: {{rounds: {rounds}, clients: 4, participation: 1.0, eval_every: 1, execution: batched}}
"""


def study(
    folder: Path,
    name: str,
    seconds: float = 0.1,
    trials: int = 4,
    seeds: int = 1,
    rounds: int = 20,
    scheduler: str = "none",
    retries: int = 2,
    levels: str = "iid",
) -> Path:
    """A study of one slow algorithm, whose rounds take `seconds`; its file."""
    source = folder / "slow.py"
    source.write_text(SLOW.format(seconds=seconds, log=str(folder / "rounds.log")))
    path = folder / f"{name}.yaml"
    text = STUDY.format(
        algorithms=f"{source}:Slow",
        levels=levels,
        trials=trials,
        seeds=seeds,
        rounds=rounds,
        scheduler=scheduler,
        retries=retries,
    )
    path.write_text(text)
    return path


class Driver:
    """A `suite sweep` in a process of its own; `started` lists those of a test, which ends them."""

    started: ClassVar[list["Driver"]] = []

    def __init__(self, folder: Path, *args: Any, **env: str) -> None:
        self.journal = folder / "runs" / Path(args[0]).stem / "journal.jsonl"
        self.log = folder / f"{Path(args[0]).stem}.log"
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                [SUITE, "sweep", *map(str, args)],
                cwd=folder,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **env},
                stdout=log,
                stderr=log,
            )

        self.started.append(self)

    @property
    def said(self) -> str:
        """All that it has printed, sessions before it included."""
        return self.log.read_text()

    def ends(self) -> int:
        """Trials that have ended, in all sessions."""
        return events(self.journal)["end"]

    def until(self, true: Callable[[], bool]) -> None:
        """Wait for something to become true while the sweep runs."""
        self._wait(true)
        assert true() or self.process.poll() is None, f"over too early:\n{self.said[-3000:]}"

    def _wait(self, true: Callable[[], bool]) -> None:
        goes_on(self.process, true, self.journal, self.log, self.journal.parents[2] / "rounds.log")

    def kill(self, number: int = signal.SIGKILL) -> None:
        """End it without a word."""
        self.process.send_signal(number)
        self.process.wait(60)

    def finish(self, code: int = 0) -> None:
        """Wait for its end."""
        self._wait(lambda: False)
        assert self.process.wait() == code, self.said[-3000:]


def events(journal: Path) -> Counter[str]:
    """How many events of each kind a journal has."""
    text = journal.read_text() if journal.exists() else ""
    return Counter(re.findall(r'^\{"event":"(\w+)"', text, re.MULTILINE))


def workers_of(root: int) -> list[int]:
    """Processes of trials that descend from a process: of a sweep, or of a cluster's nodes."""
    found = []
    for pid in descendants(root):
        with suppress(OSError):
            title = Path(f"/proc/{pid}/cmdline").read_bytes()
            if title.startswith((b"ray::FederatedTrial", b"ray::_Inner")):  # waiting, in a method
                found.append(pid)
    return found


def kill_a_worker(driver: Driver, root: int) -> None:
    """Kill the process of some running trial."""

    def found() -> bool:
        for pid in workers_of(root):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                return True
        return False

    driver.until(found)


@contextmanager
def shared_cluster() -> Iterator[Any]:
    """A head node of 2 CPUs, with the token that Ray may have read in this process; `add_node` adds
    more.
    """
    with pytest.MonkeyPatch.context() as patch_:
        patch_.setenv("RAY_AUTH_MODE", "token")
        patch_.setenv("RAY_AUTH_TOKEN", TOKEN)
        patch_.delenv("RAY_ADDRESS", raising=False)
        reset_auth_token_state()  # else it goes by the mode that it found when it was imported
        from ray.cluster_utils import Cluster

        cluster = Cluster(
            initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False}
        )
        try:
            yield cluster
        finally:
            cluster.shutdown()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a server that was just started answers."""
    deadline = time.monotonic() + 180
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)


class Server:
    """A real `mlflow server`, which can be killed and started again."""

    started: ClassVar[list["Server"]] = []

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.store = f"sqlite:///{folder}/server.db"
        self.uri = f"http://127.0.0.1:{self.port}"
        (folder / "artifacts").mkdir(exist_ok=True)
        self.started.append(self)
        self.start()

    def start(self) -> None:
        """Start it and wait until it answers."""
        store = ["--backend-store-uri", self.store]
        place = ["--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        artifacts = ["--default-artifact-root", str(self.folder / "artifacts")]
        with (self.folder / "server.log").open("a") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mlflow", "server", *store, *artifacts, *place],
                stdout=log,
                stderr=log,
                env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
                start_new_session=True,
            )
        wait_for(self.port, self.process)

    def kill(self) -> None:
        """End it and its workers at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)


def complete(store: Store, name: str, search: int, finals: int) -> list[Record]:
    """The runs of a sweep that is complete: the budget, each trial once, none still running."""
    found = runs_of(store, sweep=name)
    kinds = Counter(run.tags["kind"] for run in found)
    assert kinds["search"] == search
    assert kinds["final"] == finals
    assert kinds["sweep"] == 1
    trials = [run for run in found if "trial_id" in run.tags]
    assert max(Counter(run.tags["trial_id"] for run in trials).values()) == 1
    assert {run.status for run in found} == {"FINISHED"}
    return trials


def histories(store: Store, runs: list[Record]) -> dict[str, Any]:
    """Recorded metrics by trial, times left out."""
    return {
        run.tags["trial_id"]: {
            metric: [(e["round"], e[metric]) for e in store.curve(run, [metric])]
            for metric in sorted(run.metrics)
            if not metric.endswith(("_seconds", "_score"))
        }
        for run in runs
    }


def unhurt(runs: list[Record]) -> dict[str, Any]:
    """The same, from a plain loop over rounds in this process, which nothing interrupts; of search trials what
    is recorded of them.
    """
    found = {}
    for one in runs:
        spec = TrialSpec.model_validate_json(one.tags["spec"])
        with patch("time.sleep"):
            history = run(spec)[0].history
        if one.tags["kind"] == TrialKind.SEARCH:
            named, last = ("round", "val_accuracy", "test_accuracy"), history[-1]
            ends = {name: last[name] for name in LAST_ONLY if last.get(name)}
            history = [{name: e[name] for name in named if name in e} for e in history]
            history.append({"round": last["round"], **ends})
        metrics = sorted({k for e in history for k in e if not k.endswith("_seconds")} - {"round"})
        found[one.tags["trial_id"]] = {
            metric: [(e["round"], e[metric]) for e in history if metric in e] for metric in metrics
        }
    return found


def rounds_run(folder: Path) -> Counter[str]:
    """How often each trial ran a round, by learning rate and seed."""
    log = folder / "rounds.log"
    lines = log.read_text().splitlines() if log.exists() else []
    return Counter(line.rpartition(" ")[0] for line in lines)


def journal(path: Path, event: str) -> list[dict[str, Any]]:
    """The events of one kind."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [line for line in lines if line["event"] == event]
