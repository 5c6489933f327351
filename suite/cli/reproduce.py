"""The command `suite reproduce`, which runs the tables of papers again and judges their numbers."""

import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from reports.table import Column, ColumnKind
from suite.cli.options import RUNS, Assign, DataRoot, Json, Storage
from suite.console import emit, say, show_table, write
from suite.yaml_files import assignments, refuse_foreign, write_files

if TYPE_CHECKING:
    from reports.claims.judged import Reproduction

PLACE = "PAPER, PAPER/TABLE or PAPER/TABLE/ROW; PAPER may be a YAML file."
SIGNS = (
    "Published numbers are the paper's; measured ones come from the runs of",
    '"command": "suite reproduce ',
    "# Published and measured, over all papers",
    "A verdict is of a number or a statement under the settings that its line names",
)
"""A text in each kind of file that the command writes. Existing files without such a text are never replaced."""


def reproduce(
    path: str | None = typer.Argument(None, help=PLACE),
    list_: bool = typer.Option(False, "--list", help="List tables, and what can run here."),
    summary: Path | None = typer.Option(None, help="Summarise the results in this folder."),
    seeds: int = typer.Option(5, min=1, help="Runs of each method."),
    rounds: int | None = typer.Option(None, min=1, help="At most this many rounds."),
    assign: Assign = None,
    output: Path | None = typer.Option(None, help="Folder for NAME.md and NAME.json."),
    storage: Storage = RUNS,
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Repeat a paper's runs, with a verdict on each number.

    The same command continues after an interruption, and adds runs if --seeds is larger. --set takes values that a paper
    leaves open (--set lr=0.1), and resources of trials: cpus_per_trial, gpus_per_trial, max_concurrent, ...
    """
    if summary is not None:
        _summary(summary, path, output, as_json)
        return
    if list_ or path is None:
        _list(path, data_root, seeds, as_json)
        return
    from suite.execution.resources import Resources
    from suite.reproduction.reproduce import reproduce as run

    other = assignments(assign or ())
    resources = Resources.taken(other)
    paper_settings = [text for text in assign or () if text.partition("=")[0] in other]
    files: list[Path] = []
    if output is not None:
        # The name has the changes of --set, so that such results do not replace the paper's.
        name = re.sub(r"^(?:.*/)?([^/]+)\.yaml", r"\1", path).replace("/", "-")
        changes = re.sub(r"[^\w.=-]+", "-", "-".join(paper_settings)).strip("-")
        name += f"-set-{changes}" if changes else ""
        files = [output / f"{name}.md", output / f"{name}.json"]
    refuse_foreign(files, *SIGNS)  # before hours of runs
    words = ["suite", "reproduce", path, *(["--seeds", str(seeds)] if seeds != 5 else [])]
    words += ["--rounds", str(rounds)] if rounds is not None else []
    for text in paper_settings:
        words += ["--set", text]
    report = run(
        path,
        seeds=seeds,
        rounds=rounds,
        other=other,
        storage=storage,
        data_root=data_root,
        resources=resources,
        command=shlex.join(words),
    )
    _show(report, files, as_json)


def _show(report: "Reproduction", files: list[Path], as_json: bool) -> None:
    """Write a reproduction to files, print the reproduction, and exit with code 1 if runs failed, 130 if interrupted, else 0."""
    from reports.claims.page import page

    text = page(report)
    if files:
        written = text.encode(), report.model_dump_json(indent=1).encode() + b"\n"
        write_files(dict(zip(files, written, strict=True)), *SIGNS)
        say(f"wrote {files[0]} and .json")
    emit(report.model_dump()) if as_json else write(f"{text}\n")
    if report.interrupted:
        say("Interrupted: these are the results so far. The same command continues.")
        raise typer.Exit(130)
    raise typer.Exit(1 if report.runs_failed else 0)


def _summary(folder: Path, path: str | None, output: Path | None, as_json: bool) -> None:
    from reports.claims.page import FIGURE, drawn, paper_page, summary_page
    from suite.reproduction.summary import summary

    papers = summary(folder, path)
    pages = {f"{paper.command}.md": paper_page(paper) for paper in papers}
    text = "\n".join(pages.values()) if path else summary_page(papers)
    if output is not None:
        from reports.charts.charts import published
        from reports.charts.drawing import SIGN, svg

        if path is None:
            pages |= {"summary.md": text, FIGURE: svg(published(drawn(papers)))}
        say(f"writing {', '.join(pages)} in {output}")
        encoded = {output / name: page.encode() for name, page in pages.items()}
        write_files(encoded, *SIGNS, SIGN)
    emit([paper.model_dump() for paper in papers]) if as_json else write(f"{text}\n")


def _list(path: str | None, data_root: str | None, seeds: int, as_json: bool) -> None:
    from suite.reproduction.reproduce import listing

    tables = list(listing(path, seeds, data_root))
    if as_json:
        emit(tables)
        return
    heads = map(Column, ("rows here", "runs"))
    columns = [Column("table", ColumnKind.NAME), *heads, Column("what", ColumnKind.WORDS)]
    lines = []
    for item in tables:
        rows = f"{item['rows_that_run_here']} of {item['rows']}"
        left = "".join(map("\nnot run: {}".format, item["not_run"]))
        description = f"{item['source']}: {item['about']}{left}"
        lines.append([item["table"], rows, str(item["runs"] or ""), description])
    show_table(columns, lines)
    say(f"Runs are for {seeds} seeds. `suite reproduce TABLE` says how long they will take.")
