"""`suite watch`: sweeps in the browser while they run."""

import os
import subprocess
import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suite.cli.options import RUNS, Server, Storage, Tracking
from suite.console import say
from suite.tracking import pages_at
from trials.common.errors import unknown

if TYPE_CHECKING:
    from suite.sweeps.journal.paths import SweepPaths

app = typer.Typer()
PORT = 5050
OPENED = "watch.html"
Port = Annotated[
    int | None, typer.Option(min=1, max=65535, help=f"Default: {PORT}, or a free one.")
]
Open = Annotated[bool, typer.Option("--open", help="Open the page in the browser.")]


@app.command(epilog="Example: suite watch quickstart --open")
def watch(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[SWEEP]...", help="Default: all sweeps.")
    ] = None,
    port: Port = None,
    server: Server = None,
    open_page: Open = False,
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
) -> None:
    """Show sweeps on a page of this machine while they run, or when they are over; Ctrl-C ends it."""
    from suite.sweeps.status import sweeps
    from suite.watch import server as pages
    from suite.watch.views import Views, address

    known = sweeps(storage)
    for name in names or ():
        if name not in known:
            raise unknown(f"sweep in {storage}", name, known)
    shown = [address(name) for name in names or ()] or ["/"]
    there = pages.bind("127.0.0.1", port, PORT)

    def started(at: Callable[[str], str]) -> None:
        for path in shown:
            say(f"Watch: {at(path)}")
        if open_page:
            show(at(shown[0]), storage / OPENED)

    pages.quiet(storage / "watch.log")
    pages.watch(Views(storage, tracking_uri, pages_at(server, tracking_uri)), there, started)


@contextmanager
def watched(paths: "SweepPaths") -> Iterator[None]:
    """A sweep's page, served by a process of its own, which takes no time from the sweep's."""
    code = "from suite.cli.app import main; main()"
    command = [sys.executable, "-c", code, "watch", paths.name, "--open"]
    command += ["--storage", str(paths.storage)]
    if paths.tracking_uri:
        command += ["--tracking-uri", paths.tracking_uri]
    process = subprocess.Popen(command, process_group=0)  # a Ctrl-C is the sweep's
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def show(address: str, page: Path) -> None:
    """Open an address in the person's browser, where there is a screen for one; by a page that leads there and
    only its owner can read, since all accounts see what a browser is started with.
    """
    if not (sys.platform == "darwin" or {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ)):
        return
    with suppress(OSError):
        page.unlink(missing_ok=True)
        made = os.open(page, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(made, "w") as file:
            file.write(f'<!doctype html><meta http-equiv="refresh" content="0;url={address}">')
        webbrowser.open(page.resolve().as_uri())
