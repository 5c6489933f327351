"""The Ray cluster that a sweep runs on: one of its own on this machine, or one that is running.

Importing it imports Ray, which takes seconds.
"""

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
"""How often the nodes of a running cluster are counted, and how long its host may take to answer a call."""
NEEDED = ("gcs_server", "raylet")
WATCH_SECONDS, GRACE_SECONDS = 0.5, 8.0
"""How often the processes of an own cluster are checked, and how long a sweep has to end in order once one is dead: Ray's
calls may never return.
"""
TOKEN = secrets.token_hex(32)
"""The token that this process's own cluster demands of all callers; Ray reads it once per process."""
STARTS = 3
"""How often the start of an own cluster is tried: on a busy machine Ray gives up after half a minute."""
SHORT = 24
"""The longest folder, in bytes, whose sockets have paths that the system takes (107 bytes)."""
WORKERS = {
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # relative paths mean what the person meant
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_TUNE = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # Tune's own returns normally from an interrupted sweep
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",  # the journal is what a sweep resumes from
}
_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}


class Cluster:
    """A connected cluster, `shared` where others may use it too, and how many trials with these resources it holds."""

    def __init__(self, resources: Resources) -> None:
        self.resources, self.shared = resources, resources.joins
        self._counted, self._slots = -math.inf, 0

    def slots(self, memory: int = 0) -> int:
        """Return how many trials fit on all nodes that are alive now, or `max_concurrent`; at least 1.

        Nodes that join or leave a running cluster are seen within seconds.
        """
        if self.resources.max_concurrent is not None:
            return self.resources.max_concurrent
        now = time.monotonic()
        if now - self._counted > REFRESH_SECONDS:
            self._slots = sum(fits(node, self.resources.need(memory)) for node in nodes())
            self._counted = now
        return max(1, self._slots)

    def refuse(self, memory: Mapping[str, int]) -> None:
        """Raise `UserError` when an entry's trials, which take `memory[name]` bytes, fit on no node, unless `max_concurrent`
        says how many there will be, since nodes may join.
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
        """Return why trials cannot run now on a cluster that others use too, and what would help; "" where there is room."""
        total, free = ray.cluster_resources(), ray.available_resources()
        for unit, amount in self.resources.need(0).items():
            have, spare = total.get(unit, 0.0), free.get(unit, 0.0)
            if spare < amount:
                reason = "that other work holds" if have >= amount else "that no node has yet"
                key = f"--set {unit.lower()}s_per_trial=..."
                return f"waiting for {unit}s {reason} ({spare:g} of {have:g} free, {amount:g} a trial: {key})"
        return ""


def nodes() -> list[dict[str, float]]:
    """Return the resources of each node that is alive."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def fits(node: Mapping[str, float], need: Mapping[str, float]) -> int:
    """Return the number of trials with these needs that one node holds; a part of a GPU is one of one card."""

    def holds(name: str, amount: float) -> int:
        if name == "GPU" and amount < 1:
            return int(node.get(name, 0)) * int(1 / amount + 1e-9)
        return int(node.get(name, 0) / amount + 1e-9)

    return min(holds(name, amount) for name, amount in need.items())


def _shown(have: Mapping[str, float], names: Iterable[str]) -> str:
    amounts = {name: have.get(name, 0) / (1e9 if name == "memory" else 1) for name in names}
    return ", ".join(f"{amounts[name]:.3g} {name}" for name in amounts) + " (memory in GB)"


def check(resources: Resources) -> None:
    """Raise `UserError` where this process cannot join or start the cluster, or has no GPU for trials that need one. Call
    it before Ray, a store or a folder is started.
    """
    if resources.joins:
        if ray.is_initialized():
            raise UserError(
                f"cluster {resources.address} cannot be joined: this process uses Ray already. Call ray.shutdown() first"
            )
        address = address_of(str(resources.address))
        try:
            place = urlsplit("//" + address.removeprefix("ray://"))
            socket.create_connection((place.hostname, place.port or 0), CALL_SECONDS).close()
        except (OSError, ValueError) as error:
            raise UserError(
                f"--address {address} cannot be joined: nobody answers there ({getattr(error, 'strerror', error)}). It must "
                "be host:port, ray://host:port, auto or local. Nothing was started"
            ) from None
    elif not ray.is_initialized():
        addresses = resource.getrlimit(resource.RLIMIT_AS)[0]
        if addresses != resource.RLIM_INFINITY and addresses < 16e9:
            raise UserError(
                f"ulimit -v is {addresses // 1024}, with which Ray does not start: set ulimit -v unlimited"
            )
        reason, cards = device.look() if resources.gpus_per_trial else ("", [True])
        if not cards:
            raise UserError(f"gpus_per_trial is {resources.gpus_per_trial:g}, but {reason}")


def address_of(address: str) -> str:
    """Return the address of a cluster. `auto` is RAY_ADDRESS, else what `ray start` began last here; Ray's own `auto` would
    also find a sweep's cluster. Raises `UserError` where there is none.
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
    """Join the cluster at `resources.address`, or run one of our own on this machine. If this process uses Ray already,
    as a notebook may, use that cluster and leave it running.

    Raises `UserError` when nothing answers at the address, or Ray does not start here.
    """
    with surroundings(None if resources.joins else TOKEN), ExitStack() as stack:
        if resources.joins:
            _join(resources)
            stack.callback(_stop)
        elif not ray.is_initialized():
            stack.callback(_stop, start(resources))
        yield Cluster(resources)


def start(resources: Resources) -> Path:
    """Start a cluster of our own, which only this process and those that it starts can use; return its folder.

    Its ports are open to other machines and users, so it always has a token of its own. This is only in these processes'
    environment, whatever mode and token are set for other clusters.
    """
    check(resources)
    say("starting Ray")
    wanted = (resources.max_concurrent or 1) * resources.cpus_per_trial
    cpus, folder = math.ceil(max(usable_cpus(), wanted)), _folder()
    os.environ["RAY_TMPDIR"] = str(folder)
    options: dict[str, Any] = {"job_config": SameImports(), "include_dashboard": False, **_QUIET}
    for attempt in range(1, STARTS + 1):
        try:
            ray.init("local", num_cpus=cpus, **options)
            return folder
        except Exception as error:  # with a bare one Ray says that it ran out of time
            ray.shutdown()
            reason = _reason(error)
            say(f"Ray did not start ({reason}), attempt {attempt} of {STARTS}")
    _stop(folder)
    raise UserError(f"Ray did not start on this machine, {STARTS} times in a row: {reason}")


def _folder() -> Path:
    """Make a private folder for Ray, with a path short enough for its sockets. Raises `UserError` where none is."""
    asked = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or tempfile.gettempdir()
    for place in (os.environ.get("RAY_TMPDIR"), tempfile.gettempdir(), "/tmp"):
        if place and len(os.fsencode(place)) <= SHORT and os.access(place, os.W_OK | os.X_OK):
            if os.path.abspath(place) != os.path.abspath(asked):
                say(f"Ray works in {place}: {asked} is too long, or cannot be written")
            return Path(tempfile.mkdtemp(prefix="suite-", dir=place))
    raise UserError(f"Ray needs a folder with a short path: set RAY_TMPDIR to one of {SHORT} bytes")


def _join(resources: Resources) -> None:
    check(resources)
    address = address_of(str(resources.address))
    # Nodes need the project's dependencies, not the project.
    packages = [p.__path__[0] for p in (suite, trials, reports, search_spaces)]
    runtime_env = {"py_modules": packages, "env_vars": WORKERS, "excludes": ["__pycache__"]}
    mode = os.environ["RAY_AUTH_MODE"]
    # Through Ray's own server (`ray://`) workers never look in a folder of this machine.
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
            "or account, runs programs as its owner (docs/cluster.md tells how to use a token)"
        )


def _stop(folder: Path | None = None) -> None:
    # A reference to Ray's store that is freed while Ray shuts down ends the process.
    gc.collect()
    ray.shutdown()
    if folder is not None and not ray.is_initialized():
        shutil.rmtree(folder, ignore_errors=True)


def _reason(error: Exception) -> str:
    return (str(error).strip() or repr(error)).splitlines()[0][:300]


@contextmanager
def watched(resources: Resources, control: Control) -> Iterator[Cluster]:
    """Connect to a cluster. If it is this process's own and one of its processes dies, halt by `control`. Ray would end this
    process, perhaps silently: seconds after a raylet dies, up to a minute after a gcs_server.
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
                ends.set()  # from here on they end as they should
    finally:
        ended.set()


@contextmanager
def surroundings(token: str | None) -> Iterator[None]:
    """Set the environment of Ray and Tune while they are used, then restore it. Nothing goes to standard output, which
    belongs to the result. This process's own cluster demands the `token`; a running cluster gets the token that the user
    has for it.
    """
    levels = {name: logging.getLogger(name).level for name in ("ray", "ray.tune")}
    try:
        with kept("RAY_", "TUNE_", "PYTHONBREAK", **WORKERS, **_TUNE), redirect_stdout(sys.stderr):
            for name in levels:  # which show tracebacks of trials that start again
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
        # Ray shows the token that a person has only where the mode says so.
        named = {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys()
        has_token = bool(named) or (Path.home() / ".ray" / "auth_token").exists()
        os.environ["RAY_AUTH_MODE"] = "token" if has_token else "disabled"
    read_authentication_again()
