"""`suite watch`: sweeps in the browser while they run."""

import os
import sys
import webbrowser
from typing import Annotated

import typer

from suite.cli.options import RUNS, Storage, Tracking
from suite.console import say
from trials.errors import unknown

app = typer.Typer()
PORT = 5050
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
    server: Annotated[
        str, typer.Option(help="Where MLflow's pages are, for links to runs.")
    ] = "http://127.0.0.1:5000",
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

    def started(site: str) -> None:
        for path in shown:
            say(f"Watch: {site}{path}")
        if open_page:
            show(site + shown[0])

    pages.quiet(storage / "watch.log")
    pages.watch(Views(storage, tracking_uri, server), there, started)


def show(address: str) -> None:
    """Open a page in the person's browser, where there is a screen for one."""
    if sys.platform == "darwin" or {"DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ):
        webbrowser.open(address)
