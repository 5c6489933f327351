"""`suite ui` as a process of its own."""

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.commands import SUITE


class Served(NamedTuple):
    """Where pages are, and what asks for them. `rest` is what the command wrote after the address, once it ended."""

    address: str
    token: str
    path: str
    rest: list[str]

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def door(self) -> str:
        """The address that is printed."""
        return f"{self.address}{self.path}?token={self.token}"


@contextmanager
def served(*words: str, cwd: Path | None = None) -> Iterator[Served]:
    """Serve until the block ends."""
    command = [SUITE, "ui", *words]
    process = subprocess.Popen(command, cwd=cwd, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    line = process.stderr.readline()
    printed = re.fullmatch(r"Pages: (http://127\.0\.0\.1:\d+)(/.*)\?token=([\w-]{32})\n", line)
    if printed is None:
        process.kill()
        raise AssertionError(line + process.stderr.read())
    pages = Served(printed[1], printed[3], printed[2], [])
    try:
        yield pages
    finally:
        process.send_signal(signal.SIGTERM)
        pages.rest.append(process.stderr.read())
        assert process.wait(60) in (0, -signal.SIGTERM)
