"""What becomes of a sweep whose own cluster dies: a process that uses Ray is ended by it, in its words or in
none, within seconds after a raylet and within a minute after a gcs_server.
"""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import ray
from ray._private.ray_constants import PROCESS_TYPE_GCS_SERVER, PROCESS_TYPE_RAYLET

from suite.console import say
from suite.execution.stop_signal import Control, HaltedError

NEEDED = (PROCESS_TYPE_GCS_SERVER, PROCESS_TYPE_RAYLET)
LOOK_SECONDS = 0.5
GRACE_SECONDS = 8.0
"""How long a sweep has to end in order once one of these processes is dead: Ray's calls may never return."""


class Lifeline:
    """Halts what `control` ends when the cluster of this process's own dies; around all use of Ray."""

    def __init__(self, control: Control) -> None:
        self.control = control
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Self:
        """Nothing is looked at yet: see `watched`."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ray is ended."""
        if self._timer is not None:
            self._timer.cancel()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look at the cluster's processes meanwhile. Afterwards they end as they should."""
        over = threading.Event()
        thread = threading.Thread(target=self._look, args=(over,), daemon=True, name="lifeline")
        thread.start()
        try:
            yield
        finally:
            over.set()

    def _look(self, over: threading.Event) -> None:
        while not over.wait(LOOK_SECONDS):
            if dead := _dead():
                fault = (
                    f"Ray's process {dead} has died on this machine, and with it all that it ran"
                )
                self.control.halt(fault)
                self._timer = threading.Timer(GRACE_SECONDS, _give_up, [HaltedError(fault)])
                self._timer.daemon = True
                self._timer.start()
                return


def _dead() -> str:
    """The process of a cluster of this process's own that has died, "" while all live."""
    node = ray._private.worker._global_node
    processes: Mapping[str, Any] = node.all_processes if node is not None else {}
    return next(
        (
            name
            for name in NEEDED
            for started in processes.get(name, [])
            if started.process.poll() is not None
        ),
        "",
    )


def _give_up(halted: HaltedError) -> None:
    """End this process, which Ray does otherwise: what the journal has is kept."""
    say(f"halted: {halted}. {halted.remedy}")
    os._exit(3)
