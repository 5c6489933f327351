"""What becomes of a sweep whose own cluster dies: a process that uses Ray is ended by it, in its words or in
none, within seconds after a raylet and within a minute after a gcs_server.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from suite.console import say
from suite.execution.ray_internals import dead_process
from suite.execution.stop_signal import Control, HaltedError

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
            if dead := dead_process():
                fault = (
                    f"Ray's process {dead} has died on this machine, and with it all that it ran"
                )
                self.control.halt(fault)
                self._timer = threading.Timer(GRACE_SECONDS, _give_up, [HaltedError(fault)])
                self._timer.daemon = True
                self._timer.start()
                return


def _give_up(halted: HaltedError) -> None:
    """End this process, which Ray does otherwise: what the journal has is kept."""
    say(f"halted: {halted}. {halted.remedy}")
    os._exit(3)
