"""What is said of a leaderboard's rows, in words and numbers as people read them."""

from collections.abc import Mapping, Sequence
from typing import Any

from reports.leaderboard.board import Leaderboard, Row
from reports.leaderboard.statistics import CANNOT, DIFFERS, Across
from trials.scoring.metrics import LABELWISE


def overall_title(metric: str, found: Across) -> str:
    """The title of the section that compares algorithms over families of data sets."""
    n = len(found.families)
    scenarios = "" if len(found.scenarios) == n else f" ({len(found.scenarios)} scenarios)"
    return f"All {n} families of data sets{scenarios}, {metric.replace('_', ' ')}"


def standings(found: Across) -> list[tuple[str, str, str]]:
    """Each algorithm, its average rank, and what it is shown to differ from."""
    rows = []
    ends = list(zip(found.rank_low, found.rank_high, strict=True))
    for i, (name, rank) in enumerate(zip(found.algorithms, found.ranks, strict=True)):
        between = f" [{ends[i][0]:.1f}, {ends[i][1]:.1f}]" if ends else ""
        pairs = [p for p in found.pairs if name in (p.first, p.second) and p.verdict == DIFFERS]
        others = [short(p.second if p.first == name else p.first) for p in pairs]
        rows.append((short(name), f"{rank:.2f}{between}", ", ".join(others)))
    return rows


def overall(found: Across) -> list[str]:
    """The findings of the tests over scenarios, in sentences."""
    n, k = len(found.families), len(found.algorithms)
    said = []
    if found.friedman is None or found.iman_davenport is None:
        said.append(f"Friedman's test {found.friedman_verdict}.")
    else:
        said.append(
            f"Friedman's test of ranks over {n} families of data sets: p = {found.friedman:.2g} (Iman-Davenport "
            f"{found.iman_davenport:.2g}): {found.friedman_verdict}."
        )
    differ = sum(pair.verdict == DIFFERS for pair in found.pairs)
    cannot = [pair for pair in found.pairs if pair.verdict == CANNOT]
    text = f"Wilcoxon-Holm: {differ} of {len(found.pairs)} pairs differ"
    if cannot:
        least, level = min(pair.smallest for pair in cannot), cannot[0].threshold
        text += (
            f"; {CANNOT} for {len(cannot)}: were all families to point one way, p would still be at "
            f"least {least:.2g}, above the corrected {level:.2g}"
        )
    said.append(text + ".")
    if found.critical_difference is not None:
        more = ", more than any two ranks can be apart" if found.critical_difference > k - 1 else ""
        said.append(f"Nemenyi: average ranks {found.critical_difference:.2f} apart differ{more}.")
    left = [*map(short, found.left_out_algorithms), *found.left_out_families]
    if left:
        said.append(
            f"Left out, since every algorithm must have every scenario of a family of data sets: {', '.join(left)}."
        )
    return said


def title_of(metric: str) -> str:
    """Return a metric's name as people read it: the title of a chart, whose axis has the plain score."""
    name = metric.replace("_", " ")
    return name if name in ("test accuracy", "test mse") else name.removeprefix("test ")


def head_of(metric: str) -> str:
    """Return a metric as the head of a column of scores, with their unit."""
    return title_of(metric) + " %" * percent(metric)


def total_bytes(row: Row) -> float:
    """Sent up, down and between peers."""
    return row.uploaded_bytes + row.downloaded_bytes + row.peer_bytes


def answer(rows: Sequence[Row]) -> str:
    """Say which of the ranked methods may be the best: of methods where intervals are over tunings, partitions or
    splits, else of the configurations that ran; and which runs diverged, and what is not ranked.
    """
    ranked = [row for row in rows if row.rank is not None]
    best = [label(row) for row in ranked if row.within_noise]
    about = (
        "Of methods whose searches fail as often as here" if methods(rows) else "As configured here"
    )
    if not ranked:
        text = "Nothing is ranked"
    elif not best:
        text = "Too few methods or seeds to tell differences from noise"
    elif len(best) == 1:
        text = f"{about} {best[0]} is shown to be the best"
    elif len(best) == len(ranked):
        text = f"{about} no method is told apart from the best"
    else:
        text = f"{about} {len(best)} of {len(ranked)} may be the best: {listed(best, 6)}"
    lost = [f"{row.failed_seeds} of {label(row)}" for row in rows if row.failed_seeds]
    left = [f"{label(row)} ({row.outside.split(': ')[0]})" for row in rows if row.outside]
    diverged = f" Runs that diverged: {listed(lost)}." if lost else ""
    unranked = f" Not ranked: {listed(left)}." if left else ""
    return f"{text}.{diverged}{unranked}"


def setting_notes(rows: Sequence[Row]) -> list[str]:
    """Say what of the rows' settings is unlike their papers', each reason once."""
    outside = "is outside its paper's setting and not ranked"
    notes = [f"{label(row)} {outside}: {row.outside}." for row in rows if row.outside]
    away = "is ranked away from its paper's setting"
    notes += [f"{label(row)} {away}: {row.away}." for row in rows if row.away]
    return list(dict.fromkeys(notes))


UNITS, SEARCHES = 8, 30
"""The fewest outer units, and searches of the others, from which a scenario's words are about methods: with fewer,
failures of one search in ten may all stay unseen. Those of one method alone still may, which the words say
(docs/statistics.md has the error rates).
"""


def methods(rows: Sequence[Row]) -> bool:
    """Whether words are about methods, tuned anew often enough, and not about the configurations that ran."""
    ranked = [row for row in rows if row.rank is not None]
    units = [row.units if row.over != "seed" else 0 for row in ranked]
    return bool(units) and min(units) >= UNITS and sum(sorted(units)[1:]) >= SEARCHES


def rank_text(row: Row) -> str:
    """Return the rank, with `=` behind one that several share; `-` where there is none."""
    return "-" if row.rank is None else f"{row.rank}{'=' * row.tied}"


def label(row: Row) -> str:
    """The algorithm's short name."""
    return short(row.algorithm)


def short(algorithm: str) -> str:
    """An algorithm's short name; a third party's class name."""
    return algorithm.rpartition(":")[2]


def legend(board: Leaderboard) -> str:
    """Say in a line how the rows were made and what the intervals are."""
    return how(board) + f" ±: 95 % over {repeats(board.rows)}." * bool(board.rows)


def repeats(rows: Sequence[Row]) -> str:
    """Return what the intervals of rows are over, and of how many."""
    counts = [f"{row.units} {plural(row.over) if row.units > 1 else row.over}" for row in rows]
    return " and ".join(dict.fromkeys(counts))


def how(board: Leaderboard) -> str:
    """Say how the rows of a leaderboard were made: the protocol, and the search."""
    return f"{board.protocol[0].upper()}{board.protocol[1:]}.{_searched(board)}"


SIGNS = {
    "=": "a rank that is shared",
    "-": "not ranked: a reference, or outside its paper's setting",
}
HEADS = {
    "behind the best": "at least and at most, whichever method that is: 95 % for all that is said of a scenario",
    "seeds": "final runs; one that diverged counts with the untrained model's score",
    "worst 10 %": "mean score of the tenth of the clients that it serves worst",
    "k samples": "thousands of sample gradients that clients computed",
    "MB": "sent up, down and between peers",
}
"""What columns of a leaderboard mean."""


def signs(board: Leaderboard) -> list[tuple[str, str]]:
    """Return what the signs that a leaderboard shows mean."""
    ranks = {rank_text(row)[-1] for row in board.rows}
    shown = [("±", f"95 % Student-t interval over {repeats(board.rows)}")]
    return shown + [(sign, SIGNS[sign]) for sign in ("=", "-") if sign in ranks]


def plural(over: str) -> str:
    """The levels of the factors that an interval is over."""
    return " and ".join(f"{factor}s" for factor in over.split(" and "))


def _searched(board: Leaderboard) -> str:
    """The sentence on how configurations were found; sweep by sweep where that differs."""
    ways = list(dict.fromkeys(board.searched.values()))
    if len(ways) > 1:
        ways = [f"{way} ({sweep})" for sweep, way in board.searched.items()]
    return f" Searched by {', '.join(ways)}." if ways else ""


def percent(metric: str) -> bool:
    """Return whether scores of a metric are shown in percent."""
    return any(name in metric for name in ("accuracy", *LABELWISE))


def number(value: float | None, metric: str, digits: int = 1) -> str:
    """Return a score as people read it: in percent, or with four digits where its metric is no share."""
    if value is None:
        return ""
    return f"{100 * value:z.{digits}f}" if percent(metric) else f"{value:z.4g}"


def score_text(value: float | None, row: Row) -> str:
    """Return a score of a row: in percent to a tenth, or to a hundredth where the row's interval is narrower than that."""
    fine = row.ci_low is not None and row.ci_high is not None and row.ci_high - row.ci_low < 0.001
    return number(value, row.metric, 2 if fine else 1)


def mean_text(row: Row) -> str:
    """Return the mean, and half its interval."""
    if row.ci_low is None or row.ci_high is None:
        return score_text(row.mean, row)
    return f"{score_text(row.mean, row)} ± {score_text((row.ci_high - row.ci_low) / 2, row)}"


def behind_text(row: Row) -> str:
    """Say how far a row is behind the best, at least and at most, or that it may be the best."""
    unit = " points" if percent(row.metric) else ""
    if row.rank is None or row.behind_low is None or row.behind_high is None:
        return f"{score_text(row.behind, row)}{unit}" if row.behind else ""
    if row.within_noise and not row.behind_high and not row.tied:
        return "the best"
    if row.within_noise:
        return "within the margin" if row.equivalent else "may be the best"
    low = score_text(row.behind_low, row)
    if not float(low):  # what is shown to be behind does not read as if it were not
        low = f"<{low[:-1]}1"
    return f"{low} to {score_text(row.behind_high, row)}{unit}"


def spread_text(row: Row) -> str:
    """Return the standard deviation by tuning, partition, split and seed, of those that vary."""
    return " ".join(f"{factor} {score_text(value, row)}" for factor, value in row.spread.items())


def to_target_text(row: Row) -> str:
    """Rounds to the target, and the share of seeds that reached it unless all did."""
    if row.rounds_to_target is None:
        return "never"
    share = "" if row.reached_share == 1 else f" ({row.reached_share:.0%})"
    return f"{row.rounds_to_target:.0f}{share}"


def listed(names: Sequence[str], most: int = 4) -> str:
    """The first names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def params_text(params: Mapping[str, Any]) -> str:
    """Hyperparameters on one line, with three digits of every number."""
    texts = {k: f"{v:.3g}" if isinstance(v, float) else str(v) for k, v in params.items()}
    return " ".join(f"{key}={text}" for key, text in texts.items())
