"""What becomes of a sweep whose own cluster dies: a process that uses Ray is ended by it, in its words or in
none, within seconds after a raylet and within a minute after a gcs_server.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from suite.console import say
from suite.execution.cluster import Cluster, connect
from suite.execution.resources import Resources
from suite.execution.stop_signal import Control, HaltedError

LOOK_SECONDS = 0.5
GRACE_SECONDS = 8.0
"""How long a sweep has to end in order once one of these processes is dead: Ray's calls may never return."""
NEEDED = ("gcs_server", "raylet")
"""The processes of a cluster of one's own that all else needs."""


@contextmanager
def watched(resources: Resources, control: Control) -> Iterator[Cluster]:
    """Connect a cluster, and halt what `control` ends when the cluster is this process's own and dies."""
    ends, ended = threading.Event(), threading.Event()

    def look() -> None:
        while not ends.wait(LOOK_SECONDS):
            if dead := [name for pid, name in processes.items() if _is_dead(pid)]:
                halted = HaltedError(
                    f"Ray's process {dead[0]} has died on this machine, and with it all that it ran"
                )
                control.halt(str(halted))
                if not ended.wait(GRACE_SECONDS):  # which Ray does otherwise
                    say(f"halted: {halted}. {halted.remedy}")
                    os._exit(3)
                return

    try:
        with connect(resources) as cluster:
            processes = _children()
            threading.Thread(target=look, daemon=True, name="lifeline").start()
            try:
                yield cluster
            finally:
                ends.set()  # from here on they end as they should
    finally:
        ended.set()


def _children() -> dict[int, str]:
    """Return the names of the needed processes that this one has started, by number; none where there is no /proc."""
    children = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # one that ends meanwhile
            number, _, rest = path.read_text(errors="replace").partition(" (")
            name, _, fields = rest.rpartition(") ")
            if name in NEEDED and int(fields.split()[1]) == os.getpid():
                children[int(number)] = name
    return children


def _is_dead(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True
