"""The Ray cluster that trials run on: a new one on this machine, or a running one. Importing this module takes seconds."""

import gc
import logging
import math
import os
import resource
import secrets
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import ray

import psutil  # isort: skip  # it comes with Ray, once that is imported

import reports
import search_spaces
import suite
import trials
from suite.console import say
from suite.environment import kept
from suite.execution.ray_internals import SameImports, read_authentication_again
from suite.execution.resources import Resources
from suite.execution.stop_signal import REMEDY, Control
from trials.common import device
from trials.common.errors import UserError
from trials.common.machine import usable_cpus

REFRESH_SECONDS, CALL_SECONDS = 5.0, 5.0
"""The seconds between two counts of a cluster's nodes, and the seconds within which its host must accept a connection."""
NEEDED = ("gcs_server", "raylet")
WATCH_SECONDS, GRACE_SECONDS = 0.5, 8.0
"""The seconds between two checks of a local cluster's processes, and the seconds that a sweep has to end after one of them
has died. Ray's calls may then never return.
"""
TOKEN = secrets.token_hex(32)
"""The token that a cluster started by this process demands of all callers. Ray reads it once per process."""
STARTS = 3
"""The number of attempts to start a local cluster. On a busy machine Ray gives up an attempt after half a minute."""
SHORT = 24
"""The most bytes in the path of Ray's folder. The paths of sockets in it stay within the system's limit of 107 bytes."""
WORKERS = {
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # relative paths stay relative to the user's folder
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_TUNE = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # Tune would end an interrupted sweep as if it were complete
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",  # the journal is what a sweep resumes from
}
_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}


class Cluster:
    """A connected cluster for trials that need certain `resources`. `shared` is true if others may use the cluster, too."""

    def __init__(self, resources: Resources) -> None:
        self.resources, self.shared = resources, resources.joins
        self._counted, self._slots = -math.inf, 0

    def slots(self, memory: int = 0) -> int:
        """Return how many trials can run at once, at least 1. This is `max_concurrent` if set, or else the number of trials of
        `memory` bytes that fit on all living nodes. Nodes may join and leave, so they are counted anew every five seconds.
        """
        if self.resources.max_concurrent is not None:
            return self.resources.max_concurrent
        now = time.monotonic()
        if now - self._counted > REFRESH_SECONDS:
            self._slots = sum(fits(node, self.resources.need(memory)) for node in nodes())
            self._counted = now
        return max(1, self._slots)

    def refuse(self, memory: Mapping[str, int]) -> None:
        """Raise `UserError` if some entry's trials are too large for every node. `memory` holds the bytes of a trial by entry name.
        Do nothing on a shared cluster with `max_concurrent`, since larger nodes may join the cluster.
        """
        if self.shared and self.resources.max_concurrent is not None:
            return
        for name, wanted in memory.items():
            need = self.resources.need(wanted)
            if not any(fits(node, need) for node in nodes()):
                have = "; ".join(sorted({_shown(node, need) for node in nodes()}))
                raise UserError(
                    f"no node can ever hold a trial of {name}: it needs {_shown(need, need)}, and the nodes have {have} "
                    "(--set memory_per_trial=GB changes it; where nodes start by themselves, --set max_concurrent=N)"
                )

    def waits(self) -> str:
        """Return why a shared cluster has no room for a trial, and which option may help. Return "" if it has room."""
        total, free = ray.cluster_resources(), ray.available_resources()
        for unit, amount in self.resources.need(0).items():
            have, spare = total.get(unit, 0.0), free.get(unit, 0.0)
            if spare < amount:
                reason = "that other work holds" if have >= amount else "that no node has yet"
                key = f"--set {unit.lower()}s_per_trial=..."
                return f"waiting for {unit}s {reason} ({spare:g} of {have:g} free, {amount:g} per trial: {key})"
        return ""


def nodes() -> list[dict[str, float]]:
    """Return the resources of each living node, by their names in Ray such as "CPU"."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def fits(node: Mapping[str, float], need: Mapping[str, float]) -> int:
    """Return how many trials with these needs fit on one node. A trial's share of a GPU must be on a single card."""

    def holds(name: str, amount: float) -> int:
        if name == "GPU" and amount < 1:
            return int(node.get(name, 0)) * int(1 / amount + 1e-9)
        return int(node.get(name, 0) / amount + 1e-9)

    return min(holds(name, amount) for name, amount in need.items())


def _shown(have: Mapping[str, float], names: Iterable[str]) -> str:
    amounts = {name: have.get(name, 0) / (1e9 if name == "memory" else 1) for name in names}
    return ", ".join(f"{amounts[name]:.3g} {name}" for name in amounts) + " (memory in GB)"


def check(resources: Resources) -> None:
    """Raise `UserError` if this process cannot join or start the cluster, or lacks a needed GPU. Call this before anything is
    started or written.
    """
    if resources.joins:
        if ray.is_initialized():
            raise UserError(
                f"cluster {resources.address} cannot be joined: this process uses Ray already. Call ray.shutdown() first"
            )
        address = address_of(str(resources.address))
        try:
            host = urlsplit("//" + address.removeprefix("ray://"))
            socket.create_connection((host.hostname, host.port or 0), CALL_SECONDS).close()
        except (OSError, ValueError) as error:
            raise UserError(
                f"--address {address} cannot be joined: nobody answers there ({getattr(error, 'strerror', error)}). It must "
                "be host:port, ray://host:port, auto or local. Nothing was started"
            ) from None
    elif not ray.is_initialized():
        addresses = resource.getrlimit(resource.RLIMIT_AS)[0]
        if addresses != resource.RLIM_INFINITY and addresses < 16e9:
            raise UserError(
                f"ulimit -v is {addresses // 1024}, with which Ray does not start: run `ulimit -v unlimited` first"
            )
        reason, cards = device.look() if resources.gpus_per_trial else ("", [True])
        if not cards:
            raise UserError(f"gpus_per_trial is {resources.gpus_per_trial:g}, but {reason}")


def address_of(address: str) -> str:
    """Return a cluster's address. For `auto`, return RAY_ADDRESS, or else the address of the cluster that `ray start` last started
    on this machine. Raise `UserError` if there is neither.
    """
    if address != "auto":
        return address
    folder = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    with suppress(OSError):
        started = Path(folder, "ray", "ray_current_cluster")
        address = os.environ.get("RAY_ADDRESS") or started.read_text().strip()
    if address == "auto":
        raise UserError("--address auto: no `ray start` cluster is known here; give its host:port")
    return address


@contextmanager
def connect(resources: Resources) -> Iterator[Cluster]:
    """Yield the cluster at `resources.address`, or else a local one. A local cluster is started here and stopped at the end, unless
    this process already uses Ray, as a notebook may. Raise `UserError` if this fails.
    """
    with surroundings(None if resources.joins else TOKEN), ExitStack() as stack:
        if resources.joins:
            _join(resources)
            stack.callback(_stop)
        elif not ray.is_initialized():
            stack.callback(_stop, start(resources))
        yield Cluster(resources)


def start(resources: Resources) -> Path:
    """Start a local cluster and return its folder. Raise `UserError` after `STARTS` failed attempts. Other machines and users can
    reach the cluster's ports. So the cluster answers only callers that send its random token.
    """
    check(resources)
    say("starting Ray")
    gc.freeze()  # the collection in `_stop` need not walk all imported modules
    wanted = (resources.max_concurrent or 1) * resources.cpus_per_trial
    cpus, folder = math.ceil(max(usable_cpus(), wanted)), _folder()
    os.environ["RAY_TMPDIR"] = str(folder)
    options: dict[str, Any] = {"job_config": SameImports(), "include_dashboard": False, **_QUIET}
    for attempt in range(1, STARTS + 1):
        try:
            ray.init("local", num_cpus=cpus, **options)
            return folder
        except Exception as error:  # Ray reports a timeout as a bare `Exception`
            ray.shutdown()
            reason = _reason(error)
            say(f"Ray did not start ({reason}), attempt {attempt} of {STARTS}")
    _stop(folder)
    raise UserError(f"Ray did not start on this machine, {STARTS} times in a row: {reason}")


def _folder() -> Path:
    """Create a private folder for Ray, with a path short enough for sockets. Raise `UserError` if no place is suitable."""
    preferred = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or tempfile.gettempdir()
    for parent in (os.environ.get("RAY_TMPDIR"), tempfile.gettempdir(), "/tmp"):
        if parent and len(os.fsencode(parent)) <= SHORT and os.access(parent, os.W_OK | os.X_OK):
            if os.path.abspath(parent) != os.path.abspath(preferred):
                say(f"Ray works in {parent}: {preferred} is too long, or cannot be written")
            return Path(tempfile.mkdtemp(prefix="suite-", dir=parent))
    raise UserError(f"Ray needs a short path: set RAY_TMPDIR to a folder of at most {SHORT} bytes")


def _join(resources: Resources) -> None:
    check(resources)
    address = address_of(str(resources.address))
    # Ray sends the project to its nodes, which need only the project's dependencies.
    packages = [p.__path__[0] for p in (suite, trials, reports, search_spaces)]
    runtime_env = {"py_modules": packages, "env_vars": WORKERS, "excludes": ["__pycache__"]}
    mode = os.environ["RAY_AUTH_MODE"]
    # With `ray://` workers never look for modules in folders of this machine.
    imports: dict[str, Any] = {} if address.startswith("ray://") else {"job_config": SameImports()}
    try:
        ray.init(address, runtime_env=runtime_env, **imports, **_QUIET)
    except (ray.exceptions.RayError, OSError, RuntimeError, ValueError) as error:
        raise UserError(
            f"cluster {address} cannot be joined: {_reason(error)} (RAY_AUTH_MODE is {mode}, and "
            "must be as where the cluster was started)"
        ) from None
    if mode.lower() != "token":
        say(
            f"cluster {address} has no authentication: whoever reaches its ports, from any machine "
            "or account, can run programs as its owner (docs/cluster.md shows how to use a token)"
        )


def _stop(folder: Path | None = None) -> None:
    # If a reference to Ray's object store were freed while Ray shuts down, the process would end.
    gc.collect()
    ray.shutdown()
    gc.unfreeze()  # `start` froze what may be garbage of a notebook
    if folder is not None and not ray.is_initialized():
        shutil.rmtree(folder, ignore_errors=True)


def _reason(error: Exception) -> str:
    return (str(error).strip() or repr(error)).splitlines()[0][:300]


@contextmanager
def watched(resources: Resources, control: Control) -> Iterator[Cluster]:
    """Yield a cluster. If one of Ray's processes on this machine dies, halt the run through `control`. Without this, Ray would
    soon end this process, perhaps without a message.
    """
    ends, ended = threading.Event(), threading.Event()

    def is_dead(process: psutil.Process) -> bool:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE

    def look() -> None:
        while not ends.wait(WATCH_SECONDS):
            if dead := [names[process.pid] for process in needed if is_dead(process)]:
                fault = f"Ray's process {dead[0]} has died on this machine, and all that it ran"
                control.halt(fault)
                if not ended.wait(GRACE_SECONDS):
                    say(f"halted: {fault}. {REMEDY}")
                    os._exit(3)
                return

    try:
        with connect(resources) as cluster:
            needed = [child for child in psutil.Process().children() if child.name() in NEEDED]
            names = {child.pid: child.name() for child in needed}
            threading.Thread(target=look, daemon=True, name="lifeline").start()
            try:
                yield cluster
            finally:
                ends.set()  # the cluster's processes may end now
    finally:
        ended.set()


@contextmanager
def surroundings(token: str | None) -> Iterator[None]:
    """Set the environment of Ray and Tune for a block, and send standard output to standard error. (Standard output is for
    results only.) A local cluster demands `token`; with None the user's own token is used.
    """
    levels = {name: logging.getLogger(name).level for name in ("ray", "ray.tune")}
    try:
        with kept("RAY_", "TUNE_", "PYTHONBREAK", **WORKERS, **_TUNE), redirect_stdout(sys.stderr):
            for name in levels:  # else tracebacks of trials that are tried again would be logged
                logging.getLogger(name).setLevel(logging.CRITICAL)
            if not ray.is_initialized():
                _authenticate(token)
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        if not ray.is_initialized():
            read_authentication_again()


def _authenticate(token: str | None) -> None:
    if token is not None:
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}
    elif not os.environ.get("RAY_AUTH_MODE"):
        # Ray sends the user's token only if the mode is `token`.
        named = {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys()
        has_token = bool(named) or (Path.home() / ".ray" / "auth_token").exists()
        os.environ["RAY_AUTH_MODE"] = "token" if has_token else "disabled"
    read_authentication_again()
