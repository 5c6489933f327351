"""A reproduction as Markdown: published and measured side by side, and what was chosen."""

from collections.abc import Mapping
from typing import Any

from reports.document import Block, CodeBlock, Heading, Items, Text, markdown
from reports.table import table

NUMBERS = ("method", "metric", "published", "measured", "difference", "verdict")
CLAIMS = ("statement", "metric", "difference", "verdict")


def page(report: Mapping[str, Any]) -> str:
    """The document of `suite reproduce --json` as a page."""
    counts = ", ".join(f"{count} {name}" for name, count in report["verdicts"].items())
    origin = "Published numbers are the paper's; measured ones come from the runs of"
    parts: list[Block] = [
        Heading(f"{report['paper']}: published and measured", level=1),
        Text(f"{report['cites']}. {origin}"),
        CodeBlock(report["command"]),
        Text(f"Protocol: {report['protocol']}. {counts}."),
    ]
    for row in report["rows"]:
        parts += row_blocks(row)
    parts += [Heading("How verdicts are made", level=2), Items(report["rules"])]
    for versions in report["made_with"]:
        made = ", ".join(f"{key} {value}" for key, value in versions.items())
        parts.append(Text(f"Runs made with {made}."))
    return markdown(parts) + "\n"


def row_blocks(row: Mapping[str, Any]) -> list[Block]:
    """A row of a paper's table: its numbers and statements with their verdicts, and its settings."""
    place = " · ".join(row[k] for k in ("dataset", "model", "heterogeneity") if row[k])
    about = row["about"][:1].upper() + row["about"][1:]
    parts: list[Block] = [
        Heading(f"{row['source']}, `{row['table']}/{row['row']}`", level=2),
        Text(f"{about}. {place}".strip()),
    ]
    if row["note"]:
        parts.append(Text(f"**{row['note']}**"))
    if row["runs"]:
        cut = "; ".join(row["reduced"])
        work = f"{row['runs']} runs, {row['seeds']} seed{'s' * (row['seeds'] != 1)}, {row['seconds']:.0f} s of rounds in all."
        parts.append(Text(work + (f" **Reduced: {cut}.**" if cut else " Nothing was reduced.")))
    if row["numbers"]:
        parts.append(table(NUMBERS, [_number(e) for e in row["numbers"]]))
    if row["claims"]:
        parts.append(table(CLAIMS, [_claim(c) for c in row["claims"]]))
    stated = [s for s in row["settings"] if s["chosen_because"] is None]
    chosen = [s for s in row["settings"] if s["chosen_because"] is not None]
    if stated:
        parts.append(Text("Stated by the paper: " + ", ".join(map(_setting, stated)) + "."))
    lines = [f"{_setting(s)}: {s['chosen_because']}" for s in chosen] + [*row["readings"]]
    if lines:
        parts.append(Items(lines, "Chosen by us"))
    return parts


def _number(entry: Mapping[str, Any]) -> list[str]:
    return [
        entry["method"],
        entry["metric"],
        published(entry),
        measured(entry),
        "" if entry["difference"] is None else f"{entry['difference']:+.3g}",
        _verdict(entry),
    ]


def _verdict(entry: Mapping[str, Any]) -> str:
    """A verdict, with its reason where there is one."""
    said, reason = entry["verdict"], entry["reason"]
    return f"{said} ({reason})" if reason else str(said)


def published(entry: Mapping[str, Any]) -> str:
    """The printed number as text, with its unit; of a target that was never reached there is none."""
    text = entry["published"]
    return text if text == "never" else f"{text} {entry['unit']}".strip()


def measured(entry: Mapping[str, Any]) -> str:
    """The measured number as text: a mean and half its interval, or how many seeds reached a target."""
    if entry["measured"] is None:
        return ""
    if entry["reached_share"] is not None and entry["reached_share"] < 1:
        reached = round(entry["reached_share"] * entry["seeds"])
        if not reached:
            return "never"
        bound = ">= " if entry["unit"] == "rounds" else ""
        return f"{bound}{entry['measured']:.4g} ({reached} of {entry['seeds']})"
    text = f"{entry['measured']:.4g}"
    return text if entry["ci_low"] is None else f"{text} ± {_half(entry):.2g}"


def _claim(claim: Mapping[str, Any]) -> list[str]:
    shown = "" if claim["measured"] is None else f"{claim['measured']:+.3g}"
    if claim["ci_low"] is not None:
        shown += f" ± {_half(claim):.2g}"
    return [claim["says"], claim["metric"], shown, _verdict(claim)]


def _half(entry: Mapping[str, Any]) -> float:
    return float(entry["ci_high"] - entry["ci_low"]) / 2


def _setting(setting: Mapping[str, Any]) -> str:
    owner = f"{setting['method']}: " if setting["method"] else ""
    value = setting["value"]
    shown = "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
    return f"{owner}{setting['name']} = {shown}"
