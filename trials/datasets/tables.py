"""Users' tables as data sets: a row is a sample, one column is the target, and the others are features. A column's content
decides how it is encoded, and each decision is reported. Where a guess could change a score, an error asks the user.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import parse_qs, quote, urlencode

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from trials.common import randomness
from trials.common.errors import UserError, unknown
from trials.common.lazy import Lazy
from trials.datasets.base import Array, Dataset, drawn_of_each
from trials.scoring.metrics import CLASSIFICATION, REGRESSION

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = Lazy("pandas")

MOST = 1000  # the most different values of a column of words, since each value becomes a feature
# A target with more different whole numbers may be a quantity, and a feature with more may number the rows.
FEW = 10
EXACT, LARGEST = 2.0**53, 1e150  # above: whole numbers lose digits in float64, and squares overflow
PART = "(part)"  # the column added to two tables: which of them a row comes from
TEST, TRAIN = ("test", "1", "true"), ("train", "0", "false")  # the values of a column of test rows
SEVERAL = ("drop", "keep", "absent")  # the options that take several values
# Words that may be meant as numbers: with signs, units or separators, also dates, times and intervals.
NUMBER_LIKE = re.compile(r"(b')?\W*\d[\d\W_T]*\w{0,3}\W*")
NAMELESS = re.compile(r"Unnamed: [\d.]+(_level_\d+)?|None|nan|\s*|[-+]?\d*[.,]\d+(e[-+]?\d+)?")
INVISIBLE = "[\u00ad\u200b-\u200f\u2060\ufe0e\ufe0f\ufeff]"
BETWEEN = "(?<=[^\\W_])[\\s_\u2010-\u2015\u2212-]+(?=[^\\W_])"  # blanks and dashes inside words
ID = re.compile(r"(.*[\W_])?(?i:id|idx|index|row|uuid)|.*[a-z]I[dD]")


class Options(BaseModel, frozen=True, extra="forbid"):
    """The options behind `?` in a table's name, as in `csv:PATH?target=y&drop=id`: the columns' roles and the file's format.
    `test` is a column, or the share of test rows; the columns `keep` are used without the checks of their content.
    """

    target: str | None = None
    client: str | None = None
    test: Annotated[float, Field(gt=0, lt=1)] | str = Field(0.2, union_mode="left_to_right")
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    rows: Literal["drop"] | None = None
    task: Literal["classification", "regression"] | None = None
    sep: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    absent: tuple[str, ...] = ()

    @classmethod
    def read(cls, query: str) -> Options:
        """Return the options of a query such as `target=y&client=hospital`. Raise a `UserError` that names the first wrong key."""
        options = {
            key: tuple(values) if key in SEVERAL or len(values) > 1 else values[0]
            for key, values in parse_qs(query, keep_blank_values=True).items()
        }
        try:
            return cls.model_validate(options)
        except ValidationError as error:
            fault = error.errors()[0]
            keys = f"keys are {', '.join(cls.model_fields)}"
            raise UserError(f"{fault['loc'][0]}: {fault['msg']}; {keys}") from None

    @property
    def text(self) -> str:
        """Return the options that differ from their defaults, such as `?target=y`; "" if none differ."""
        changed = self.model_dump(exclude_defaults=True)
        spelled = urlencode(changed, doseq=True, safe=" /:.;", quote_via=quote)
        return f"?{spelled}" if changed else ""


NONE = Options()


def ask(column: str, problem: str) -> UserError:
    """Return the error for an ambiguous column. The message names the options that settle the question."""
    spelled = quote(column, safe=" :.")
    ways = f"leave it out by &drop={spelled}, or take it as it is by &keep={spelled}"
    return UserError(f"column {column!r} {problem}: {ways}")


def one_table(parts: Sequence[pd.DataFrame], options: Options) -> tuple[pd.DataFrame, Options]:
    """Return one table and its options. If there is a training and a test table, join them and add a column that marks the test rows."""
    if len(parts) == 1:
        return parts[0], options
    if set(parts[0]) != set(parts[1]) or options.test != NONE.test:
        raise UserError("two tables must have the same columns, and no test=")
    joined = pd.concat(parts, ignore_index=True)
    joined[PART] = np.repeat(["train", "test"], [*map(len, parts)])
    return joined, options.model_copy(update={"test": PART})


def encoded(table: pd.DataFrame, options: Options, seed: int) -> Dataset:
    """Return a table's rows as samples. Numbers and real targets are standardised by the training rows, and an absent number
    becomes the mean. Each word in a column's training rows becomes an indicator; an absent word counts as a word.
    """
    table = table.rename(columns=str)
    by_role = _named_columns(table, options)
    decisions = []
    # A feature may be absent. A target, a client or a test mark may not.
    named = table[list(by_role.values())]
    absent = (named.isna() | (named.astype(str).replace(r"\s+", "", regex=True) == "")).any(axis=1)
    if absent.any():
        columns, rows = ", ".join(by_role.values()), f"{absent.sum()} of {len(table)} rows"
        if options.rows is None:
            ways = "leave these out by &rows=drop, or mend them"
            raise UserError(f"{columns}: no value in {rows}: {ways}")
        decisions.append((columns, "absent", f"{rows} left out", "rows=drop"))
        table = table[~absent]
    if not len(table):
        raise UserError("it has no rows")
    client = None
    if options.client is not None:
        _, client = np.unique(_words(table[options.client], options), return_inverse=True)
    target = table[options.target]
    y, classes = _target(target, options)
    # A share of each group is test, so that small clients and rare labels are tested too.
    group = client if client is not None else y if classes > 1 else np.zeros(len(y), int)
    test = _test(table, options, seed, group)
    x, encodings = _features(table.drop(columns=[*by_role.values(), *options.drop]), test, options)
    task, done, option = CLASSIFICATION, f"{classes} labels", "task=regression"
    if classes == 1:
        done = f"standardised: mean {y[~test].mean():.6g}, deviation {y[~test].std():.6g}"
        task, option = REGRESSION, "task=classification"
        y = scaled(y[:, None], test)[:, 0]
    decisions += [(str(target.name), f"{target.iloc[0]}", done, option), *encodings]
    # Users read what was done and which option changes it; columns that were encoded alike share a row.
    summary = pd.DataFrame(decisions, columns=["column", "value", "what was done", "option"])
    alike = summary.groupby(["what was done", "option"], sort=False, as_index=False)
    summary = alike.agg({"column": ", ".join, "value": "first"})[[*summary]]
    summary["column"] = summary["column"].map(partial(shorten, width=60, placeholder=" ..."))
    note = f"how its columns were taken:\n{summary.to_string(index=False)}"
    return Dataset(x, y, test, classes, client, task, note)


def _named_columns(table: pd.DataFrame, options: Options) -> dict[str, str]:
    """Return the names of the target, client and test columns, by role. Raise `UserError` for missing or wrong names."""
    if options.target is None:
        raise UserError("a table needs the column to predict: target=COLUMN")
    columns = {"target": options.target, "client": options.client, "test": options.test}
    by_role = {key: column for key, column in columns.items() if isinstance(column, str)}
    if len(set(by_role.values())) < len(by_role):
        raise UserError(f"{', '.join(by_role)}: a column can have only one of these roles")
    listed = [(key, column) for key in ("drop", "keep") for column in getattr(options, key)]
    for key, column in [*by_role.items(), *listed]:
        if column not in table:
            raise UserError(f"{key}: {unknown('column', column, map(str, table))}")
    if table.columns.nlevels > 1 or table.columns.has_duplicates:
        raise UserError("its columns must have one name each, all different")
    for column in map(str, table):
        if NAMELESS.fullmatch(column) and column not in (*options.drop, *options.keep):
            raise ask(column, "has no name, as to_csv's row numbers, or is a first row's value")
    return by_role


def _target(column: pd.Series[Any], options: Options) -> tuple[Array, int]:
    """Return labels (N,) and the number of classes. For a regression, return real targets (N,) and 1."""
    exact, where = options.task != "regression", f"target: column {str(column.name)!r}"
    numbers = _numbers(column, exact)
    if options.task == "regression":
        if numbers is None or not (np.abs(numbers) < LARGEST).all() or not np.ptp(numbers):
            raise UserError(f"{where} must hold finite numbers, not all equal, for task=regression")
        return numbers, 1
    if numbers is not None and (np.isinf(numbers) | (numbers != np.trunc(numbers))).any():
        raise UserError(f"{where} holds numbers that are not whole: add &task=regression")
    values = _words(column, options) if numbers is None else numbers.astype(np.int64)
    labels, y = np.unique(values, return_inverse=True)
    number_like = [numbers is not None or bool(NUMBER_LIKE.fullmatch(label)) for label in labels]
    if 1 < sum(number_like) < len(number_like) and column.name not in options.keep:
        raise ask(str(column.name), "holds both numbers and words, as with a row of totals")
    # Ten digits are labels. Seventy ages may be targets of a regression, and rarely repeated names may be no labels.
    if options.task is None and len(labels) > (FEW if any(number_like) else max(2, len(y) // 2)):
        problem = f"{where} holds {len(labels)} different values, as {labels[0]} and {labels[1]}"
        raise UserError(f"{problem}: add &task=regression or &task=classification")
    if len(labels) < 2:
        raise UserError(f"{where} holds one value only, {labels[0]!s}: two labels at least")
    return y, len(labels)


def _test(table: pd.DataFrame, options: Options, seed: int, group: Array) -> Array:
    """Return the mask (N,) of test rows. A column of the table marks them, or they are a random share of each `group`."""
    if isinstance(options.test, str):
        parts = table[options.test].astype(str).str.strip().str.lower().str.removesuffix(".0")
        if not parts.isin(TEST + TRAIN).all():
            rule = "must hold train and test, 0 and 1, or false and true"
            raise UserError(f"test: column {options.test!r} {rule}")
        test = parts.isin(TEST).to_numpy(bool)
    else:
        share, rng = options.test, randomness.generator("table_test", seed)
        test = drawn_of_each(group, rng, lambda sizes: np.round(share * sizes))
    if test.all() or not test.any():
        raise UserError(f"test: {int(test.sum())} of {len(test)} rows are test")
    return test


def _features(
    table: pd.DataFrame, test: Array, options: Options
) -> tuple[Array, list[tuple[str, str, str, str]]]:
    """Return features (N, p) and a report on each column. A report holds name, first value, encoding, and the option to leave the column out."""
    if table.columns.empty:
        raise UserError("it has no column of features")
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
            problem = _word_problem(text[~test], isinstance(values.dtype, pd.CategoricalDtype))
            done = f"words: {len(np.unique(text[~test]))} indicators"
        if problem and title not in options.keep:
            raise ask(title, problem)
        decisions.append((title, f"{values.dropna().iloc[0]}", done, "drop=COLUMN"))
    parts = [scaled(np.column_stack(numbers), test)] if numbers else []
    parts += [indicators(pd.DataFrame(words), test)] if words else []
    return np.concatenate(parts, 1), decisions


def _number_problem(column: str, x: Array, test: Array) -> str:
    """Return why a column's numbers `x` (N,) may be a bad feature, such as row numbers, or "" if they look good."""
    if (np.abs(x) > LARGEST).any() or np.isnan(x[~test]).all():
        return "holds an infinite number, or none in the training rows"
    x = x[~np.isnan(x)]
    levels, whole = len(np.unique(x)), bool((x % 1 == 0).all())
    # The row numbers of several concatenated tables increase in most rows, not in all.
    steps = np.diff(x)
    in_order = levels > 1 and abs(np.sign(steps[steps != 0]).mean()) > 0.8
    consecutive = levels == len(x) == np.ptp(x) + 1
    if levels > FEW and (in_order or (whole and (consecutive or ID.fullmatch(column)))):
        return "seems to number the rows, or to sort them"
    # A German spreadsheet writes 567 but 1.234 for 1,234: whole numbers beside ones with three decimals.
    fractions = np.abs(x[x % 1 != 0])
    thousandths = np.round(1000 * fractions)
    some = 0 < len(fractions) < 0.95 * len(x) and fractions.min() > 1
    three_decimals = np.allclose(thousandths / 1000, fractions, rtol=0, atol=1e-9)
    if some and (thousandths % 10 > 0).mean() > 0.8 and three_decimals:
        meant = f"{fractions[0]:g}, which may be {thousandths[0]:,.0f} (&thousands=.&decimal=,)"
        return f"holds whole numbers beside {meant}"
    return ""


def _word_problem(text: Array, categorical: bool) -> str:
    """Return why the words in `text` (n,) may make a bad feature, or "" if they are fine. A number such as "1,234" is fine only if `categorical`."""
    levels = np.unique(text)
    # A number such as "1,234" that is read as a word would get an indicator that no other row has.
    number = next(filter(NUMBER_LIKE.fullmatch, levels), None)
    if number is not None and not categorical:  # a pandas category is meant as words
        ways = "(&thousands=, &decimal= and &absent= say how numbers are written)"
        return f"holds {str(number)!r}, which would be a word {ways}"
    if len(levels) > min(MOST, max(FEW, len(text) // 2)):
        return f"has {len(levels):,} different values, and each would be a feature"
    return ""


def _numbers(column: pd.Series[Any], exact: bool = False) -> Array | None:
    """Return a column's numbers (N,), float64, with NaN for absent ones. Return None if the column also holds other values.
    If `exact`, as for labels and clients, raise `UserError` for numbers so large that float64 rounds them.
    """
    kinds = ("integer", "floating", "mixed-integer-float", "boolean", "decimal", "empty")
    if pd.api.types.infer_dtype(column, skipna=True) not in kinds:
        return None
    numbers = column.to_numpy(np.float64, na_value=np.nan)
    if exact and (np.isfinite(numbers) & (np.abs(numbers) >= EXACT)).any():
        raise UserError(f"column {str(column.name)!r} holds whole numbers above 2^53")
    return numbers


def _words(column: pd.Series[Any], options: Options) -> Array:
    """Return a column as texts (N,), with "" for an absent word. Raise `UserError` for values other than words and numbers. Raise
    it for words that differ only in case, blanks or punctuation, except in a pandas category or a column in `options.keep`.
    """
    title, kind = str(column.name), pd.api.types.infer_dtype(column, skipna=True)
    if (clients := _numbers(column, exact=True)) is not None:
        return clients.astype(str)
    if kind not in ("string", "categorical"):
        raise UserError(f"column {title!r} holds neither numbers nor words: &drop={quote(title)}")
    words = column.astype(object).where(column.notna(), "").astype(str).to_numpy(str)
    if title in options.keep or kind == "categorical":
        return words
    # Exports pad words, and people spell a word in two ways; each spelling would become a value.
    levels = pd.Series(np.unique(words))
    plain = levels.str.normalize("NFKC").str.casefold().str.replace(INVISIBLE, "", regex=True)
    plain = plain.str.replace(BETWEEN, " ", regex=True).str.strip(" .,;:!\"'\t")
    plain = plain.str.replace("\u2019", "'")
    numbers = pd.to_numeric(plain, errors="coerce")
    plain = numbers.astype(str).where(numbers.notna(), plain)
    if (twins := levels[plain.duplicated(keep=False)]).size:
        shown = ", ".join(map(repr, twins[:3]))
        raise ask(title, f"holds {shown}, which differ by blanks, case or signs alone")
    return words


def scaled(x: Array, test: Array) -> Array:
    """Return features (N, p), float32, standardised by their mean and deviation over the training samples. NaN, an absent value,
    becomes the mean. A feature that is constant over the training samples is only centred.
    """
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x = x.astype(np.float64)
    absent = SimpleImputer(strategy="mean", keep_empty_features=False)
    scaler = make_pipeline(absent, StandardScaler(with_mean=True, with_std=True))
    # A program may have set scikit-learn to return tables (`sklearn.set_config`).
    return np.asarray(scaler.fit(x[~test]).transform(x), np.float32)


def indicators(table: pd.DataFrame, test: Array) -> Array:
    """Return one-hot indicators (N, features), float32, of columns of words. Each word in a column's training rows is a feature."""
    from sklearn.preprocessing import OneHotEncoder

    encoder = OneHotEncoder(handle_unknown="ignore", sparse_output=False, dtype=np.float32)
    return np.asarray(encoder.fit(table[~test]).transform(table))
