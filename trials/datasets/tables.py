"""A person's tables: a row is a sample, a column its target, the others its features. What a column holds decides what
becomes of it, and each decision is told; where a guess could change a score, the person is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, fields
from textwrap import shorten
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

import numpy as np

from trials.common import randomness
from trials.common.errors import UserError, unknown
from trials.common.lazy import Lazy
from trials.datasets.base import Dataset, drawn_of_each, scaled
from trials.datasets.published import Array
from trials.scoring.metrics import CLASSIFICATION, REGRESSION

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = Lazy("pandas")

MOST = 1000
"""Different values of a column of words, at most: each is a feature."""
FEW = 10
"""A target of more different whole numbers may be meant as a number, and a feature of more as the number of its row."""
PART = "(part)"
"""The column that says which rows are test where training and test rows are two tables."""
TEST = {"test": True, "train": False, "1": True, "0": False, "true": True, "false": False}
"""What a column that says which rows are test may hold, in lower case."""
ALLOWED = {"task": ("classification", "regression"), "rows": ("drop",)}
SEVERAL = ("drop", "keep", "absent")
NUMBER_LIKE = re.compile(r"\W*\d[\d\W_T]*\w{0,3}\W*")
"""Numbers with signs, units or separators, dates, times and intervals: words that pandas made no number of."""
NAMELESS = re.compile(r"Unnamed: [\d.]+(_level_\d+)?|\s*")
ID = re.compile(r"(.*[\W_])?(?i:id|idx|index|row|uuid)|.*[a-z]I[dD]")


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

    def __post_init__(self) -> None:
        for key, allowed in ALLOWED.items():
            value = getattr(self, key)
            if value not in (None, *allowed):
                raise UserError(f"{key} is {value!r}, but must be {' or '.join(allowed)}")
        if isinstance(self.test, float) and not 0 < self.test < 1:
            raise UserError(f"test is {self.test:g}, but must be a column, or in (0, 1)")

    @classmethod
    def read(cls, what: str, query: str) -> Options:
        """Return the options of `target=y&client=hospital`; raises `UserError` naming the key that is wrong."""
        options: dict[str, Any] = {}
        keys = [field.name for field in fields(cls)]
        for key, value in parse_qsl(query, keep_blank_values=True):
            if key not in keys:
                raise UserError(f"{what}: {unknown('key', key, keys)}")
            if key in options and key not in SEVERAL:
                raise UserError(f"{what}: {key} is given twice")
            options[key] = (*options.get(key, ()), value) if key in SEVERAL else value
        with suppress(ValueError):  # else it is a column
            options["test"] = float(options.get("test", cls.test))
        try:
            return cls(**options)
        except UserError as error:
            raise UserError(f"{what}: {error}") from None

    @property
    def text(self) -> str:
        """The canonical spelling of what is not the default, with its question mark."""
        changed = {
            key: value for key, value in vars(self).items() if value != getattr(Options, key)
        }
        spelled = urlencode(changed, doseq=True, safe=" /:.;", quote_via=quote)
        return f"?{spelled}" if changed else ""


class ColumnDecision(NamedTuple):
    """What was made of a column: the value that decided, what was done and the option that changes it."""

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
        columns = shorten(", ".join(d.column for d in group), 60, placeholder=" ...")
        rows.append(group[0]._replace(column=columns))
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(("how its columns were taken:", *lines))


def ask(column: str, problem: str) -> UserError:
    """Return the error for a column that may be meant in several ways, with what settles it."""
    spelled = quote(column, safe=" :.")
    ways = f"leave it out by &drop={spelled}, or take it as it is by &keep={spelled}"
    return UserError(f"column {column!r} {problem}: {ways}")


def encoded(table: pd.DataFrame, options: Options, seed: int) -> Dataset:
    """Return the rows as samples. Numbers are standardised by the training rows, and an absent one is their mean; a
    column of words is an indicator of each value among the training rows, of which an absent one is another. Targets
    of a regression are standardised too. Raises `UserError` naming the column that does not fit.
    """
    table = table.rename(columns=str)
    special = _named_columns(table, options)
    # Features may be absent; what a row is for may not.
    absent = table[list(special.values())].isna().any(axis=1)
    decisions = []
    if absent.any():
        named, rows = ", ".join(special.values()), f"{absent.sum()} of {len(table)} rows"
        if options.rows != "drop":
            raise UserError(
                f"{named}: no value in {rows}: leave these out by &rows=drop, or mend them"
            )
        decisions.append(ColumnDecision(named, "absent", f"{rows} left out", "rows=drop"))
    table = table[~absent]
    if not len(table):
        raise UserError("it has no rows")
    client = None
    if options.client is not None:
        _, client = np.unique(_words(table[options.client], options), return_inverse=True)
    target = table[options.target]
    y, classes = _target(target, options)
    group = client if client is not None else y if classes > 1 else np.zeros(len(y), int)
    test = _test(table, options, seed, group)
    features = table.drop(columns=list({*special.values(), *options.drop}))
    if not features.shape[1]:
        raise UserError("it has no column of features")
    x, taken = _features(features, test, options)
    task, done, option = CLASSIFICATION, f"{classes} labels", "task=regression"
    if classes == 1:
        done = f"standardised: mean {y[~test].mean():.6g}, deviation {y[~test].std():.6g}"
        task, option = REGRESSION, "task=classification"
        y = scaled(y[:, None], test)[:, 0]
    decisions.append(ColumnDecision(str(target.name), f"{target.iloc[0]}", done, option))
    return Dataset(x, y, test, classes, client, task, told([*decisions, *taken]))


def _named_columns(table: pd.DataFrame, options: Options) -> dict[str, str]:
    """Return the columns that are no features by what they are for; raises `UserError` for names that do not fit."""
    if options.target is None:
        raise UserError("a table needs the column to predict: target=COLUMN")
    special = {"target": options.target}
    special |= {"client": options.client} if options.client is not None else {}
    special |= {"test": options.test} if isinstance(options.test, str) else {}
    listed = [(key, column) for key in ("drop", "keep") for column in getattr(options, key)]
    for key, column in [*special.items(), *listed]:
        if column not in table:
            raise UserError(f"{key}: {unknown('column', column, map(str, table))}")
    if len(set(special.values())) < len(special):
        raise UserError(f"one column cannot be two of {', '.join(special)}")
    if table.columns.nlevels > 1 or table.columns.has_duplicates:
        raise UserError("its columns must have one name each, all different")
    for column in map(str, table):
        if NAMELESS.fullmatch(column) and column not in (*options.drop, *options.keep):
            raise ask(column, "has no name, as row numbers that pandas' to_csv writes")
    return special


def _target(column: pd.Series[Any], options: Options) -> tuple[Array, int]:
    """Return labels and how many there are, or numbers and 1."""
    numbers, where = _numbers(column), f"target: column {str(column.name)!r}"
    if options.task == "regression":
        if numbers is None or not np.isfinite(numbers).all():
            raise UserError(f"{where} must hold finite numbers for task=regression")
        return numbers, 1
    if numbers is not None and (numbers % 1 != 0).any():
        raise UserError(f"{where} holds numbers that are no labels: add &task=regression")
    values = _words(column, options) if numbers is None else numbers.astype(np.int64)
    labels, y = np.unique(values, return_inverse=True)
    # Ten digits are labels; seventy ages, or a name in nearly each row, may be something else.
    counted = numbers is not None or any(map(NUMBER_LIKE.fullmatch, labels))
    if options.task is None and len(labels) > (FEW if counted else max(2, len(y) // 2)):
        problem = f"{where} holds {len(labels)} different values, as {labels[0]} and {labels[1]}"
        raise UserError(f"{problem}: say &task=regression, or &task=classification")
    if len(labels) < 2:
        raise UserError(f"{where} holds one value only, {labels[0]!s}: two labels at least")
    return y, len(labels)


def _test(table: pd.DataFrame, options: Options, seed: int, group: Array) -> Array:
    """Return which rows are test, (N,): those that a column says, or a share of each group, drawn."""
    if isinstance(options.test, str):
        parts = table[options.test].astype(str).str.strip().str.lower().str.removesuffix(".0")
        if not set(parts) <= set(TEST):
            rule = "must hold train and test, 0 and 1, or false and true"
            raise UserError(f"test: column {options.test!r} {rule}")
        test = parts.map(TEST).to_numpy(bool)
    else:
        # A share of each group, so that small clients and rare labels are tested too.
        share, rng = options.test, randomness.generator("table_test", seed)
        test = drawn_of_each(group, rng, lambda sizes: np.round(share * sizes))
    if test.all() or not test.any():
        raise UserError(f"test: {int(test.sum())} of {len(test)} rows are test")
    return test


def _features(
    table: pd.DataFrame, test: Array, options: Options
) -> tuple[Array, list[ColumnDecision]]:
    """Return x (N, features), numbers before indicators, and how it was made."""
    decisions, numbers, words = [], [], {}
    for column, values in table.items():
        title, x = str(column), _numbers(values)
        if x is not None:
            problem = _number_problem(title, x, test)
            numbers.append(x)
            absent = int(np.isnan(x).sum())
            done = f"number, standardised{f'; {absent} absent: the mean' if absent else ''}"
        else:
            text = words[title] = _words(values, options)
            problem = _word_problem(text, test, isinstance(values.dtype, pd.CategoricalDtype))
            done = f"words: {len(np.unique(text[~test]))} indicators"
        if problem and (title not in options.keep or problem in NEVER):
            raise ask(title, problem)
        decisions.append(ColumnDecision(title, f"{values.dropna().iloc[0]}", done, "drop=COLUMN"))
    parts = [scaled(np.column_stack(numbers), test)] if numbers else []
    parts += [indicators(pd.DataFrame(words), test)] if words else []
    return np.concatenate(parts, 1), decisions


NEVER = ("holds an infinite number", "has no value in the training rows")


def _number_problem(column: str, x: Array, test: Array) -> str:
    """Return why numbers may be no feature, "" where they are one. Where rows are sorted by label, as files often are,
    the number of a row tells it.
    """
    if np.isinf(x).any():
        return NEVER[0]
    if np.isnan(x[~test]).all():
        return NEVER[1]
    present = x[~np.isnan(x)]
    levels, whole = len(np.unique(present)), bool((present % 1 == 0).all())
    # Row numbers of several tables, one below the other, go up in most rows.
    in_order = levels > 1 and abs(np.sign(np.diff(present)).mean()) > 0.8
    in_a_row = levels == len(present) == np.ptp(present) + 1
    if levels > FEW and (in_order or (whole and (in_a_row or ID.fullmatch(column)))):
        return "seems to number the rows, or to sort them"
    return ""


def _word_problem(text: Array, test: Array, categorical: bool) -> str:
    """Return why words may be no feature, "" where they are one."""
    levels = np.unique(text[~test])
    # As words, each number of a spreadsheet's "1,234" would be an indicator that no other row has.
    like = next(filter(NUMBER_LIKE.fullmatch, levels), None)
    if like is not None and not categorical:
        other = next((word for word in levels if word and not NUMBER_LIKE.fullmatch(word)), "")
        beside = f" beside {str(other)!r}" if other else ""
        options = "(&thousands=, &decimal= and &absent= say how numbers are written)"
        return f"holds {str(like)!r}{beside}, which would be words {options}"
    if len(levels) > min(MOST, max(FEW, (~test).sum() // 2)):
        return f"has {len(levels):,} different values, and each would be a feature"
    return ""


def indicators(table: pd.DataFrame, test: Array) -> Array:
    """Return an indicator (N, features) float32 of each value that a column of words has among the training rows."""
    from sklearn.preprocessing import OneHotEncoder

    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False, dtype=np.float32)
    encoded_words: Array = encoder.fit(table[~test]).transform(table)
    return encoded_words


def _numbers(column: pd.Series[Any]) -> Array | None:
    """Return the numbers (N,) float64 of a column, NaN where one is absent; None where it holds anything else."""
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype) or pd.api.types.is_complex_dtype(kind):
        return None
    if not pd.api.types.is_numeric_dtype(kind) and not all(
        isinstance(value, int | float | np.number | np.bool_) for value in column.dropna()
    ):
        return None
    return column.to_numpy(np.float64, na_value=np.nan)


def _words(column: pd.Series[Any], options: Options) -> Array:
    """Return the words (N,) of a column, "" where one is absent; raises `UserError` for values that are none, and for
    those that differ by how they are written alone, unless the column is to be kept as it is.
    """
    title, numbers = str(column.name), _numbers(column)
    if numbers is not None:  # a client by its number
        return numbers.astype(str)
    categorical = isinstance(column.dtype, pd.CategoricalDtype)
    if not categorical and not all(isinstance(value, str) for value in column.dropna()):
        raise UserError(f"column {title!r} holds neither numbers nor words: &drop={quote(title)}")
    words = column.astype(object).where(column.notna(), "").astype(str).to_numpy(str)
    if title in options.keep or categorical:
        return words
    # Fixed-width exports pad words, and people write them in two ways: each would be a value of its own.
    levels = pd.Series(np.unique(words))
    plain = levels.str.split().str.join(" ").str.casefold().str.rstrip(".")
    if (twins := levels[plain.duplicated(keep=False)]).size:
        shown = ", ".join(repr(word) for word in twins[:3])
        raise ask(title, f"holds {shown}, which differ by blanks, case or a dot alone")
    return words
