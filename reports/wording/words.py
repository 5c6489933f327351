"""The sentences and numbers of leaderboards: scores, intervals, conclusions, and audits of searches."""

from collections.abc import Mapping, Sequence
from itertools import compress, starmap
from math import ceil, log10
from typing import Any

from reports.leaderboard.audit import PER_HYPERPARAMETER
from reports.leaderboard.board import Leaderboard, Row
from reports.leaderboard.statistics import CANNOT, DIFFERS, Across
from reports.table import Column, ColumnKind, Table, table
from trials.scoring.metrics import LABELWISE

UNITS, SEARCHES = 8, 30
"""The fewest units (such as searches) of each method, and of all but the method with fewest, for sentences about methods.
With fewer of them, failures of one search in ten may go unseen (docs/results/calibration.md has the error rates).
"""
HEADS = {
    "±": "95 % Student-t interval",
    "=": "several rows share this rank",
    "-": "not ranked: a reference, or outside its paper's setting",
    "own models": "the models that its clients keep are scored, not the server's",
    "rounds to": "mean over the final runs that reached the target; (75%): the share that did",
    "behind the best": "at least and at most, whichever method the best is; 95 % for all statements on a scenario together",
    "seeds": "final runs; one that diverged counts with the untrained model's score",
    "worst 10 %": "mean score of the tenth of the clients with the worst scores, at the evaluations of the score",
    "spread": "standard deviation over clients, at the same evaluations",
    "k samples": "thousands of sample gradients that clients computed",
    "MB": "sent up, down and between peers",
}
"""Explanations of a leaderboard's signs and columns."""


def spell(seconds: float) -> str:
    """Return a duration as text with about two digits, such as `40 s`, `12 min` or `3.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def short(algorithm: str) -> str:
    """Return an algorithm's short name. For an algorithm in a file this is the class, such as `Mine` for `mine.py:Mine`."""
    return algorithm.rpartition(":")[2]


def label(row: Row) -> str:
    """Return the short name of the row's algorithm."""
    return short(row.algorithm)


def title_of(metric: str) -> str:
    """Return a metric's name for readers. Spaces replace underscores, and "test" is dropped except for accuracy and mse."""
    name = metric.replace("_", " ")
    return name if name in ("test accuracy", "test mse") else name.removeprefix("test ")


def head_of(metric: str) -> str:
    """Return a metric's name as a column heading or axis label, followed by "%" if its scores are in percent."""
    return title_of(metric) + " %" * percent(metric)


def percent(metric: str) -> bool:
    """Return whether scores of a metric are shown in percent."""
    return any(name in metric for name in ("accuracy", *LABELWISE))


def number(value: float | None, metric: str, digits: int = 1) -> str:
    """Return a score as text; "" for None. A score in percent has `digits` decimals, any other score four significant digits."""
    if value is None:
        return ""
    return f"{100 * value:z.{digits}f}" if percent(metric) else f"{value:z.4g}"


def scored(value: float | None, metric: str) -> str:
    """Return a score with its unit, such as `95.2 %`; "" for None."""
    return number(value, metric) + " %" * (value is not None and percent(metric))


def score_text(value: float | None, row: Row) -> str:
    """Return a row's score as text. A score in percent has one decimal, or two if the row's interval is narrower than 0.1
    points. With n test samples, one sample changes the score by 100 / n points. So there is no decimal for up to 100 samples,
    and at most one for up to 1000.
    """
    fine = row.ci_low is not None and row.ci_high is not None and row.ci_high - row.ci_low < 0.001
    # A second decimal would be noise unless the interval is that narrow.
    digits = 2 if fine else 1
    if row.test_samples:
        digits = min(digits, max(0, ceil(log10(row.test_samples)) - 2))
    return number(value, row.metric, digits)


def mean_text(row: Row) -> str:
    """Return a row's mean score with half its interval's width, such as `95.2 ± 0.3`. Without an interval, return the mean alone."""
    if row.ci_low is None or row.ci_high is None:
        return score_text(row.mean, row)
    return f"{score_text(row.mean, row)} ± {score_text((row.ci_high - row.ci_low) / 2, row)}"


def behind_text(row: Row) -> str:
    """Return how far a row is behind the best, such as `0.2 to 1.5 points`, or a text such as "may be the best"."""
    unit = " points" if percent(row.metric) else ""
    if row.rank is None or row.behind_low is None or row.behind_high is None:
        return f"{score_text(row.behind, row)}{unit}" if row.behind else ""
    if row.within_noise and not row.behind_high and not row.tied:
        return "the best"
    if row.within_noise:
        return "within the margin" if row.equivalent else "may be the best"
    low = score_text(row.behind_low, row)
    if not float(low):  # a method that is shown to be behind is not printed as 0 behind
        low = f"<{low[:-1]}1"
    return f"{low} to {score_text(row.behind_high, row)}{unit}"


def rank_text(row: Row) -> str:
    """Return the row's rank as text, with `=` for a shared rank; `-` for an unranked row."""
    return "-" if row.rank is None else f"{row.rank}{'=' * row.tied}"


def to_target_text(row: Row) -> str:
    """Return the mean rounds to the target as text, or "never". If only some runs reached the target, their share follows, as in `40 (75%)`."""
    if row.rounds_to_target is None:
        return "never"
    share = "" if row.reached_share == 1 else f" ({row.reached_share:.0%})"
    return f"{row.rounds_to_target:.0f}{share}"


def spread_text(row: Row) -> str:
    """Return the standard deviation of a row's score due to each factor, such as `tuning 0.8 seed 0.3`."""
    return " ".join(f"{factor} {score_text(value, row)}" for factor, value in row.spread.items())


def params_text(params: Mapping[str, Any]) -> str:
    """Return hyperparameters on one line, such as `lr=0.0316 mu=0.01`, with real numbers to three significant digits."""
    texts = {k: f"{v:.3g}" if isinstance(v, float) else str(v) for k, v in params.items()}
    return " ".join(starmap("{}={}".format, texts.items()))


def listed(names: Sequence[str], most: int = 4) -> str:
    """Return the first `most` names as text. If there are more names, their number follows, as in `a, b and 3 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def plural(over: str) -> str:
    """Return the plural of a factor's name: `tuning` becomes `tunings`, `tuning and seed` becomes `tunings and seeds`."""
    return over.replace(" and ", "s and ") + "s"


# Scenarios and boards


def methods(rows: Sequence[Row]) -> bool:
    """Return whether there were enough searches to compare methods, and not only their configurations."""
    units = [row.units if row.over != "seed" else 0 for row in rows if row.rank is not None]
    # Failures that do not occur in a method's few searches must show in those of the others.
    return bool(units) and min(units) >= UNITS and sum(sorted(units)[1:]) >= SEARCHES


def answer(rows: Sequence[Row]) -> str:
    """Return sentences that say which ranked methods may be the best, and how many runs diverged. After few searches,
    the sentences are only about the configurations that ran, not about methods in general.
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
    return f"{text}." + f" Runs that diverged: {listed(lost)}." * bool(lost)


def unranked(rows: Sequence[Row]) -> list[str]:
    """Return a line on the methods that are unranked because they run outside their papers' settings; [] without such methods."""
    left = [f"{label(row)} ({row.outside.split(': ')[0]})" for row in rows if row.outside]
    return [f"Not ranked: {listed([*dict.fromkeys(left)])}."] if left else []


def setting_notes(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each method whose settings differ from its paper's. Each sentence occurs once."""
    outside, away = dict[str, None](), dict[str, None]()
    for row in rows:
        if row.outside:
            outside[
                f"{label(row)} is outside its paper's setting and not ranked: {row.outside}."
            ] = None
        if row.away:
            away[f"{label(row)} is ranked away from its paper's setting: {row.away}."] = None
    return [*outside, *away]


def legend(board: Leaderboard) -> str:
    """Return a line on how methods were tuned and ranked. It also has the sample sizes behind the intervals, such as `5 seeds`."""
    counts: dict[str, None] = {}
    for row in board.rows:
        counts[f"{row.units} {plural(row.over) if row.units > 1 else row.over}"] = None
    over = f" ±: 95 % over {' and '.join(counts)}." if counts else ""
    return f"{board.protocol[0].upper()}{board.protocol[1:]}.{over}"


def searches(board: Leaderboard) -> list[str]:
    """Return a line on how configurations were searched; [] if this is unknown. If sweeps differ, the line names each sweep."""
    ways = list(dict.fromkeys(board.searched.values()))
    if len(ways) > 1:
        ways = [f"{way} ({sweep})" for sweep, way in board.searched.items()]
    return [f"Searched by {', '.join(ways)}."] if ways else []


def overall_title(metric: str, across: Across) -> str:
    """Return a title for a comparison over families of data sets. It has the metric, and the numbers of families and of scenarios."""
    n = len(across.families)
    scenarios = "" if len(across.scenarios) == n else f" ({len(across.scenarios)} scenarios)"
    return f"All {n} families of data sets{scenarios}, {metric.replace('_', ' ')}"


def overall(across: Across) -> str:
    """Return sentences on the results of Friedman's and Wilcoxon's tests over families of data sets."""
    n = len(across.families)
    text = f"Friedman's test {across.friedman_verdict}."
    if across.friedman is not None:
        text = (
            f"Friedman's test of ranks over {n} families of data sets: p = {across.friedman:.2g} (Iman-Davenport "
            f"{across.iman_davenport:.2g}): {across.friedman_verdict}."
        )
    verdicts = [pair.verdict for pair in across.pairs]
    text += f" Wilcoxon-Holm: {verdicts.count(DIFFERS)} of {len(across.pairs)} pairs differ"
    if cannot := [pair for pair in across.pairs if pair.verdict == CANNOT]:
        text += (
            f"; {CANNOT} for {len(cannot)}: were all families to point one way, p would still be at "
            f"least {min(pair.smallest for pair in cannot):.2g}, above the corrected {cannot[0].threshold:.2g}"
        )
    text += "."
    if left := [*map(short, across.left_out_algorithms), *across.left_out_families]:
        text += f" Left out, since every algorithm must have every scenario of a family of data sets: {', '.join(left)}."
    return text


# Audits

KINDS = {
    "edge": "Winner at an edge of its range",
    "rising": "Best still rising in the last tenth of the trials",
    "diverged": "Many trials diverged",
    "few": f"Fewer than {PER_HYPERPARAMETER} trials per hyperparameter",
}
"""The beginning of the line on each kind of finding."""
MENDS = (
    "suite sweep STUDY --name NAME --resume --trials N searches longer, "
    "suite sweep STUDY --name OTHER --set search.lr=LOW..HIGH in a wider range"
)
AUDIT_ABOUT = (
    "Searched 2 in 16: 2 hyperparameters, 16 trials. Lead: how far the best configuration is ahead of the second "
    "on validation data. Noise: how much its score varies with the seed (standard deviation). As good: other "
    "configurations behind the best by less than the noise. Last tenth: how much the last tenth of the trials "
    "improved the best. Lead, noise and last tenth are in the unit of the score."
)
"""The meaning of the audit's columns."""
AUDIT_TITLE = "Audit of the searches"
NAMED = 3
"""The number of rows that a line of findings names."""
AUDIT_HEADS = ("searched", "diverged", "lead", "noise", "as good", "last tenth")


def audit_table(board: Leaderboard) -> Table | None:
    """Return a table of search audits, or None without audits. Each audited row of the board has a line; empty columns are left out."""
    scenarios, rows = _scenarios(board.rows), list[list[str]]()
    columns = [Column("algorithm", ColumnKind.NAME), Column("scenario", ColumnKind.NAME)]
    columns += [*map(Column, AUDIT_HEADS), Column("at an edge", ColumnKind.WORDS)]
    for row in board.rows:
        if (audit := row.audit) is None:
            continue
        searched = f"{audit.hyperparameters} in {audit.trials}"
        edges = [f"{e.name} {e.end}{' (limit)' * (e.wider is None)}" for e in audit.edges or ()]
        cells = [
            label(row),
            scenarios[row.group],
            "" if audit.hyperparameters is None else searched,
            f"{audit.diverged_share:.0%}" if audit.diverged_share else "",
            number(audit.margin, row.metric),
            number(audit.noise, row.metric),
            "" if audit.as_good is None else str(audit.as_good),
            f"+{number(audit.late_gain, row.metric)}" if audit.late_gain else "",
            ", ".join(edges),
        ]
        rows.append(cells)
    if not rows:
        return None
    kept = [*map(any, zip(*rows, strict=True))]
    shown = [list(compress(row, kept)) for row in rows]
    return table([*compress(columns, kept)], shown, essential=2)


def findings(rows: Sequence[Row]) -> list[str]:
    """Return a line for each kind of audit finding. The line names the first few rows with this finding."""
    scenarios, kinds = _scenarios(rows), dict[str, list[str]]()
    for kind in KINDS:
        for row in rows:
            for finding in row.audit.findings if row.audit else ():
                if finding.kind == kind:
                    who = label(row)
                    if kind != "few":  # which is the same in all scenarios
                        who = f"{who} {scenarios[row.group]}".strip()
                    who += f" ({finding.text})" if kind == "edge" else ""
                    kinds.setdefault(kind, []).append(who)
    return [f"{KINDS[k]}: {listed([*dict.fromkeys(names)], NAMED)}." for k, names in kinds.items()]


def _scenarios(rows: Sequence[Row]) -> dict[tuple[object, ...], str]:
    """Return a short name for each group of rows: whichever of data set, model, level and sweeps differ between the groups."""
    parts = {row.group: (*row.scenario, row.sweeps) for row in rows}
    differ = [len(set(names)) > 1 for names in zip(*parts.values(), strict=True)]
    return {group: " ".join(compress(names, differ)) for group, names in parts.items()}
