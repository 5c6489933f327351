"""What is said of a leaderboard's rows, in words and numbers as people read them."""

from collections.abc import Collection, Mapping, Sequence
from statistics import fmean
from typing import Any

from reports.leaderboard.board import AWAY, OUTSIDE, Leaderboard, Row
from reports.leaderboard.budget import Budgets
from reports.leaderboard.statistics import CANNOT, DIFFERS, DIGITS, Across
from trials.engine import schedule
from trials.scoring.metrics import direction, sign


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
    """A metric as the head of a column."""
    name = metric.replace("_", " ")
    return name if name in ("test accuracy", "test mse") else name.removeprefix("test ")


def total_bytes(row: Row) -> float:
    """Sent up, down and between peers."""
    return row.uploaded_bytes + row.downloaded_bytes + row.peer_bytes


def verdict(rows: list[Row]) -> str:
    """Which algorithms are shown not to be the best, and which are not shown to differ from it: of
    methods where intervals are over tunings, partitions or splits, else of the configurations that ran.
    """
    rows = [row for row in rows if row.rank is not None]
    if not rows:
        return "Nothing is ranked."
    clear = [label(row) for row in rows if row.within_noise is False]
    equal = [label(row) for row in rows if row.equivalent]
    noise = [label(row) for row in rows if row.within_noise and not row.equivalent]
    found = {
        "shown not to be the best": clear,
        "shown to be within the margin of the best": equal,
        "may be the best": noise,
    }
    parts = [f"{what}: {', '.join(names)}" for what, names in found.items() if names]
    text = "; ".join(parts or ["too few algorithms or seeds to tell differences from noise"])
    of = (
        "of methods whose searches fail as often as here" if methods(rows) else "as configured here"
    )
    text = f"{of}, {text}"
    lost = [f"{label(row)}: {row.failed_seeds} diverged" for row in rows if row.failed_seeds]
    note = f"\nSeeds counted with the untrained model's score: {', '.join(lost)}." if lost else ""
    return f"{text[0].upper()}{text[1:]}.{note}"


UNITS, SEARCHES = 8, 30
"""The fewest outer units, and searches of the others, from which a scenario's words are about methods: with fewer,
failures of one search in ten may all stay unseen. Those of one method alone still may, which the words say
(docs/statistics.md has the error rates).
"""


def methods(rows: list[Row]) -> bool:
    """Whether words are about methods, tuned anew often enough, and not about the configurations that ran."""
    ranked = [row for row in rows if row.rank is not None]
    found = [row.units for row in ranked if row.over != "seed"]
    return len(found) == len(ranked) and min(found) >= UNITS and sum(sorted(found)[1:]) >= SEARCHES


def caution(board: Leaderboard) -> str:
    """What intervals leave out, as the first line of a leaderboard; "" where they leave nothing out."""
    scenarios = {row.group for row in board.rows}
    single = {row.group for row in board.rows if row.over == "seed"}
    if not single:
        return ""
    where = "" if single == scenarios else f"In {len(single)} of {len(scenarios)} scenarios "
    return (
        f"{where}± shows how much a score changes with the random seed. It does not show how much it would "
        "change if the search were run again, which is usually more. To measure that, sweep with --set tunings=5."
    )


def tuning_notes(board: Leaderboard, rows: list[Row]) -> list[str]:
    """What is to be said of how a group was tuned, where runs are compared by their score."""
    sweeps, scenario = {row.sweep for row in rows}, rows[0].scenario
    curves = [of for of in board.budgets if of.sweep in sweeps and of.scenario == scenario]
    if not curves:
        return []
    several = [of for of in curves if len(of.expected) > 1]
    return [*map(budget_text, several), *filter(None, [selection_text(rows)])]


def budget_text(found: Budgets) -> str:
    """Which method leads at which tuning budget, and from where on the ranking stays."""
    first, *later = found.leads
    text = f"By the recorded trials, {short(first[1])} would be expected to lead"
    text += f" with a search of {_trials(first[0])}" if later else ""
    text += "".join(f"; from {n} on, {short(name)}" for n, name in later)
    length = len(next(iter(found.expected.values())))
    if found.settled == length and length > 1:
        return (
            f"{text}. Their order still changes at the last of {length} trials: they are too few."
        )
    return f"{text}. Their order stays as it is from {found.settled} of {_trials(length)} on."


def _trials(count: int) -> str:
    return f"{count} trial{'s' * (count != 1)}"


def selection_text(rows: list[Row]) -> str:
    """How much better the searches' winners validated than they test, which is what choosing costs."""
    gaps = [
        sign(direction(row.metric)) * (row.selected - row.mean)
        for row in rows
        if row.rank is not None and row.selected is not None
    ]
    if not gaps:
        return ""
    gap = fmean(gaps)
    if gap <= 0:
        return (
            f"Winners score {abs(gap):.4f} worse on validation than on test data: no sign of "
            "over-tuning."
        )
    return (
        f"Winners score {gap:.4f} better on the validation data that chose them than on test data."
    )


def rank_text(row: Row) -> str:
    """The rank, `=` behind one that several share, and the sign of a row away from its paper's setting; or the sign of
    why there is none.
    """
    if row.rank is None:
        return OUTSIDE if row.outside else "-"
    return f"{row.rank}{'=' * row.tied}{AWAY * bool(row.away)}"


def label(row: Row) -> str:
    """The algorithm's short name."""
    return short(row.algorithm)


def short(algorithm: str) -> str:
    """An algorithm's short name; a third party's class name."""
    return algorithm.rpartition(":")[2]


def number(value: float | None) -> str:
    """A score, to the decimals that leaderboards show."""
    return "" if value is None else f"{value:z.{DECIMALS}f}"


DECIMALS = 4


def legend(board: Leaderboard, columns: Collection[str] | None = None) -> str:
    """The legend of a leaderboard: what the signs and columns that are shown mean; all columns by default."""
    heads = {k: v for k, v in HEADS.items() if columns is None or k in columns}
    told = [f"{sign}: {meaning}" for sign, meaning in (*signs(board), *heads.items())]
    return f"{how(board)} {'; '.join(told)}."


def how(board: Leaderboard) -> str:
    """How the rows of a leaderboard were made: the protocol, and the search."""
    return f"{board.protocol[0].upper()}{board.protocol[1:]}.{_searched(board)}"


HEADS = {
    "worst 10 %": "mean score of the tenth of the clients that it serves worst",
    "k samples": "thousands of sample gradients that clients computed",
    "MB": "sent up, down and between peers",
}
"""What columns of a leaderboard mean."""


def signs(board: Leaderboard) -> list[tuple[str, str]]:
    """What the signs that a leaderboard shows mean."""
    rows = board.rows
    over = ", ".join(dict.fromkeys(plural(row.over) for row in rows)) or "seeds"
    sampled = any(row.over != "seed" for row in rows)
    floor = (
        ", of one scenario none narrower than those of all its methods pooled" if sampled else ""
    )
    shown = {
        "≈": ("shown to be within the study's margin of the best", any(r.equivalent for r in rows)),
        "~": ("may be the best", any(r.within_noise and not r.equivalent for r in rows)),
        "✗ NAME": (
            "NAME is shown to be ahead; NAME need not be the first row",
            any(row.beaten_by for row in rows),
        ),
        "=": ("a rank that is shared", any(row.tied for row in rows)),
        "-": ("a reference, not ranked", any(rank_text(row) == "-" for row in rows)),
        AWAY: ("the scenario is not like those of its paper", any(row.away for row in rows)),
        OUTSIDE: ("outside its paper's setting, not ranked", any(row.outside for row in rows)),
    }
    return [
        ("±", f"95 % Student-t interval over {over}{floor}"),
        (
            "[a, b]",
            "between a and b behind the best, whichever method that is; all marks and intervals of a "
            "scenario hold together with 95 %",
        ),
        *((sign, meaning) for sign, (meaning, there) in shown.items() if there),
    ]


def plural(over: str) -> str:
    """The levels of the factors that an interval is over."""
    return " and ".join(f"{factor}s" for factor in over.split(" and "))


def _searched(board: Leaderboard) -> str:
    """The sentence on how configurations were found; sweep by sweep where that differs."""
    ways = list(dict.fromkeys(board.searched.values()))
    if len(ways) > 1:
        ways = [f"{way} ({sweep})" for sweep, way in board.searched.items()]
    return f" Searched by {', '.join(ways)}." if ways else ""


def mean_text(row: Row) -> str:
    """The mean, and half its interval."""
    if row.ci_low is None or row.ci_high is None:
        return f"{row.mean:z.4f}"
    return f"{row.mean:z.4f} ± {(row.ci_high - row.ci_low) / 2:.4f}"


def behind_text(row: Row) -> str:
    """How far behind the first row, how far behind the best at least and at most, and what that shows."""
    if row.behind_low is None or row.behind_high is None:
        return "" if row.behind == 0 else f"{row.behind:z.{DECIMALS}f}"
    low, high, digits = row.behind_low, row.behind_high, DECIMALS
    while low > 0 and not round(low, digits) and digits < DIGITS:
        digits += 1  # an interval that holds 0 is told from one that does not
    interval = f"[{low:z.{digits}f}, {high:z.{digits}f}]"
    return f"{row.behind:z.{digits}f} {interval} {behind_mark(row)}".rstrip()


def behind_mark(row: Row) -> str:
    """What is shown of a row beside the best: a tie, no difference, or who is shown to be ahead."""
    if row.beaten_by:
        return f"✗ {short(row.beaten_by[0])}"
    return "≈" if row.equivalent else "~" if row.within_noise else ""


def spread_text(row: Row) -> str:
    """The standard deviation by tuning, partition, split and seed, of those that vary."""
    return " ".join(f"{factor} {value:z.4f}" for factor, value in row.spread.items())


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
    """Hyperparameters on one line."""
    return " ".join(f"{key}={schedule.short(value)}" for key, value in params.items())
