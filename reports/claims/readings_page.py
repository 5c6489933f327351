"""Which readings are left, as Markdown: all readings, how far each baseline is off, and the answers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reports.claims.page import head, titled
from reports.document import Block, Heading, Items, Text, markdown
from reports.table import Table, table

SHOWN = 12
"""So many readings of a row are shown, the most probable, and all that are left; the others are
counted, and the JSON document has them all.
"""
JUDGED = ("statement", "answer", "readings")
SAYS = {
    "paper": "the paper",
    "convention": "another's convention",
    "ours": "ours",
    "against": "against the text",
    "late": "late",
}
"""Who says a candidate."""
LEGEND = (
    "**Bold**: the reading is left by the table, all of its rows together. `p`: the probability of a statistic as large, of "
    "the best reading of the table that takes this one. `weight`: its share of all likelihood. `apart`: it "
    "judges nothing. `off`: how far the baselines' numbers are off in the mean, in tolerances. Numbers are means "
    "over seeds (sd: their standard deviation)."
)


def readings_page(report: Mapping[str, Any]) -> str:
    """The document of `suite reproduce --readings --json` as a page."""
    parts = head(report, "which readings are left, and what of its statements?")
    about = "A reading takes one candidate of each setting that the paper leaves open; the rules are at the end."
    parts += [Text(about), *(Text(rates(one)) for one in report["tables"])]
    for row in report["rows"]:
        parts += row_blocks(row)
    parts += [Heading("How readings are judged", level=2), Items(report["rules"])]
    return markdown(parts) + "\n"


def rates(table: Mapping[str, Any]) -> str:
    """What a table's rows say together, and how often that would be said by mistake."""
    rows = _plural(len(table["rows"]), "row")
    apart = table["readings"] - table["judging"]
    text = f"**{table['table']}, {rows} together: {_left(table['left'], table['judging'])}.** "
    if not table["left"]:
        text += f"The most probable has p = {table['best_p']:.2g}. "
    if apart:
        text += f"{apart} more are against the paper's text or late, and judge nothing. "
    text += f"Of tables with every number shifted at random by up to two tolerances, {table['left_by_chance']:.0%} leave some reading. "
    if table["recall"] is not None:
        text += f"What one of its own seeds would have printed leaves a reading in {table['recall']:.0%}. "
    return text + f"Candidates: `{table['candidates']}`."


def said(row: Mapping[str, Any]) -> str:
    """Which of a row's readings are left, in a sentence."""
    if not row["readings"]:
        return row["note"] or "no reading was run"
    text = _left(len(row["left"]), row["screened"])
    if row["left"]:
        return f"{text}: {_listed(row['left'])}"
    best = next(r for r in row["readings"] if r["number"] == row["best"])
    off = f"{best['misfit']:.2g} tolerances off here in the mean"
    return f"{text} (nearest: reading {best['number']}, {off})"


def row_blocks(row: Mapping[str, Any]) -> list[Block]:
    """A row of a paper's table: which of its readings are left, what was said of it, and the nearest readings."""
    parts = [*titled(row), Text(f"**{said(row)}.**")]
    if not row["readings"]:
        return parts
    if row["note"]:
        parts.append(Text(f"**{row['note']}.**"))
    if row["judged"]:
        parts.append(table(JUDGED, _judged(row["judged"])))
    parts.append(Text(_fitted(row)))
    shown = _shown(row)
    parts += [_readings(row, shown), Text(LEGEND, "legend")]
    hidden = sum(1 + len(one["alike"]) for one in row["readings"] if one not in shown)
    if hidden:
        more = f"{hidden} more readings, none of which is left, are in the JSON document."
        parts.append(Text(more))
    parts.append(Items(_open(row), "Open settings"))
    return parts


def _shown(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [r for place, r in enumerate(row["readings"]) if place < SHOWN or r["left"]]


def _fitted(row: Mapping[str, Any]) -> str:
    """What the readings were held against, and what that took."""
    numbers = row["readings"][0]["compared"] or row["readings"][0]["screened"]
    methods = len({one["method"] for one in numbers})
    return (
        f"Held against {_plural(len(numbers), 'number')} of {_plural(methods, 'baseline')}: screened with 1 seed, "
        f"then with {row['seeds']} where one does not refute. All runs took {row['seconds']:.0f} s of rounds."
    )


def _left(count: int, of: int) -> str:
    return f"{count} of {_plural(of, 'reading')} {'is' if count == 1 else 'are'} left"


def _plural(count: int, what: str) -> str:
    return f"{count} {what}" + "s" * (count != 1)


def _judged(judged: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    found = []
    for one in judged:
        given = one["answer"]
        found.append([one["says"], given["verdict"], str(given["of"] or "")])
    return found


def _readings(row: Mapping[str, Any], shown: Sequence[Mapping[str, Any]]) -> Table:
    """A line a reading, the nearest first: its values, what each baseline gave, what the method did."""
    names = [one["name"] for one in row["open"]]
    baselines = row["readings"][0]["compared"] or row["readings"][0]["screened"]
    heads = ["reading", *names, "apart", "seeds", "p", "weight", "off"]
    heads += [f"{n['method']} {n['metric']}, printed {n['published']}" for n in baselines]
    own: list[Any] = next((r["numbers"] for r in row["readings"] if r["numbers"]), [])
    heads += [f"the paper's {n['method']} {n['metric']}, printed {n['published']}" for n in own]
    lines = []
    for reading in shown:
        found = reading["compared"] or reading["screened"]
        numbers = _listed([reading["number"], *reading["alike"]])
        marked = f"**{numbers}**" if reading["left"] else numbers
        values = reading["values"]
        line = [marked, *(_candidate(values[n]) if n in values else "any" for n in names)]
        weight = f"{reading['weight']:.2f}" if reading["weight"] else ""
        p = f"{reading['p']:.2g}" if reading["compared"] else ""
        line += [_apart(reading), str(found[0]["seeds"]), p, weight, f"{reading['misfit']:.2g}"]
        line += [_measured(one) for one in found]
        ran = [_number(one["measured"], one["reached_share"]) for one in reading["numbers"]]
        lines.append(line + (ran or [""] * len(own)))
    return table(heads, lines)


def _measured(one: Mapping[str, Any]) -> str:
    if one["measured"] is None:
        missed = f" in {one['seeds'] - one['reached']} of {one['seeds']}" if one["reached"] else ""
        return f"never{missed}"
    spread = f" (sd {one['spread']:.2g})" if one["spread"] is not None else ""
    return f"{one['measured']:.4g}{spread}"


def _apart(reading: Mapping[str, Any]) -> str:
    return {"against": "against the text"}.get(reading["apart"], reading["apart"])


def _number(value: float | None, reached: float | None) -> str:
    return "never" if value is None or reached == 0 else f"{value:.4g}"


def _open(row: Mapping[str, Any]) -> list[str]:
    lines = []
    for one in row["open"]:
        of = "" if one["of"] == "all" else f" (of {_of(one['of'])})"
        values = [
            f"{_candidate(c['value'])} ({SAYS[c['says']]}{', default' if c['default'] else ''}): {c['why']}"
            for c in one["values"]
        ]
        lines.append(f"{one['name']}{of}: {'; '.join(values)}")
    return lines


def _of(of: Any) -> str:
    return "the paper's own" if of == "own" else of if isinstance(of, str) else ", ".join(of)


def _candidate(value: Any) -> str:
    """A candidate; what it sets is named where that is more than one thing."""
    if isinstance(value, Mapping) and len(value) > 1:
        return ", ".join(f"{key} {_value(one)}" for key, one in value.items())
    return _value(next(iter(value.values())) if isinstance(value, Mapping) else value)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return f"best of {', '.join(map(_value, value))}"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers))
