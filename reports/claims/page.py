"""A reproduction as Markdown: published and measured side by side, and what was chosen."""

from collections.abc import Mapping
from typing import Any

from reports.leaderboard.wording import plain


def page(report: Mapping[str, Any]) -> str:
    """The document of `suite reproduce --json` as a page."""
    parts = head(report, "published and measured")
    for row in report["rows"]:
        parts += _row(row)
    parts += ["## How verdicts are made", *(f"- {rule}" for rule in report["rules"])]
    for versions in report["made_with"]:
        made = ", ".join(f"{key} {value}" for key, value in versions.items())
        parts.append(f"Runs made with {made}.")
    return "\n\n".join(parts) + "\n"


def head(report: Mapping[str, Any], about: str) -> list[str]:
    """How a page on a paper begins: what it is about, the command, the protocol, the verdicts' counts."""
    return [
        f"# {report['paper']}: {about}",
        f"{report['cites']}. Published numbers are the paper's; measured ones come from the runs of",
        f"```\n{report['command']}\n```",
        f"Protocol: {report['protocol']}. {_counts(report['verdicts'])}.",
    ]


def _counts(verdicts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in verdicts.items())


def _row(row: Mapping[str, Any]) -> list[str]:
    place = " · ".join(row[k] for k in ("dataset", "model", "heterogeneity") if row[k])
    parts = [
        f"## {row['source']}, `{row['table']}/{row['row']}`",
        f"{row['about']}. {place}".strip(),
    ]
    if row["note"]:
        parts.append(f"**{row['note']}**")
    if row["runs"]:
        cut = "; ".join(row["reduced"])
        work = (
            f"{row['runs']} runs, {_seeds(row['seeds'])}, {row['seconds']:.0f} s of rounds in all."
        )
        parts.append(work + (f" **Reduced: {cut}.**" if cut else " Nothing was reduced."))
    if row["numbers"]:
        head = ["method", "metric", "published", "measured", "difference", "verdict"]
        parts.append(table(head, [_number(e) for e in row["numbers"]]))
    if row["claims"]:
        head = ["statement", "metric", "difference", "verdict"]
        parts.append(table(head, [_claim(c) for c in row["claims"]]))
    stated = [s for s in row["settings"] if s["chosen_because"] is None]
    chosen = [s for s in row["settings"] if s["chosen_because"] is not None]
    if stated:
        parts.append("Stated by the paper: " + ", ".join(map(_setting, stated)) + ".")
    if chosen or row["readings"]:
        lines = [f"- {_setting(s)}: {s['chosen_because']}" for s in chosen]
        parts.append(
            "Chosen by us:\n\n" + "\n".join([*lines, *(f"- {r}" for r in row["readings"])])
        )
    return parts


def _seeds(count: int) -> str:
    return f"{count} seed" + "s" * (count != 1)


def table(head: list[str], rows: list[list[str]]) -> str:
    """The Markdown of a table with a head and rows."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(map(plain, line)) + " |" for line in rows]
    return "\n".join(lines)


def _number(entry: Mapping[str, Any]) -> list[str]:
    verdict = entry["verdict"] + (f" ({entry['reason']})" if entry["reason"] else "")
    return [
        entry["method"],
        entry["metric"],
        published(entry),
        measured(entry),
        "" if entry["difference"] is None else f"{entry['difference']:+.3g}",
        verdict,
    ]


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
    verdict = claim["verdict"] + (f" ({claim['reason']})" if claim["reason"] else "")
    return [claim["says"], claim["metric"], shown, verdict]


def _half(entry: Mapping[str, Any]) -> float:
    return float(entry["ci_high"] - entry["ci_low"]) / 2


def _setting(setting: Mapping[str, Any]) -> str:
    owner = f"{setting['method']}: " if setting["method"] else ""
    value = setting["value"]
    shown = "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
    return f"{owner}{setting['name']} = {shown}"
