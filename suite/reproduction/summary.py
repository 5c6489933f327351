"""`suite reproduce --summary`: how much of each paper was run and the verdicts, from the JSON documents in a folder."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from reports.claims.judged import UNMEASURED, Judged, JudgedRow, Reproduction
from reports.claims.page import JudgedEntry, PaperSummary
from reports.claims.verdicts import NOT_RUN, metric_or_none
from suite.reproduction.experiments import Paper, PaperTable, TableRow, paper_names, read_paper
from trials.common.errors import UserError
from trials.common.files import plain
from trials.settings import Settings

COMMAND = '"command": "suite reproduce '
"""The text by which a JSON file is recognised as a document of `suite reproduce --output`."""

NAMED = ("optimizer", "rounds", "participation", "batch_size")  # defaults too

Address = tuple[str, ...]
"""The key of a printed number (table, row, metric, method) or statement (table, row, words); within a row only the last parts."""


def read_documents(folder: Path) -> dict[str, Reproduction]:
    """Return the documents of `suite reproduce --output` in a folder, by file name. Raise `UserError` if there is none or a damaged one."""
    documents = {}
    for path in sorted(folder.glob("*.json")):
        content = plain(path, "document").read_bytes()
        if COMMAND.encode() in content:
            try:
                documents[path.name] = Reproduction.model_validate_json(content)
            except ValidationError as error:
                raise UserError(f"{path} is damaged: {str(error).splitlines()[1]}") from None
    if not documents:
        raise UserError(f"{folder}: it has no documents of suite reproduce --output")
    return documents


def summary(folder: Path, path: str | None = None) -> list[PaperSummary]:
    """Summarise all shipped papers, or the paper `path` (a name or YAML file), from the JSON files that `suite reproduce --output`
    wrote in a folder. If several files judge the same number, one counts: if possible, one without changed settings
    and with all of the paper's rounds. Raise `UserError` if the folder has no such file or a damaged one.
    """
    written, summaries = read_documents(folder), []
    for name in [path] if path else paper_names():
        paper = read_paper(name)
        documents: list[str] = []
        ranked: list[tuple[tuple[bool, bool, int], JudgedRow]] = []
        for file, content in written.items():
            if content.paper == paper.paper:
                documents.append(file)
                declared = "--set " not in content.command
                ranked += [((declared, not row.reduced, row.seeds), row) for row in content.rows]
        judged: dict[Address, tuple[Judged, JudgedRow]] = {}
        for _, row in sorted(ranked, key=lambda pair: pair[0]):  # the last one counts
            for each in (*row.numbers, *row.claims):
                what = (each.says,) if each.says else (each.metric, each.method)
                if each.verdict != NOT_RUN:
                    judged[(row.table, row.row, *what)] = each, row
        entries: list[JudgedEntry] = []
        for name_of_table, table in paper.tables.items():
            for name_of_row in table.rows:
                entries += _entries(paper, name_of_table, name_of_row, judged)
        facts = {"paper": paper.paper, "cites": paper.cites, "command": Path(name).stem}
        summaries.append(PaperSummary(**facts, entries=entries, documents=documents))
    return summaries


def _entries(
    paper: Paper, table: str, row: str, judged: Mapping[Address, tuple[Judged, JudgedRow]]
) -> Iterator[JudgedEntry]:
    """Yield a row's printed numbers and statements, with their verdicts. Skip what only repeats another row
    of the paper, unless it was judged again with settings chosen for this row.
    """
    content, at = paper.tables[table], paper.tables[table].rows[row]
    same, never = paper.same(at), paper.reason_not_run(table, row)
    cost = f", about {content.gpu_hours:g} GPU hours" if content.gpu_hours else ""
    elsewhere = _facts(*same) if same else {}
    other = bool(at.chosen) or any(layer.chosen for layer in at.methods.values())
    for what, fact in _facts(content, at).items():
        says = what[0] if len(what) == 1 else ""
        why = fact if says else "" if metric_or_none(what[0]) else UNMEASURED
        again = what in elsewhere and elsewhere[what] == fact
        verdict, document = judged.get((table, row, *what), (None, None))
        chosen: dict[str, list[str]] = {}  # less what has the suite's default
        for setting in document.settings if document else ():
            name, value = setting["name"], setting["value"]
            field = None if name in NAMED else Settings.model_fields.get(name)
            if setting["chosen_because"] is not None and not (field and field.default == value):
                text = f"{value:g}" if isinstance(value, float) else f"{value}"
                chosen.setdefault(name, []).append(text)
        if not again or (other and verdict is not None):
            yield JudgedEntry(
                table=table,
                row=row,
                source=content.source,
                says=says,
                judged=verdict,
                why="" if verdict else never or why or f"{NOT_RUN}{cost}",
                again=again,
                chosen=chosen,
                note=document.note if document else "",
            )


def _facts(table: PaperTable, row: TableRow) -> dict[Address, Any]:
    """Return a row's numbers, with keys (metric, method). Each key (statement,) has the reason why the statement cannot be judged, or ""."""
    facts: dict[Address, Any] = {}
    for name, column in row.numbers.items():
        for method, number in column.items():
            facts[name, method] = number
    return facts | {(claim.says,): claim.why_not for claim in table.claims}
