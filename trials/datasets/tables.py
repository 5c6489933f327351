"""A person's tables: a row is a sample, a column its target, the others its features. What a column holds decides what
becomes of it, and each decision is told; where a guess could change a score, the person is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, quote

import numpy as np

from trials.common import randomness
from trials.common.errors import UserError, unknown
from trials.common.lazy import Lazy
from trials.datasets.base import Dataset, scaled
from trials.datasets.published import Array
from trials.scoring.metrics import REGRESSION

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = Lazy("pandas")

MOST = 1000
"""Different values of a column of words, at most: each is a feature."""
FEW = 10
"""A target of more different whole numbers may be meant as a number."""
PART = "(part)"
"""The column that says which rows are test where training and test rows are two tables."""
TEST = {"test": True, "train": False, "1": True, "0": False, "true": True, "false": False}
"""What a column that says which rows are test may hold, in lower case."""
TASKS = ("classification", "regression")
NUMBER_LIKE = re.compile(
    r"\(?[+-]?\s*[€$£¥]?\s*[.,]?\d[\d\s.,:/'_+-]*(e[+-]?\d+)?\s*([%€$£¥°]|[^\W\d]{0,3})\)?", re.I
)
"""Numbers with signs, units or separators, dates, times and intervals: words that pandas made no number of."""
NAMELESS = re.compile(r"Unnamed: [\d.]+(_level_\d+)?|\s*")


@dataclass(frozen=True)
class Options:
    """What columns are for and how they are read: what stands behind `?` in a name, as in `csv:PATH?target=y&drop=id`.
    `test` is a column, or the share of rows that are test; `keep` are columns to be taken as they are.
    """

    target: str | None = None
    client: str | None = None
    test: str | float = 0.2
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    rows: str | None = None
    task: str | None = None
    sep: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    absent: tuple[str, ...] = ()

    @classmethod
    def read(cls, what: str, query: str) -> Options:
        """Return the options of `target=y&client=hospital`; raises `UserError` naming the key that is wrong."""
        given = parse_qsl(query, keep_blank_values=True)
        keys = [field.name for field in fields(cls)]
        for key, _ in given:
            if key not in keys:
                raise UserError(f"{what}: {unknown('key', key, keys)}")
        several = ("drop", "keep", "absent")
        options: dict[str, Any] = {key: value for key, value in given if key not in several}
        options |= {name: tuple(v for key, v in given if key == name) for name in several}
        for key, allowed in (("task", TASKS), ("rows", ("drop",))):
            if key in options and options[key] not in allowed:
                rule = " or ".join(allowed)
                raise UserError(f"{what}: {key} is {options[key]!r}, but must be {rule}")
        with suppress(ValueError):  # else it is a column
            options["test"] = float(options.get("test", cls.test))
        return cls(**options)

    @property
    def text(self) -> str:
        """The canonical spelling of what is not the default, with its question mark."""
        pairs = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                pairs += [(field.name, v) for v in (value if isinstance(value, tuple) else [value])]
        spelled = (f"{key}={quote(str(value), safe=' /:.;')}" for key, value in pairs)
        return f"?{'&'.join(spelled)}" if pairs else ""

    @property
    def reading(self) -> dict[str, Any]:
        """What pandas is told of a csv file."""
        return {
            "sep": "\t" if self.sep == "tab" else self.sep or ",",
            "decimal": self.decimal or ".",
            "thousands": self.thousands,
            "na_values": ["?", *self.absent],
        }


class ColumnDecision(NamedTuple):
    """What was made of columns: their names, the value that decided, what was done and the option that changes it."""

    column: str
    value: str
    done: str
    option: str


def told(decisions: Iterable[ColumnDecision]) -> str:
    """Return decisions as one table, those alike in a row."""
    alike: dict[tuple[str, str], list[ColumnDecision]] = {}
    for decision in decisions:
        alike.setdefault((decision.done, decision.option), []).append(decision)
    rows = [ColumnDecision("column", "value", "what was done", "option")]
    for group in alike.values():
        columns = ", ".join(decision.column for decision in group[:6])
        more = f", ... ({len(group)} columns)" if len(group) > 6 else ""
        rows.append(group[0]._replace(column=columns + more))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(("how its columns were taken:", *lines))


def encoded(name: str, table: pd.DataFrame, options: Options, seed: int) -> Dataset:
    """Return the rows as samples. Numbers are standardised by the training rows, and an absent one is their mean; a
    column of words is an indicator of each value among the training rows, of which an absent one is another. Targets
    of a regression are standardised too. Raises `UserError` naming the column that does not fit.
    """
    table = table.rename(columns=str)
    special = _named_columns(name, table, options)
    # Features may be absent; what a row is for may not.
    absent, decisions = table[list(special.values())].isna(), []
    for key, column in special.items():
        if count := int(absent[column].sum()):
            if options.rows != "drop":
                raise UserError(
                    f"{name}: {key}: column {column!r} has no value in {count} of {len(table)} rows: fill them in, or "
                    "leave these rows out by &rows=drop"
                )
            decisions.append(
                ColumnDecision(column, "absent", f"{count} rows left out", "rows=drop")
            )
    table = table[~absent.any(axis=1)]
    if not len(table):
        raise UserError(f"{name} has no rows")
    client = None
    if options.client is not None:
        _, client = np.unique(_as_words(name, table[options.client], options), return_inverse=True)
    y, classes, decision = _target(name, table[special["target"]], options)
    group = client if client is not None else y if classes > 1 else np.zeros(len(y), int)
    test = _test(name, table, options, seed, group)
    features = table.drop(columns=list({*special.values(), *options.drop}))
    if not features.shape[1]:
        raise UserError(f"{name} has no column but {', '.join(map(repr, table))}: no features")
    x, taken = _features(name, features, test, options)
    if classes > 1:
        return Dataset(x, y, test, classes, client, note=told([*decisions, decision, *taken]))
    train = y[~test]
    done = f"standardised by training rows: mean {train.mean():.6g}, deviation {train.std():.6g}"
    note = told([*decisions, decision._replace(done=done), *taken])
    return Dataset(x, scaled(y[:, None], test)[:, 0], test, 1, client, REGRESSION, note)


def _named_columns(name: str, table: pd.DataFrame, options: Options) -> dict[str, str]:
    """Return the columns that are no features by what they are for; raises `UserError` for names that do not fit."""
    if options.target is None:
        raise UserError(f"{name}: a table needs the column to predict: target=COLUMN")
    asked = {"target": options.target, "client": options.client}
    special = {key: column for key, column in asked.items() if column is not None}
    special |= {"test": options.test} if isinstance(options.test, str) else {}
    listed = [("drop", column) for column in options.drop]
    listed += [("keep", column) for column in options.keep]
    for key, column in [*special.items(), *listed]:
        if column not in table:
            raise UserError(f"{name}: {key}: {unknown('column', column, map(str, table))}")
    if table.columns.nlevels > 1:
        raise UserError(f"{name}: its columns have names in {table.columns.nlevels} levels: one")
    if (twice := table.columns[table.columns.duplicated()]).size:
        raise UserError(f"{name} has two columns {twice[0]!r}")
    for column in map(str, table):
        if NAMELESS.fullmatch(column) and column not in (*options.drop, *options.keep):
            raise UserError(
                f"{name}: a column has no name ({column!r}), as row numbers have that pandas' to_csv "
                f"writes: {_either(column)}"
            )
    return special


def _either(column: object) -> str:
    spelled = quote(str(column), safe=" :.")
    return f"leave it out by &drop={spelled}, or take it as it is by &keep={spelled}"


def _target(
    name: str, column: pd.Series[Any], options: Options
) -> tuple[Array, int, ColumnDecision]:
    """Return labels and how many there are, or numbers and 1."""
    title, numbers = str(column.name), _numbers(column)
    where = f"{name}: target: column {title!r}"
    if options.task == "regression":
        if numbers is None or not np.isfinite(numbers).all():
            wrong = (v for v in column if not isinstance(v, int | float) or not np.isfinite(v))
            odd = next(wrong, column.dtype)
            raise UserError(
                f"{where} must hold finite numbers for task=regression, but holds {odd!r}"
            )
        decision = ColumnDecision(title, f"{numbers[0]:g}", "", "task=classification")
        return numbers, 1, decision
    if numbers is not None and (broken := numbers[numbers % 1 != 0]).size:
        raise UserError(
            f"{where} holds {broken[0]:g}, which is no label: for a regression add &task=regression"
        )
    values = _as_words(name, column, options) if numbers is None else numbers.astype(np.int64)
    labels, y = np.unique(values, return_inverse=True)
    # Ten digits are labels; seventy ages, or a name in nearly each row, may be something else.
    most = len(y) // 2 if numbers is None else FEW
    if len(labels) > most and options.task is None and len(labels) > 2:
        kind = "values" if numbers is None else "whole numbers"
        raise UserError(
            f"{where} holds {len(labels)} different {kind}, as {labels[0]} and {labels[1]}: are they numbers to "
            "predict (&task=regression), or labels (&task=classification)?"
        )
    if len(labels) < 2:
        raise UserError(f"{where} holds one value only, {labels[0]!s}: two labels at least")
    done = f"{len(labels)} labels: {', '.join(map(str, labels[:4]))}{', ...' * (len(labels) > 4)}"
    return y, len(labels), ColumnDecision(title, str(values[0]), done, "task=regression")


def _test(name: str, table: pd.DataFrame, options: Options, seed: int, group: Array) -> Array:
    """Return which rows are test, (N,): those that a column says, or a share of each group, drawn."""
    if isinstance(options.test, str):
        parts = table[options.test].astype(str).str.strip().str.lower().str.removesuffix(".0")
        if odd := sorted(set(parts) - set(TEST)):
            raise UserError(
                f"{name}: test: column {options.test!r} holds {odd[0]!r}, but must hold train and test, 0 and 1, or "
                "false and true"
            )
        test = parts.map(TEST).to_numpy(bool)
    else:
        if not 0 < options.test < 1:
            raise UserError(f"{name}: test is {options.test:g}, but must be a column, or in (0, 1)")
        # A share of each group, so that small clients and rare labels are tested too.
        order = randomness.generator("table_test", seed).permutation(len(table))
        test = np.zeros(len(table), bool)
        for each in np.unique(group):
            own = order[group[order] == each]
            test[own[: round(options.test * len(own))]] = True
    if test.all() or not test.any():
        raise UserError(f"{name}: test: {int(test.sum())} of {len(test)} rows are test")
    return test


def _features(
    name: str, table: pd.DataFrame, test: Array, options: Options
) -> tuple[Array, list[ColumnDecision]]:
    """Return x (N, features), numbers before indicators, and how it was made."""
    decisions, numbers, words = [], {}, {}
    for column, values in table.items():
        title = str(column)
        if (x := _numbers(values)) is not None:
            numbers[title] = _checked_numbers(name, title, x, test, title in options.keep)
            absent, shown = int(np.isnan(x).sum()), x[~np.isnan(x)][0]
            done = "number, standardised by training rows"
            done += f"; {absent} absent ones are their mean" if absent else ""
            decisions.append(ColumnDecision(title, f"{shown:.6g}", done, "drop=COLUMN"))
        else:
            text = words[title] = _as_words(name, values, options)
            levels = len(np.unique(text[~test]))
            if levels > MOST or (levels == (~test).sum() > 2 and title not in options.keep):
                raise UserError(
                    f"{name}: column {title!r} has {levels:,} different values, and each would be a feature: "
                    f"{_either(title) if levels <= MOST else f'leave it out by &drop={title}'}"
                )
            done = f"words: {levels} indicators"
            decisions.append(ColumnDecision(title, repr(str(text[0])), done, "drop=COLUMN"))
    parts = [scaled(np.column_stack([*numbers.values()]), test)] if numbers else []
    parts += [indicators(pd.DataFrame(words), test)] if words else []
    return np.concatenate(parts, 1), decisions


def indicators(table: pd.DataFrame, test: Array) -> Array:
    """Return an indicator (N, features) float32 of each value that a column of words has among the training rows."""
    from sklearn.preprocessing import OneHotEncoder

    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False, dtype=np.float32)
    encoded_words: Array = encoder.fit(table[~test]).transform(table)
    return encoded_words


def _numbers(column: pd.Series[Any]) -> Array | None:
    """Return the numbers (N,) float64 of a column, NaN where one is absent; None where it holds anything else."""
    kind, present = column.dtype, column.dropna()
    if isinstance(kind, pd.CategoricalDtype) or pd.api.types.is_complex_dtype(kind):
        return None
    if not pd.api.types.is_numeric_dtype(kind) and not all(
        isinstance(value, int | float | np.number | np.bool_) for value in present
    ):
        return None
    return column.to_numpy(np.float64, na_value=np.nan)


def _checked_numbers(name: str, column: str, x: Array, test: Array, keep: bool) -> Array:
    """Return numbers that can be a feature; raises `UserError` for those that number the rows unless they are kept."""
    if np.isinf(x).any():
        raise UserError(f"{name}: column {column!r} holds an infinite number")
    if np.isnan(x[~test]).all():
        raise UserError(
            f"{name}: column {column!r} has no value in the training rows: leave it out by "
            f"&drop={quote(column, safe=' ')}"
        )
    # Where rows are sorted by label, as files often are, their number tells it.
    present = x[~np.isnan(x)]
    levels, steps = np.unique(present), np.sign(np.diff(present))
    whole = bool((present % 1 == 0).all())
    # Row numbers of several tables, one below the other, go up in most rows.
    in_order = abs(steps.mean()) > 0.8 if len(steps) else False
    in_a_row = whole and len(levels) == len(present) == levels[-1] - levels[0] + 1
    if not keep and len(levels) > FEW and (in_order or in_a_row or (whole and _is_id(column))):
        raise UserError(
            f"{name}: column {column!r} seems to number the rows, or to sort them "
            f"({', '.join(f'{v:.10g}' for v in present[:3])}, ...): {_either(column)}"
        )
    return x


def _is_id(column: str) -> bool:
    camel = re.fullmatch(r".*[a-z]I[dD]", column) is not None
    return (
        camel
        or re.fullmatch(r"(.*[\W_])?(id|idx|index|row|uuid|guid)([\W_].*)?", column, re.I)
        is not None
    )


def _as_words(name: str, column: pd.Series[Any], options: Options) -> Array:
    """Return the words (N,) of a column, "" where one is absent; raises `UserError` for those that may be meant as
    something else, unless the column is to be kept as it is.
    """
    title, numbers = str(column.name), _numbers(column)
    categorical = isinstance(column.dtype, pd.CategoricalDtype)
    if numbers is not None:  # a client by its number
        return numbers.astype(str)
    for value in column.dropna():
        if not (categorical or isinstance(value, str)):
            raise UserError(
                f"{name}: column {title!r} holds {type(value).__name__}, neither numbers nor words alone: leave it "
                f"out by &drop={quote(title, safe=' ')}"
            )
    present = list(column.dropna().astype(str).unique())
    words = column.astype(object).where(column.notna(), "").astype(str).to_numpy(str)
    if title in options.keep or categorical:
        return words
    # Fixed-width exports pad words, and people write them in two ways: each would be a value of its own.
    alike: dict[str, str] = {}
    for word in present:
        plain = " ".join(word.split()).casefold().rstrip(".")
        if alike.setdefault(plain, word) != word:
            raise UserError(
                f"{name}: column {title!r} holds {alike[plain]!r} and {word!r}, which differ by blanks, case or a dot "
                f"alone: write them alike, or take them as they are by &keep={quote(title, safe=' ')}"
            )
    # As words, each number of a spreadsheet's "1,234" would be an indicator that no other row has.
    numeric = [word for word in present if NUMBER_LIKE.fullmatch(word.strip())]
    if len(numeric) * 10 > len(present):
        other = next((word for word in present if word not in numeric), None)
        beside = f" beside {other!r}" if other is not None else ""
        raise UserError(
            f"{name}: column {title!r} holds {numeric[0]!r}{beside}, which would be words: say how numbers are written "
            "(&thousands=, or &decimal=,) or what stands for an absent one (&absent=VALUE), mend the column, or "
            f"{_either(title)}"
        )
    return words
