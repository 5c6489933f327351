"""A user's own tables: what their columns become, by hand, and what does not fit."""

import numpy as np
import pandas as pd
import pytest

import suite
from tests.support import own_samples
from trials import datasets
from trials.common.errors import UserError
from trials.run.scenario import Scenario
from trials.run.spec import canonical
from trials.run.trial import run
from trials.settings import Settings

ROWS = """age,city,sick,hospital,part,score
10,Oslo,no,a,train,1.5
20,Bergen,yes,b,train,2.5
,Oslo,no,a,train,3.5
30,?,yes,b,train,4.5
20,Paris,no,b,test,3.0
50,,yes,a,test,5.0
"""


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "patients.csv"
    path.write_text(ROWS)
    return path


def load(text, seed=0):
    return datasets.parse(text).load(seed, None, None)


def test_columns_become_features_by_hand(table):
    """Training ages 10, 20, 30 have mean 20 and deviation sqrt(200 / 3); the absent one is the mean. Cities of
    training rows are none, Bergen and Oslo; Paris is none of them.
    """
    made = load(f"csv:{table}?target=sick&client=hospital&test=part&drop=score")
    s = np.sqrt(200 / 3)
    age = [-10 / s, 0, 0, 10 / s, 0, 30 / s]
    city = [[0, 0, 1], [0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 0, 0], [1, 0, 0]]
    np.testing.assert_allclose(made.x, np.column_stack([age, city]), atol=1e-6)
    assert made.x.dtype == np.float32
    assert made.y.tolist() == [0, 1, 0, 1, 0, 1]
    assert made.client.tolist() == [0, 1, 0, 1, 1, 0]
    assert made.test.tolist() == [False] * 4 + [True] * 2
    assert made.note == (
        "1 columns of numbers standardised by training rows, 1 absent values replaced by the mean; "
        "1 columns of words as 3 indicators"
    )


def test_a_regression_has_standardised_targets(table):
    text = f"csv:{table}?target=score&test=part&task=regression&drop=sick&drop=hospital"
    made = load(text)
    assert (made.classes, made.task.metric, datasets.parse(text).task.metric) == (1, "mse", "mse")
    deviation = np.sqrt(1.25)  # of 1.5, 2.5, 3.5, 4.5
    np.testing.assert_allclose(
        made.y, [v / deviation for v in (-1.5, -0.5, 0.5, 1.5, 0, 2)], atol=1e-6
    )
    assert "target standardised by mean 3 and deviation 1.11803" in made.note


def test_a_parquet_file_is_the_same_table(table, tmp_path):
    pd.read_csv(table, na_values=["?"]).to_parquet(tmp_path / "patients.parquet")
    csv, parquet = (
        load(f"{kind}:{tmp_path}/patients.{kind}?target=sick&test=part")
        for kind in ("csv", "parquet")
    )
    np.testing.assert_array_equal(csv.x, parquet.x)
    np.testing.assert_array_equal(csv.y, parquet.y)


def test_a_share_of_each_client_or_label_is_test(tmp_path):
    rows = [f"{i},{'ab'[i % 4 == 0]},{i % 2}" for i in range(80)]
    (tmp_path / "t.csv").write_text("\n".join(["x,who,y", *rows]))
    made = load(f"csv:{tmp_path}/t.csv?target=y&client=who&test=0.25")
    assert [int(made.test[made.client == k].sum()) for k in (0, 1)] == [15, 5]
    by_label = load(f"csv:{tmp_path}/t.csv?target=y&drop=who")
    assert [int(by_label.test[by_label.y == k].sum()) for k in (0, 1)] == [8, 8]
    again = load(f"csv:{tmp_path}/t.csv?target=y&drop=who", seed=1)
    assert (again.test != by_label.test).any()


def test_a_name_has_one_spelling(table):
    text = f"csv:{table}?test=0.2&client=hospital&task=classification&target=sick"
    assert datasets.canonical(text) == f"csv:{table}?target=sick&client=hospital"
    strange = f"csv:{table}?target=a%2Cb%26c"
    assert datasets.canonical(datasets.canonical(strange)) == strange
    assert datasets.parse(strange).options.target == "a,b&c"


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("", r"needs the column to predict, as in csv:.*\?target=COLUMN"),
        ("?target=sik", "target: unknown column 'sik'. Did you mean 'sick'"),
        ("?target=sick&clients=hospital", "unknown key 'clients'. Did you mean 'client'"),
        ("?target=sick&client=hospitals", "client: unknown column 'hospitals'"),
        ("?target=sick&task=ranking", "must be classification or regression"),
        ("?target=score", r"holds 1.5, which is no label: for a regression add &task=regression"),
        ("?target=city&task=regression", "column 'city' has no value in 2 of 6 rows"),
        ("?target=sick&task=regression", "must hold numbers for task=regression, but holds 'no'"),
        ("?target=sick&test=hospital", "column 'hospital' holds 'a', but must hold train and test"),
        ("?target=sick&test=1.5", r"test is 1.5, but must be a column, or in \(0, 1\)"),
        ("?target=sick&test=0.01", "test: 0 of 6 rows are test"),
        ("?target=sick&client=age", "client: column 'age' has no value in 1 of 6 rows"),
    ],
)
def test_what_does_not_fit_is_said(table, query, says):
    with pytest.raises(UserError, match=says):
        load(f"csv:{table}{query}")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "cannot read data set .*: No columns to parse"),
        ("x,y\n", "has no rows"),
        ("x,y\n1,a\n2,a\n", "holds one value only, a: two labels at least"),
        ("y\na\nb\na\nb\n", "no column but 'y': no features"),
        (
            "x,y\n,a\n,b\n,a\n,b\n",
            "column 'x' has no value in the training rows: leave it out by &drop=x",
        ),
        ("x,y\ninf,a\n1,b\n2,a\n3,b\n", "column 'x' holds an infinite number"),
        (
            "\n".join(["x,y", *(f"w{i},{i % 2}" for i in range(3000))]),
            "different values, and each would be a feature",
        ),
    ],
)
def test_tables_that_do_not_fit(tmp_path, content, says):
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(UserError, match=says):
        load(f"csv:{tmp_path}/t.csv?target=y&test=0.4")


def test_a_date_is_neither_number_nor_word(tmp_path):
    frame = pd.DataFrame({"day": pd.to_datetime(["2020-01-01"] * 4), "y": [0, 1, 0, 1]})
    frame.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(
        UserError, match=r"column 'day' holds Timestamp, .* leave it out by &drop=day"
    ):
        load(f"parquet:{tmp_path}/t.parquet?target=y&test=0.5")


@pytest.mark.parametrize(("task", "model"), [("", "logreg"), ("&task=regression", "linear")])
def test_a_run_trains_on_a_table(tmp_path, task, model):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    y = x[:, 0] * 2 + 5 if task else (x[:, 0] > 0).astype(int)
    frame = pd.DataFrame(x, columns=list("abc")).assign(y=y, who=np.arange(200) % 4)
    frame.to_csv(tmp_path / "t.csv", index=False)
    scenario = Scenario(f"csv:{tmp_path}/t.csv?target=y&client=who{task}", model, "natural")
    simulation, data = run(canonical("fedavg", {"lr": 0.2}, scenario, Settings(rounds=10), 0))
    assert data.clients == 4
    last = simulation.history[-1]
    assert last["test_mse"] < 0.05 if task else last["test_accuracy"] > 0.9
    assert "test_mse_personal" in last if task else "test_accuracy_personal" in last


def frame():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    return pd.DataFrame(x, columns=list("abc")).assign(
        y=np.where(x[:, 0] > 0, "up", "down"), who=np.arange(200) % 4
    )


class Huggingface:
    """As much of a `datasets.Dataset` as is asked for."""

    def __init__(self, table):
        self.table = table

    def to_pandas(self):
        return self.table


@pytest.mark.parametrize("kind", ["pandas", "pyarrow", "hugging face"])
def test_a_program_gives_its_tables(kind):
    import pyarrow

    made = {
        "pandas": lambda t: t,
        "pyarrow": pyarrow.Table.from_pandas,
        "hugging face": Huggingface,
    }
    table = made[kind]
    done = suite.run(
        data=table(frame()), target="y", client="who", heterogeneity="natural", rounds=10, lr=0.5
    )
    assert done.simulation.fed.n == 4
    assert done.history[-1]["test_accuracy"] > 0.9
    two = suite.run(data=(table(frame()[:150]), table(frame()[150:])), target="y", rounds=1)
    assert len(two.data.test) == 50
    assert two.spec.dataset != done.spec.dataset


def test_a_program_gives_two_torch_datasets():
    done = suite.run(data=own_samples.digits(), rounds=1, clients=4)
    assert done.data.dataset.x.shape == (240, 1, 8, 8)
    again = suite.run(data=own_samples.digits(), rounds=1, clients=4)
    assert again.spec == done.spec
    assert again.history[-1]["test_loss"] == done.history[-1]["test_loss"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"data": 3}, "data: must be two torch Datasets .* not int"),
        ({"data": (1, 2)}, "not a tuple of int, int"),
        ({"data": frame()}, "target: a table needs the column to predict"),
        ({"data": frame(), "target": "z"}, "unknown column 'z'"),
        ({"data": frame(), "target": "a"}, "which is no label"),
        ({"data": own_samples.digits(), "target": "y"}, "only a table has columns"),
        ({"data": frame(), "dataset": "digits", "target": "y"}, "give one of them"),
        ({"target": "y"}, "of a table that is given as data="),
    ],
)
def test_what_a_program_gives_wrong(given, says):
    with pytest.raises(UserError, match=says):
        suite.run(rounds=1, **given)


def test_another_process_does_not_know_what_was_given():
    with pytest.raises(UserError, match="known to its process alone"):
        load("given:abc")
