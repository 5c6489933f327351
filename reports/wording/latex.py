"""A leaderboard as papers print it: a LaTeX table with methods in rows and scenarios in columns."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import fmean

from reports.leaderboard.board import Contest, Leaderboard, Row
from reports.wording.tables import groups, leads
from reports.wording.words import head_of, percent, plural, setting_notes, short


def latex(board: Leaderboard) -> str:
    """A tabular with the rules of the package booktabs, below comments with what a caption has to say.

    Accuracies are in percent. Of a scenario the best is bold, with all that may be the best; where it stands alone, the
    second is underlined. Methods stand by their average rank, those later that are not ranked in all scenarios, and
    references below a rule.
    """
    found = groups(board)
    metrics = list(dict.fromkeys(head_of(rows[0].metric) for rows in found.values()))
    heads = _heads(found, len(metrics) > 1)
    spans = [(above, len(list(same))) for above, same in groupby(above for above, _ in heads)]
    of = {name: {r.group: r for r in board.rows if r.algorithm == name} for name in _names(board)}
    lines = {
        name: _line(escaped(short(name)), [_text(rows.get(g), found[g]) for g in found])
        for name, rows in of.items()
    }
    ranked = [name for name, rows in of.items() if any(row.rank for row in rows.values())]
    below = [name for name in of if name not in ranked]
    parts = [f"% {' '.join(text.split())}" for text in _about(board) if text]
    parts += [f"\\begin{{tabular}}{{l{'r' * len(heads)}}}", "\\toprule"]
    over = [f"\\multicolumn{{{n}}}{{c}}{{{escaped(above)}}}" for above, n in spans]
    parts.append(_line(escaped(metrics[0]) if len(metrics) == 1 else "", over))
    parts.append(_under([n for _, n in spans]))
    parts += [_line("Method", [escaped(head) for _, head in heads]), "\\midrule"]
    parts += [lines[name] for name in ranked]
    parts += ["\\midrule"] * bool(ranked and below) + [lines[name] for name in below]
    foot = [f"{{\\par\\footnotesize {escaped(note)}\\par}}" for note in setting_notes(board.rows)]
    return "\n".join([*parts, "\\bottomrule", "\\end{tabular}", *foot, ""])


def _about(board: Leaderboard) -> list[str]:
    over = ", ".join(dict.fromkeys(plural(row.over) for row in board.rows))
    signs = (
        f"$\\pm$: 95 % Student-t interval over {over}. Bold: the best and what may be the best; a line: under the "
        "second, where the best stands alone. Below the last rule: references, not ranked."
    )
    notes = [f"Note: {note}" for note in board.notes]
    return ["needs \\usepackage{booktabs}", signs * bool(over), *notes]


def _names(board: Leaderboard) -> list[str]:
    """The methods, those first that are ranked in the most scenarios, of these the least average rank."""
    ranks: dict[str, list[int]] = {row.algorithm: [] for row in board.rows}
    for row in board.rows:
        ranks[row.algorithm] += [row.rank] if row.rank else []
    return sorted(ranks, key=lambda n: (-len(ranks[n]), fmean(ranks[n] or [0]), short(n)))


def _heads(found: Mapping[Contest, Sequence[Row]], metrics: bool) -> list[tuple[str, str]]:
    """What stands above each column: the data set, with model and metric where several are shown, and the level,
    with the sweeps where several answer one question.
    """
    models = len({group.scenario.model for group in found}) > 1
    asked = Counter((group.scenario, group.warm) for group in found)
    heads = []
    for group, rows in found.items():
        dataset, model, level = group.scenario
        above = [dataset] + [model] * models + [head_of(rows[0].metric)] * metrics
        sweeps = f" ({group.sweeps})" if asked[group.scenario, group.warm] > 1 else ""
        heads.append((", ".join(above), level + ", warm-started" * group.warm + sweeps))
    return heads


def _text(row: Row | None, rows: Sequence[Row]) -> str:
    """A score with half its interval, marked by what is shown of it."""
    if row is None:
        return "--"
    scale, form = (100, ".2f") if percent(row.metric) else (1, ".4g")
    text = f"{scale * row.mean:{form}}"
    if row.ci_low is not None and row.ci_high is not None:
        text += f" $\\pm$ {scale * (row.ci_high - row.ci_low) / 2:{form}}"
    if leads(row):
        return f"\\textbf{{{text}}}"
    if row.rank == 2 and sum(map(leads, rows)) == 1:
        return f"\\underline{{{text}}}"
    return text


def _line(first: str, others: Sequence[str]) -> str:
    return " & ".join([first, *others]) + " \\\\"


def _under(widths: Sequence[int]) -> str:
    """A rule below each head that spans columns."""
    ends = [1 + sum(widths[: i + 1]) for i in range(len(widths))]
    return " ".join(
        f"\\cmidrule(lr){{{end - n + 1}-{end}}}" for n, end in zip(widths, ends, strict=True)
    )


def escaped(text: str) -> str:
    """Text that LaTeX sets as it is."""
    return text.translate(ESCAPED)


ESCAPED = str.maketrans(
    {
        **{char: f"\\{char}" for char in "&%$#_{}"},
        "\\": "\\textbackslash{}",
        "~": "\\textasciitilde{}",
        "^": "\\textasciicircum{}",
        "<": "\\textless{}",
        ">": "\\textgreater{}",
        "–": "--",
    }
)
"""What LaTeX takes for itself, one character at a time."""
