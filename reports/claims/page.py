"""A reproduction as Markdown: published and measured side by side, and what was chosen."""

from collections.abc import Mapping
from typing import Any

from reports.claims.judged import Claim, Judged, JudgedRow, Number, Reproduction
from reports.claims.verdicts import RULE
from reports.document import Block, CodeBlock, Heading, Items, Text, markdown
from reports.table import table

SIGN = "Published numbers are the paper's; measured ones come from the runs of"
"""How a page is known again."""


def page(found: Reproduction) -> str:
    """Return the page of a reproduction."""
    counts = ", ".join(f"{count} {name}" for name, count in found.verdicts.items())
    parts: list[Block] = [
        Heading(f"{found.paper}: published and measured", level=1),
        Text(f"{found.cites}. {SIGN}"),
        CodeBlock(found.command),
        Text(f"Its test set, its hyperparameters, one run a seed. {counts}."),
    ]
    for row in found.rows:
        parts += row_blocks(row)
    parts.append(Text(RULE))
    for versions in found.made_with:
        made = ", ".join(f"{key} {value}" for key, value in versions.items())
        parts.append(Text(f"Runs made with {made}."))
    return markdown(parts) + "\n"


def row_blocks(row: JudgedRow) -> list[Block]:
    """Return a row of a paper's table: its numbers and statements with their verdicts, and its settings."""
    place = " · ".join(filter(None, (row.dataset, row.model, row.heterogeneity)))
    about = row.about[:1].upper() + row.about[1:]
    parts: list[Block] = [
        Heading(f"{row.source}, `{row.table}/{row.row}`", level=2),
        Text(f"{about}. {place}".strip()),
    ]
    if row.note:
        parts.append(Text(f"**{row.note}**"))
    if row.runs:
        work = f"{row.runs} runs, {row.seeds} seed{'s' * (row.seeds != 1)}, {row.seconds:.0f} s of rounds in all."
        cut = f" **Reduced: {'; '.join(row.reduced)}.**" if row.reduced else ""
        parts.append(Text(work + cut))
    if row.numbers:
        heads = ["method", "metric", "published", "measured", "difference", "verdict"]
        parts.append(table(heads, [_number(number) for number in row.numbers]))
    if row.claims:
        heads = ["statement", "metric", "difference", "verdict"]
        parts.append(table(heads, [_claim(claim) for claim in row.claims]))
    stated = [_setting(s) for s in row.settings if s["chosen_because"] is None]
    if stated:
        parts.append(Text(f"Stated by the paper: {', '.join(stated)}."))
    chosen = [s for s in row.settings if s["chosen_because"] is not None]
    lines = [*(f"{_setting(s)}: {s['chosen_because']}" for s in chosen), *row.readings]
    if lines:
        parts.append(Items(lines, "Chosen by us"))
    return parts


def _number(number: Number) -> list[str]:
    difference = "" if number.difference is None else f"{number.difference:+.3g}"
    texts = [published(number), measured(number), difference, _verdict(number)]
    return [number.method, number.metric, *texts]


def published(number: Number) -> str:
    """Return the printed number as text, with its unit; of a target that was never reached there is none."""
    text = number.published
    return text if text == "never" else f"{text} {number.unit}".strip()


def measured(number: Number, interval: bool = True) -> str:
    """Return the measured number as text: a mean and half its interval, or how many seeds reached a target."""
    if number.measured is None:
        return ""
    if number.reached_share is not None and number.reached_share < 1:
        reached = round(number.reached_share * number.seeds)
        if not reached:
            return "never"
        bound = ">= " if number.unit == "rounds" else ""
        return f"{bound}{number.measured:.4g} ({reached} of {number.seeds})"
    return f"{number.measured:.4g}{_half(number) if interval else ''}"


def _claim(claim: Claim) -> list[str]:
    shown = "" if claim.measured is None else f"{claim.measured:+.3g}{_half(claim)}"
    return [claim.says, claim.metric, shown, _verdict(claim)]


def _half(judged: Judged) -> str:
    if judged.ci_low is None or judged.ci_high is None:
        return ""
    return f" ± {(judged.ci_high - judged.ci_low) / 2:.2g}"


def _verdict(judged: Judged) -> str:
    return f"{judged.verdict} ({judged.reason})" if judged.reason else judged.verdict


def _setting(setting: Mapping[str, Any]) -> str:
    owner = f"{setting['method']}: " if setting["method"] else ""
    value = setting["value"]
    shown = "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
    return f"{owner}{setting['name']} = {shown}"
