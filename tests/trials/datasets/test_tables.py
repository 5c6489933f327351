"""A person's tables: what their columns become, by hand, what is told, and what is asked rather than guessed."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from trials import datasets
from trials.common.errors import UserError
from trials.datasets.base import Dataset
from trials.datasets.own import dataset_of, given
from trials.datasets.tables import Options

ROWS = """age,city,sick,hospital,part,score
10,Oslo,no,a,train,1.5
20,Bergen,yes,b,train,2.5
,Oslo,no,a,train,3.5
30,?,yes,b,train,4.5
20,Paris,no,b,test,3.0
50,,yes,a,test,5.0
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "patients.csv"
    path.write_text(ROWS)
    return path


def load(text: str, seed: int = 0) -> Dataset:
    return datasets.parse(text).load(seed, None, None)


def test_columns_become_features_by_hand(table: Path) -> None:
    """Training ages 10, 20, 30 have mean 20 and deviation sqrt(200 / 4), the absent one being the mean. Cities of
    training rows are none, Bergen and Oslo; Paris is none of them.
    """
    pd.read_csv(table, na_values=["?"]).to_parquet(table.with_suffix(".parquet"))
    query = "target=sick&client=hospital&test=part&drop=score"
    made = load(f"csv:{table}?{query}")
    parquet = load(f"parquet:{table.with_suffix('.parquet')}?{query}")
    np.testing.assert_array_equal(made.x, parquet.x)
    s = np.sqrt(200 / 4)
    age = [-10 / s, 0, 0, 10 / s, 0, 30 / s]
    city = [[0, 0, 1], [0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 0, 0], [1, 0, 0]]
    np.testing.assert_allclose(made.x, np.column_stack([age, city]), atol=1e-6)
    assert made.x.dtype == np.float32
    assert made.y.tolist() == [0, 1, 0, 1, 0, 1]
    assert made.client.tolist() == [0, 1, 0, 1, 1, 0]
    assert made.test.tolist() == [False] * 4 + [True] * 2


def test_each_decision_is_told_in_one_table(table: Path) -> None:
    note = load(f"csv:{table}?target=sick&client=hospital&test=part&drop=score").note
    rows = [line.split() for line in note.splitlines()[1:]]
    assert [row[0] for row in rows] == ["column", "sick", "age", "city"]
    for told in ("value", "1 absent: the mean", "words: 3 indicators", "drop=COLUMN"):
        assert told in note


def test_a_regression_has_standardised_targets(table: Path) -> None:
    made = load(f"csv:{table}?target=score&test=part&task=regression&drop=sick&drop=hospital")
    assert (made.classes, made.task.metric) == (1, "mse")
    centred = np.array([-1.5, -0.5, 0.5, 1.5, 0, 2])
    np.testing.assert_allclose(made.y, centred / np.sqrt(1.25), atol=1e-6)
    assert "mean 3, deviation 1.11803" in made.note


def test_a_share_of_each_client_or_label_is_test(tmp_path: Path) -> None:
    rows = [f"{i % 7},{'ab'[i % 4 == 0]},{i % 2}" for i in range(80)]
    (tmp_path / "t.csv").write_text("\n".join(["x,who,y", *rows]))
    made = load(f"csv:{tmp_path}/t.csv?target=y&client=who&test=0.25")
    assert [int(made.test[made.client == k].sum()) for k in (0, 1)] == [15, 5]
    by_label, again = (load(f"csv:{tmp_path}/t.csv?target=y&drop=who", seed) for seed in (0, 1))
    assert [int(by_label.test[by_label.y == k].sum()) for k in (0, 1)] == [8, 8]
    assert (again.test != by_label.test).any()


def test_a_name_has_one_spelling(table: Path) -> None:
    text = f"csv:{table}?test=0.2&client=hospital&absent=-&target=a%2Cb%26c&drop=b&drop=a&sep=;"
    spelled = f"csv:{table}?target=a%2Cb%26c&client=hospital&drop=b&drop=a&sep=;&absent=-"
    assert datasets.canonical(text) == datasets.canonical(spelled) == spelled
    assert datasets.parse(spelled).options.target == "a,b&c"


# Files as programs write them

N = 60
ABSENT = "|?|#N/A N/A|#N/A|#NA|N/A|n/a|NA|<NA>|NaN|-NaN|nan|-nan|NULL|null|None|1.#IND|-1.#IND|1.#QNAN|-1.#QNAN"
"""Words that mean a missing number: those of pandas, whose list grew."""


def written(**more: object) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    usual = {"a": rng.normal(size=N).round(3), "b": rng.integers(0, 5, N), "y": np.arange(N) % 2}
    return pd.DataFrame({**usual, **more})


FILES = {
    "row numbers without a name": (written().to_csv(), "'Unnamed: 0'.*&drop=Unnamed: 0"),
    "semicolons": (written().to_csv(index=False, sep=";"), "&sep="),
    "a value too many": ("a,b,y\n1,2,0,9\n2,3,1,9\n", "reading it raised"),
    "a name twice": ("a,a,y\n1,2,0\n3,4,1\n", "two columns have the name 'a'"),
    "no line of names": ("5.1,3.5,y\n1,2,0\n3,4,1\n", "'5.1' has no name.*&keep="),
    "one label": ("x,y\n1,a\n2,a\n", "holds one value only, a: two labels at least"),
    "no features": ("y,z\na,1\nb,2\na,3\nb,4\n", "no column of features"),
    "no value": ("x,y\n,a\n,b\n,a\n,b\n", "infinite number, or none in the training rows: .*&drop=x"),
    "names of rows": ("x,y\n" + "".join(f"w{i},{i % 2}\n" for i in range(3000)), "different values"),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_files_are_refused_with_what_mends_them(tmp_path: Path, case: str) -> None:
    content, says = FILES[case]
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(UserError, match=says):
        load(f"csv:{tmp_path}/t.csv?target=y&test=0.4{'&drop=z' * ('features' in case)}")


@pytest.mark.parametrize(
    ("writing", "options"),
    [
        *(({"index": False, "na_rep": word}, "") for word in ABSENT.split("|")),
        ({}, "drop=Unnamed: 0"),
        ({"index": False, "sep": ";", "decimal": ","}, "sep=;&decimal=,"),
        ({"index": False, "sep": "\t", "na_rep": "-"}, "sep=tab&absent=-"),
        ({"index": False, "encoding": "utf-8-sig"}, ""),
    ],
)
def test_the_options_that_messages_name_read_them(
    tmp_path: Path, writing: dict, options: str
) -> None:
    frame = written()
    frame.loc[3, "a"] = np.nan
    frame.to_csv(tmp_path / "t.csv", **writing)
    expected = dataset_of(frame, Options(target="y"), 0)
    np.testing.assert_allclose(load(f"csv:{tmp_path}/t.csv?target=y&{options}").x, expected.x)


def test_what_says_how_a_csv_file_is_written_is_for_no_other() -> None:
    for option in ("sep=;", "decimal=,", "thousands=.", "absent=-9"):
        with pytest.raises(UserError, match="csv files alone"):
            datasets.parse(f"parquet:t.parquet?target=y&{option}")


def test_test_samples_that_are_training_samples_are_counted() -> None:
    frame = written()
    arrays = {"x_train": frame[["a", "b"]][:50], "x_test": frame[["a", "b"]][40:]}
    arrays |= {"y_train": frame["y"][:50], "y_test": frame["y"][40:]}
    assert "10 of 20 test samples have the features" in dataset_of(arrays, Options(), 0).note
    for table, counted in ((frame, False), (pd.concat([frame] * 3), True)):
        assert ("have the features" in dataset_of(table, Options(target="y"), 0).note) == counted
    kept = datasets.parse(given(arrays, {}))
    arrays["x_train"] *= 0
    loaded = kept.load(0, None, None)
    assert loaded.x[:50].any()
    assert loaded.note.count("have the features") == 1


# Where a guess could change a score, it is asked

rng = np.random.default_rng(1)
numbers = rng.integers(1000, 99_999, N)
FEATURES = {
    "id": (rng.permutation(N), "seems to number the rows"),
    "customer_id": (rng.integers(0, 30, N), "seems to number the rows"),
    "time": (np.arange(N)[::-1] / 10, "seems to number the rows"),
    "stamp": (1.6e9 + np.cumsum(rng.exponential(60, N)), "or to sort them"),
    "household": (np.repeat(np.arange(N // 2), 2), "or to sort them"),
    "name": ([f"n{i}" for i in range(N)], "different values, and each would be a feature"),
    "income": ([f"{n:,}" for n in numbers], "&thousands="),
    "share": ([f"{n % 100} %" for n in numbers], "would be a word"),
    "minus": ([f"\u2212{n % 90}" for n in numbers], "would be a word"),
    "below": ([f"<{n % 9}" if n % 7 else "12" for n in numbers], "would be a word"),
    "bytes": ([str(f"{n % 9}".encode()) for n in numbers], "would be a word"),
    "amount": ([n / 1000 if n >= 50_000 else n // 100 for n in numbers], "&thousands=."),
    "size": ([str(n) if n % 3 else "unknown" for n in numbers], "&absent="),
    "town": (["Oslo", "oslo "] * (N // 2), "differ by blanks, case or signs"),
}


@pytest.mark.parametrize("name", FEATURES)
def test_a_column_that_may_be_meant_otherwise_is_refused_unless_it_is_kept(name: str) -> None:
    values, says = FEATURES[name]
    frame = written(**{name: values})
    with pytest.raises(UserError, match=f"column {name!r} .*{says}.*&keep={name}"):
        dataset_of(frame, Options(target="y"), 0)
    assert dataset_of(frame, Options(target="y", keep=(name,)), 0).x.shape[1] >= 3
    assert dataset_of(frame, Options(target="y", drop=(name,)), 0).x.shape == (N, 2)


ALIKE = "yes,yes |Yes,yes|a.,a|new york,new  york|new_york,new york|new-york,new york|don't,don\u2019t|1,1.0|01,1"
ALIKE += '|Ko\u0308ln,K\u00f6ln|yes,yes\u200b|\ufeffyes,yes|yes,"yes"|ABC,\uff21\uff22\uff23|yes,yes\u00a0'


@pytest.mark.parametrize("pair", ALIKE.split("|"))
def test_words_that_differ_by_how_they_are_written_are_no_labels_and_no_owners(pair: str) -> None:
    words = [*pair.split(","), "other"] * (N // 3)
    for frame, options in (
        (written(y=words), {"target": "y"}),
        (written(h=words), {"target": "y", "client": "h"}),
    ):
        with pytest.raises(UserError, match="which differ by"):
            dataset_of(frame, Options(**options), 0)
    assert dataset_of(written(y=words), Options(target="y", keep=("y",)), 0).classes == 3


@pytest.mark.parametrize("words", ["<=50K,>50K", "A+,A-", "O,0", "cat,cats", "A1,A2"])
def test_other_words_are_labels(words: str) -> None:
    made = dataset_of(written(y=words.split(",") * (N // 2)), Options(target="y"), 0)
    assert made.classes == 2


TARGETS = {
    "ages": (rng.integers(18, 91, N), "different values.*task=regression"),
    "infinity": (np.where(np.arange(N) % 9, 1.0, np.inf), "add &task=regression"),
    "names": ([f"n{i}" for i in range(N)], "60 different values"),
    "amounts": ([f"{n % 20},000" for n in numbers], "different values.*task=regression"),
    "absent": ([None, 1, 0] * (N // 3), "no value in 20 of 60 rows"),
    "one": (np.ones(N), "holds one value only"),
    "a total": (["0", "1", "Total"] * (N // 3), "both numbers and words"),
    "lost digits": ([2**53, 2**53 + 1] * (N // 2), "above 2"),
}  # fmt: skip


@pytest.mark.parametrize("case", TARGETS)
def test_targets_that_may_be_meant_otherwise_are_refused(case: str) -> None:
    values, says = TARGETS[case]
    with pytest.raises(UserError, match=says):
        dataset_of(written(y=values), Options(target="y"), 0)


@pytest.mark.parametrize("absent", [None, " ", np.nan])
def test_rows_without_an_owner_are_left_out_where_that_is_asked_for(absent: object) -> None:
    frame = written(who=pd.Series([absent if i % 10 == 0 else "ab"[i % 2] for i in range(N)]))
    with pytest.raises(UserError, match=r"no value in 6 of 60 rows.*&rows=drop"):
        dataset_of(frame, Options(target="y", client="who"), 0)
    made = dataset_of(frame, Options(target="y", client="who", rows="drop"), 0)
    assert (len(made.y), len(set(made.client.tolist()))) == (54, 2)
    assert "6 of 60 rows left out" in made.note


# Types


@pytest.mark.parametrize("backend", ["pyarrow", "numpy_nullable"])
def test_columns_of_other_types_are_the_same_columns(tmp_path: Path, backend: str) -> None:
    frame = written(z=["u", "v", None] * 20, f=[True, False, None] * 20, y=["p", "q"] * 30)
    frame.to_csv(tmp_path / "t.csv", index=False)
    plain = load(f"csv:{tmp_path}/t.csv?target=y")
    other = pd.read_csv(tmp_path / "t.csv", dtype_backend=backend)
    made = dataset_of(other, Options(target="y"), 0)
    for name in ("x", "y", "test"):
        np.testing.assert_array_equal(getattr(made, name), getattr(plain, name))
