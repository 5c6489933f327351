"""`suite board`, `publish` and `verify`: results as a static site and as bundles; whether those repeat."""

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suite.cli.options import (
    PLAIN,
    RUNS,
    Alias,
    DataRoot,
    Folder,
    Json,
    Name,
    Storage,
    Tracking,
    aliases,
    finite,
)
from suite.console import READING, emit, out, say

if TYPE_CHECKING:
    from suite.boards.verify import Repeated
    from suite.tracking.reader import Reader


def board(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOURCES]...",
            help="Folders of stores, bundles, board:NAME. Default: the store of --storage.",
        ),
    ] = None,
    output: Folder = None,
    papers: Annotated[
        Path | None,
        typer.Option(help="Folder that `suite reproduce --output` wrote: a page for each paper."),
    ] = None,
    alias: Alias = None,
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Make a static site of recorded results.

    It is a folder of pages that any browser opens and any host serves.
    """
    named = aliases(alias)
    say(READING)
    from suite.boards.site import BYTES, write
    from suite.boards.sources import open_source
    from suite.reproduction.documents import documents

    found = [open_source(text, storage) for text in sources or ()]
    found = found or [("this store", _store(tracking_uri, storage))]
    read = list(documents(papers).values()) if papers else []
    say("drawing the pages")
    done = write(found, read, output or storage / "site", named)
    if done.bytes > BYTES:
        say(
            f"it has {done.bytes / 1e6:.1f} MB, more than {BYTES / 1e6:g}: fewer sources make it smaller"
        )
    if as_json:
        emit({"page": str(done.page), "pages": done.pages, "bytes": done.bytes})
    else:
        say(f"{done.pages} pages, {done.bytes / 1e6:.1f} MB")
        out().print(str(done.page), **PLAIN)


def verify(
    bundle: Annotated[str, typer.Argument(help="A bundle of `suite publish`, or board:NAME.")],
    sample: Annotated[int, typer.Option(min=1, help="Final runs to run again.")] = 3,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of the sample. Default: a new one each time.")
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            min=1,
            callback=finite,
            help="The most client steps of this sample. Default: 1000000.",
        ),
    ] = None,
    code: Annotated[
        Path | None,
        typer.Option(
            help="File or folder with the bundle's own code, found by its SHA-256. Default: where it lay."
        ),
    ] = None,
    storage: Storage = RUNS,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Check a bundle of others, and run a sample of it again.

    It checks hashes and rows, and repeats some runs. Exit code 1 if anything differs. On another processor
    or with other libraries, runs agree up to rounding.
    """
    from suite.boards.bundle import Bundle
    from suite.boards.sources import located
    from suite.boards.verify import BUDGET, CANNOT, DIFFERS, SHOWN
    from suite.boards.verify import verify as run

    read = Bundle.read(located(bundle, storage))
    read = read.with_code(code) if code else read
    drawn = secrets.randbelow(2**31) if seed is None else seed
    say(f"{len(read.files)} files are as listed; drawing {sample} runs with --seed {drawn}")
    done = run(read, sample, drawn, data_root, _show, budget or BUDGET)
    if as_json:
        emit(done.document())
    else:
        say("\n".join(done.faults[:SHOWN]) if done.faults else "its rows are those of its runs")
        out().print(f"{bundle}: {done.verdict}", **PLAIN)
    raise typer.Exit({DIFFERS: 1, CANNOT: 2}.get(done.verdict, 0))


def publish(
    output: Annotated[
        Path, typer.Option(help="The bundle: a folder, or a file that ends in .zip.")
    ],
    name: Name = None,
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Write sweeps as a bundle that others can verify.

    A bundle holds plain files and their hashes.
    """
    say(READING)
    from suite.boards.publish import publish as run
    from suite.results.query import Query

    done = run(_store(tracking_uri, storage), Query(name), output)
    facts = {key: value for key, value in vars(done).items() if key != "path"}
    if as_json:
        emit({"bundle": str(output), **facts})
        return
    say(
        f"{', '.join(done.sweeps)}: {done.rows} rows, {done.finals} final runs, {done.searches} search "
        f"trials, {done.bytes / 1e6:.1f} MB; SHA-256 of its list {done.sha256}"
    )
    out().print(str(output), **PLAIN)


def _store(tracking_uri: str | None, storage: Path) -> "Reader":
    from suite.tracking.store import open_existing

    return open_existing(tracking_uri, storage)


def _show(run: "Repeated") -> None:
    say(f"{run.of}: {run.verdict}")
    for line in run.said[:5]:
        say(f"  {line}")
