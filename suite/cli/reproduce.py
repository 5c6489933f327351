"""`suite reproduce`: papers' tables run again, published beside measured."""

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reports.table import Column, ColumnKind
from suite.cli.options import RUNS, Assign, DataRoot, Json, Storage, Tracking
from suite.console import emit, finite, out, say, show_table, write
from suite.yaml_files import assignments, refuse_foreign, write_files

if TYPE_CHECKING:
    from reports.claims.judged import Reproduction


def reproduce(
    path: Annotated[
        str | None,
        typer.Argument(
            help="PAPER, PAPER/TABLE or PAPER/TABLE/ROW, as in --list; PAPER may be a YAML file."
        ),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List tables, and what of them can run here.")
    ] = False,
    summary: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Summarise the documents in a folder."),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="Runs of each method; default 5.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="At most so many rounds.")] = None,
    assign: Assign = None,
    output: Annotated[Path | None, typer.Option(help="Folder for NAME.md and NAME.json.")] = None,
    storage: Storage = RUNS,
    data_root: DataRoot = None,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Run a paper's tables again, with a verdict on each number.

    The same command continues an interrupted one; more --seeds extends it. --set takes what a paper
    leaves open (--set lr=0.1), and resources of trials: cpus_per_trial, gpus_per_trial, max_concurrent, ...
    """
    if summary is not None:
        _summary(summary, path, output, as_json)
        return
    from suite.reproduction.reproduce import SEEDS
    from suite.reproduction.reproduce import reproduce as run

    if list_ or path is None:
        _list(path, data_root, seeds or SEEDS, as_json)
        return
    from suite.execution.resources import Resources

    other = assignments(assign or ())
    resources = Resources.taken(other)
    kept = [text for text in assign or () if text.partition("=")[0] in other]
    name = _name(path, kept)
    for file in _files(output, name) if output is not None else ():
        refuse_foreign([file], SIGNS[file.suffix])
    report = run(
        path,
        seeds=seeds or SEEDS,
        rounds=rounds,
        other=other,
        tracking_uri=tracking_uri,
        storage=storage,
        data_root=data_root,
        resources=resources,
        command=_command(path, {"seeds": seeds, "rounds": rounds}, kept),
    )
    _show(report, output, name, as_json)


def _name(path: str, kept: list[str]) -> str:
    """What a result's files are called: by its path, and by what `--set` changes, so that both stand side by side."""
    path = re.sub(r"^(?:.*/)?([^/]+)\.yaml", r"\1", path)
    changes = re.sub(r"[^\w.=-]+", "-", "-".join(kept)).strip("-")
    return f"{path}-set-{changes}" if changes else path


def _command(path: str, given: Mapping[str, int | None], kept: list[str]) -> str:
    """The command that does the same again."""
    options = [f"--{option} {value}" for option, value in given.items() if value is not None]
    options += [f"--set {shlex.quote(text)}" for text in kept]
    return " ".join(["suite reproduce", shlex.quote(path), *options])


def _show(report: "Reproduction", output: Path | None, name: str, as_json: bool) -> None:
    """Write and print what came out, and end as it did."""
    from reports.claims.page import page

    document = report.model_dump()
    text = page(report)
    if output is not None:
        _write(output, name, document, text)
    if as_json:
        emit(document)
    else:
        _show_page(text)
    if report.interrupted:
        say("Interrupted: this is what is done. The same command continues.")
        raise typer.Exit(130)
    raise typer.Exit(1 if report.runs_failed else 0)


def _write(output: Path, path: str, document: dict[str, Any], page: str) -> None:
    """The page and the document, side by side."""
    text = json.dumps(finite(document), indent=1, ensure_ascii=False)
    for file, content in zip(_files(output, path), (page, f"{text}\n"), strict=True):
        write_files({file: content.encode()}, SIGNS[file.suffix])
    say(f"wrote {_files(output, path)[0]} and .json")


def _files(output: Path, path: str) -> list[Path]:
    return [output / f"{path.replace('/', '-')}{form}" for form in SIGNS]


SIGNS = {
    ".md": "Published numbers are the paper's; measured ones come from the runs of",
    ".json": '"command": "suite reproduce ',
}
"""How the page and the document are known again."""


def _summary(folder: Path, path: str | None, output: Path | None, as_json: bool) -> None:
    from reports.claims.summary_page import FIGURE, drawn, summary_page
    from suite.reproduction.summary import read_documents, summary

    found = summary(folder, path)
    text = summary_page(found)
    if output is not None:
        from reports.charts.drawing import SIGN, svg
        from reports.charts.published_chart import published
        from reports.claims.page import page

        figure = svg(published(drawn(found))).encode()
        write_files({output / "summary.md": text.encode()}, SUMMARY_SIGN)
        write_files({output / FIGURE: figure}, SIGN)
        pages = {
            (output / file).with_suffix(".md"): page(content).encode()
            for file, content in read_documents(folder).items()
        }
        write_files(pages, SIGNS[".md"])
        say(f"wrote {output / 'summary.md'}, {FIGURE} and {len(pages)} pages")
    if as_json:
        emit([paper.model_dump() for paper in found])
    else:
        _show_page(text)


SUMMARY_SIGN = "# Published and measured, over all papers"
"""How a summary is known again."""


def _list(path: str | None, data_root: str | None, seeds: int, as_json: bool) -> None:
    from suite.reproduction.reproduce import NO_DATA, listing

    found = list(listing(path, seeds, data_root))
    if as_json:
        emit(found)
        return
    heads = map(Column, ("rows here", "runs"))
    columns = [Column("table", ColumnKind.NAME), *heads, Column("what", ColumnKind.WORDS)]
    lines = []
    for item in found:
        rows = f"{item['rows_that_run_here']} of {item['rows']}"
        absent = [why.removeprefix(NO_DATA) for why in item["not_run"] if why.startswith(NO_DATA)]
        why = [why for why in item["not_run"] if not why.startswith(NO_DATA)]
        why += [NO_DATA + ", ".join(absent)] if absent else []
        what = [f"{item['source']}: {item['about']}", *(f"not run: {reason}" for reason in why)]
        lines.append([item["table"], rows, str(item["runs"] or ""), "\n".join(what)])
    show_table(columns, lines)
    out().print(
        f"Runs are for {seeds} seeds. Run a table with `suite reproduce TABLE`; it tells how long it will take.",
        highlight=False,
    )


def _show_page(page: str) -> None:
    write(f"{page}\n")
