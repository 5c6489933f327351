"""The Ray cluster that a sweep runs on: one of its own on this machine, or one that is running.

Importing it imports Ray, which takes seconds.
"""

import gc
import logging
import math
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from queue import SimpleQueue
from typing import Any

import ray

import reports
import search_spaces
import suite
import trials
from suite.console import say
from suite.execution import ray_internals, reach
from suite.execution.resources import Resources
from suite.execution.surroundings import WORKERS, driven, ray_set
from trials.common.errors import UserError
from trials.common.machine import usable_cpus

REFRESH_SECONDS = 5.0
"""How often the nodes of a running cluster are counted."""
TOKEN = secrets.token_hex(32)
"""What a cluster of this process's own requests for all who call it; Ray reads it once per process."""
STARTS = 3
"""How often a cluster of one's own is started: on a busy machine Ray gives up after half a minute."""


KIND = "accelerator_type:"
"""Before the kind of a GPU, in Ray's names of resources."""


class NotStartedError(UserError):
    """Ray did not start on this machine, however often it was tried."""


_ahead: "Future[None] | None" = None
"""The start of this process's own cluster, while there is one: Ray is one a process."""
_set = ExitStack()
"""What was set for Ray, until it ends."""
_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}


class Cluster:
    """A cluster that is connected, and how many trials of these resources run on it at once."""

    def __init__(self, resources: Resources) -> None:
        self.resources, self.shared = resources, resources.joins
        self._counted, self._slots = -math.inf, 0

    @property
    def dashboard(self) -> str:
        """The address of Ray's own page, "" where none runs."""
        return ray_internals.dashboard_url()

    @property
    def hardware(self) -> str:
        """What its nodes have, in words: `2 nodes, 64 CPUs, 8 GPUs (H100)`."""
        found = nodes()
        kinds = sorted({k.removeprefix(KIND) for node in found for k in node if k.startswith(KIND)})
        cpus, gpus = (int(sum(node.get(name, 0) for node in found)) for name in ("CPU", "GPU"))
        parts = [f"{len(found)} nodes"] * (len(found) > 1) + [f"{cpus} CPU{'s' * (cpus != 1)}"]
        return ", ".join(
            parts + [f"{gpus} GPU{'s' * (gpus != 1)} ({', '.join(kinds)})"] * (gpus > 0)
        )

    def slots(self, memory: int = 0) -> int:
        """How many trials fit on all nodes that are alive now, or `max_concurrent`; at least 1.

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
        """Raise `UserError` when an entry's trials, which take `memory[name]` bytes, fit on no node, or
        any trial at all needs a GPU, and there is none.

        A cluster that can grow is taken at its word.
        """
        if ray_internals.can_grow():
            return
        if self.resources.gpus_per_trial and not any(node.get("GPU") for node in nodes()):
            raise UserError(
                f"gpus_per_trial is {self.resources.gpus_per_trial:g}, but no node of the cluster has a "
                "GPU that Ray knows of: leave it out, or run where there is one"
            )
        for name, wanted in memory.items():
            need = self.resources.need(wanted)
            if not any(fits(node, need) for node in nodes()):
                have = "; ".join(sorted({_shown(node, need) for node in nodes()}))
                raise UserError(
                    f"no node can ever hold a trial of {name}: it needs {_shown(need, need)}, and "
                    f"the nodes have {have}. Memory is an estimate: --set memory_per_trial=GB sets it."
                )


def nodes() -> list[dict[str, float]]:
    """The resources of each node that is alive."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def fits(node: Mapping[str, float], need: Mapping[str, float]) -> int:
    """The number of trials with these needs that one node holds; a part of a GPU is one of one card."""
    return min(_holds(name, node.get(name, 0), amount) for name, amount in need.items())


def _holds(name: str, there: float, amount: float) -> int:
    if name == "GPU" and amount < 1:
        return int(there) * int(1 / amount + 1e-9)
    return int(there / amount + 1e-9)


@contextmanager
def connect(resources: Resources) -> Iterator[Cluster]:
    """Join the cluster at `resources.address`, or run one of our own on this machine. Where this process
    uses Ray already, as a notebook may, that is the cluster, and it stays when this ends.

    Nodes of a running cluster need the project's dependencies, not the project: its packages are
    sent along. Raises `UserError` when nobody answers at the address, `NotStartedError` when Ray does not
    start here.
    """
    if ray.is_initialized() and _ahead is None and not resources.joins:
        with driven():
            yield Cluster(resources)
        return
    try:
        if resources.joins:
            _join(resources)
        else:
            _begin(resources).result()
        with driven():
            yield Cluster(resources)
    finally:
        _end()


@contextmanager
def ahead(resources: Resources) -> Iterator[Callable[[], object]]:
    """What begins to start a cluster of our own, for a later `connect`, while its caller goes on: Ray
    mostly waits for its own processes. When this is left without one, Ray is ended. A running cluster is
    joined by `connect` alone, and a Ray that this process runs already is used as it is.
    """
    try:
        its_own = not (resources.joins or ray.is_initialized())
        yield partial(_begin, resources) if its_own else lambda: None
    finally:
        if _ahead is not None:
            _end()


def _begin(resources: Resources) -> "Future[None]":
    """The cluster's start, begun now unless it has begun."""
    global _ahead
    if _ahead is None:
        say("starting Ray")
        ray_internals.load_what_init_imports()
        begun = _ahead = Future()

        def work() -> None:
            try:
                _start(resources)
                begun.set_result(None)
            except BaseException as error:
                begun.set_exception(error)

        _starter().put(work)
    return _ahead


@cache
def _starter() -> "SimpleQueue[Callable[[], None]]":
    """A thread that never ends: Linux ends Ray's processes with the thread that started them."""
    queue: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def work() -> None:
        while True:
            queue.get()()

    threading.Thread(target=work, daemon=True, name="ray-start").start()
    return queue


def _end() -> None:
    global _ahead
    begun, _ahead = _ahead, None
    if begun is not None:
        begun.exception()  # a start cannot be called off
    # An object reference that another thread's garbage collection frees while Ray shuts down
    # ends the process.
    gc.collect()
    collecting = gc.isenabled()
    gc.disable()
    try:
        ray.shutdown()
    finally:
        if collecting:
            gc.enable()
        _set.close()


def _start(resources: Resources) -> None:
    """A cluster of our own, which only this process and those that it starts can use.

    Its ports are open to other machines and users, so it always has a token: one that is nowhere
    but in these processes' environment, whatever mode and token are there for other clusters.
    """
    _set.enter_context(ray_set(TOKEN))
    wanted = (resources.max_concurrent or 1) * resources.cpus_per_trial
    for attempt in range(1, STARTS + 1):
        try:
            ray.init(
                "local",
                num_cpus=math.ceil(max(usable_cpus(), wanted)),
                include_dashboard=False,
                configure_logging=True,
                job_config=ray_internals.SameImports(),
                **_QUIET,
            )
            return
        except Exception as error:
            # Ray says that it ran out of time with a bare Exception.
            late = type(error) is Exception or isinstance(error, ray.exceptions.RayError | OSError)
            if not late:
                raise
            ray.shutdown()
            if attempt == STARTS:
                raise NotStartedError(
                    f"Ray did not start on this machine, {STARTS} times in a row: {_reason(error)}"
                ) from error
            say(
                f"Ray did not start ({_reason(error)}), attempt {attempt} of {STARTS}; trying again"
            )


def _join(resources: Resources) -> None:
    """The running cluster at the address."""
    reach.refuse(resources)
    address = reach.found(str(resources.address))
    packages = [p.__path__[0] for p in (suite, trials, reports, search_spaces)]
    runtime_env = {"py_modules": packages, "env_vars": WORKERS, "excludes": ["__pycache__"]}
    _set.enter_context(ray_set())
    mode = os.environ["RAY_AUTH_MODE"]
    # Through Ray's own server (`ray://`) workers never look in a folder of this machine.
    client = address.startswith("ray://")
    imports: dict[str, Any] = {} if client else {"job_config": ray_internals.SameImports()}
    try:
        ray.init(address, runtime_env=runtime_env, **imports, **_QUIET)
    except (ConnectionError, ray.exceptions.RayError, RuntimeError, ValueError) as error:
        raise UserError(
            f"cluster {address} cannot be joined: {_reason(error)} (RAY_AUTH_MODE is {mode}, and "
            "must be as where the cluster was started)"
        ) from None
    if mode.lower() != "token":
        say(
            f"cluster {address} has no authentication: whoever reaches its ports, from any machine "
            "or account, runs programs as its owner (docs/cluster.md tells how to use a token)"
        )


def _reason(error: Exception) -> str:
    return (str(error).strip() or repr(error)).splitlines()[0][:300]


def _shown(have: Mapping[str, float], names: Mapping[str, float]) -> str:
    parts = []
    for name in names:
        amount = have.get(name, 0.0)
        unit = f"{amount / 1e9:.1f} GB memory" if name == "memory" else f"{amount:g} {name}"
        parts.append(unit)
    return ", ".join(parts)
