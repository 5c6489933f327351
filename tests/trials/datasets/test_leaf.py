"""LEAF's json files: FEMNIST, Shakespeare and Sent140."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

from tests.support.fake_files import leaf_json, write
from trials import datasets, heterogeneity
from trials.common.errors import UserError
from trials.datasets.leaf import CHARACTERS, frequent
from trials.datasets.published import user_cache
from trials.federated_data import partition
from trials.settings import Settings


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def load(name: str, root: Path) -> datasets.Dataset:
    return datasets.parse(name).load(0, None, str(root))


def femnist(root: Path) -> dict[str, dict[str, tuple[list, list]]]:
    rng = np.random.default_rng(0)

    def some(n: int) -> tuple[list, list]:
        return rng.random((n, 784)).round(3).tolist(), rng.integers(0, 62, n).tolist()

    parts = {"train": {"w9": some(3), "w1": some(5)}, "test": {"w1": some(1), "w9": some(2)}}
    for part, users in parts.items():
        leaf_json(root, "femnist", part, users)
    return parts


def test_femnist_by_writer(tmp_path):
    parts = femnist(tmp_path)
    made = load("femnist", tmp_path)
    assert (made.shape, made.classes, made.x.dtype) == ((1, 28, 28), 62, np.float32)
    order = [("train", "w9", 0), ("train", "w1", 1), ("test", "w1", 1), ("test", "w9", 0)]
    x = np.concatenate([parts[part][user][0] for part, user, _ in order])
    y = np.concatenate([parts[part][user][1] for part, user, _ in order])
    np.testing.assert_allclose(made.x.reshape(-1, 784), x, atol=1e-7)
    np.testing.assert_array_equal(made.y, y)
    assert made.test.tolist() == [False] * 8 + [True] * 3
    owner = [k for part, user, k in order for _ in parts[part][user][1]]
    assert made.client.tolist() == owner
    data = partition(made, heterogeneity.parse("natural"), Settings(val_fraction=0))
    assert data.sizes.tolist() == [3, 5]


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c["user_data"]["w1"]["x"].pop(),
        lambda c: c["user_data"].pop("w1"),
        lambda c: c["num_samples"].pop(),
        lambda c: c.pop("num_samples"),
        lambda c: c["user_data"]["w9"]["x"][0].pop(),
        lambda c: c["user_data"]["w9"]["y"].__setitem__(0, 62),
        lambda c: c["user_data"]["w9"]["y"].__setitem__(0, "a"),
        lambda c: c["user_data"].__setitem__("w9", [1, 2, 3]),
        None,
    ],
    ids=["sample", "user", "counts", "key", "pixel", "label", "letter", "list", "truncated"],
)
def test_wrong_leaf_files_are_refused(tmp_path, change):
    femnist(tmp_path)
    path = tmp_path / "femnist/train/all_data_0.json"
    if change is None:
        path.write_bytes(path.read_bytes()[:-1])
    else:
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))
    with pytest.raises(UserError, match="has the wrong content: expected LEAF json"):
        load("femnist", tmp_path)
    assert not any(report.sound for report in datasets.prepare("femnist", str(tmp_path)))


@pytest.mark.parametrize("name", ["femnist", "shakespeare", "sent140_bow"])
def test_absent_leaf_files_give_the_remedy(tmp_path, name):
    folder = name.removesuffix("_bow")
    with pytest.raises(
        UserError, match=f"{tmp_path / folder}/train is absent.*(?s:.*)preprocess.sh"
    ):
        load(name, tmp_path)
    leaf_json(tmp_path, folder, "train", {})
    with pytest.raises(UserError, match=f"{folder}/test is absent"):
        load(name, tmp_path)


# What is kept of files that were read


def spoil(*args, **given):
    raise AssertionError("the json was read")


def equal(a: datasets.Dataset, b: datasets.Dataset) -> bool:
    columns = ("x", "y", "test", "client")
    return a.classes == b.classes and all(
        np.array_equal(getattr(a, c), getattr(b, c)) and getattr(a, c).dtype == getattr(b, c).dtype
        for c in columns
    )


@pytest.fixture
def all_leaf(tmp_path):
    femnist(tmp_path)
    sent140(tmp_path)
    for part in ("train", "test"):
        leaf_json(tmp_path, "shakespeare", part, {"A": (["a" * 80, "b" * 80], ["c", "d"])})
    return tmp_path


LEAF = ["femnist", "shakespeare", "sent140", "sent140(5)", "sent140_bow", "sent140_bow(3)"]


def test_json_is_read_once(all_leaf, monkeypatch):
    first = {name: load(name, all_leaf) for name in LEAF}
    monkeypatch.setattr("trials.datasets.leaf.json.loads", spoil)
    for name in LEAF:
        assert equal(load(name, all_leaf), first[name])
    assert len(list(user_cache().iterdir())) == len(LEAF)


def test_changed_renamed_and_further_files_are_seen(all_leaf):
    first = load("shakespeare", all_leaf)
    path = all_leaf / "shakespeare/train/all_data_0.json"
    before = path.stat()
    path.write_text(path.read_text().replace("b" * 80, "e" * 80))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    second = load("shakespeare", all_leaf)
    assert second.x[1].tolist() == [CHARACTERS.index("e")] * 80
    assert first.x[0].tolist() == second.x[0].tolist()
    write(path.with_name("all_data_1.json"), path.read_bytes())
    assert len(load("shakespeare", all_leaf).y) == 6
    path.rename(path.parent.parent / "test/other.json")
    assert load("shakespeare", all_leaf).test.sum() == 4


def test_what_is_kept_is_made_anew_when_it_is_damaged(all_leaf):
    first = load("femnist", all_leaf)
    (kept,) = user_cache().iterdir()
    whole = kept.read_bytes()
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    for data in (flipped, whole[:-100], b"", b"no array"):
        kept.write_bytes(data)
        assert equal(load("femnist", all_leaf), first)
        assert kept.read_bytes() == whole


# Shakespeare


def test_shakespeare_by_role(tmp_path):
    line = "To be, or not to be, that is the question: Whether 'tis nobler in the mind to suffer..."
    train = {"HAMLET": ([line[i : i + 80] for i in range(3)], list(line[80:83]))}
    leaf_json(tmp_path, "shakespeare", "train", train)
    leaf_json(tmp_path, "shakespeare", "test", {"GHOST": ([line[4:84]], ["z"]), "NOBODY": ([], [])})
    made = load("shakespeare", tmp_path)
    assert (made.shape, made.classes, made.x.dtype) == ((80,), 80, np.float32)
    for i in range(3):
        assert made.x[i].tolist() == [CHARACTERS.index(c) for c in line[i : i + 80]]
    assert made.y.tolist() == [CHARACTERS.index(c) for c in line[80:83] + "z"]
    assert made.test.tolist() == [False, False, False, True]
    assert made.client.tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize(
    ("name", "x", "y"),
    [
        ("shakespeare", ["a" * 79], ["b"]),
        ("shakespeare", ["a" * 80], ["bc"]),
        ("shakespeare", ["a" * 79 + "é"], ["b"]),
        ("sent140", ["a"], [3]),
        ("sent140", [["id", "date"]], [1]),
        ("sent140", [5], [1]),
    ],
)
def test_other_samples_are_refused(tmp_path, name, x, y):
    for part in ("train", "test"):
        leaf_json(tmp_path, name, part, {"A": (x, y)})
    with pytest.raises(UserError, match="has the wrong content"):
        load(name, tmp_path)


# Sent140


def tweet(text: str) -> list[str]:
    """LEAF's row: id, date, query, account, text, part."""
    return ["1467810672", "Mon Apr 06", "NO_QUERY", "someone", text, "training"]


def sent140(root: Path) -> None:
    train = {
        "ann": ([tweet("Good, GOOD day!"), tweet("bad day")], [1, 0]),
        "bob": ([tweet("a day: good")], [1]),
    }
    leaf_json(root, "sent140", "train", train)
    leaf_json(root, "sent140", "test", {"bob": ([tweet("unseen unseen unseen good day")], [0])})


def test_frequent_words_are_ranked_and_ties_are_alphabetical():
    texts = [["b", "a", "c"], ["c", "b", "c"]]
    assert frequent(texts, 9) == {"c": 0, "b": 1, "a": 2}
    assert frequent(texts, 2) == {"c": 0, "b": 1}


def test_sent140_tokens_come_from_training_text(tmp_path):
    sent140(tmp_path)
    made = load("sent140(5)", tmp_path)
    # day 3, good 3, then "!" "," "a" "bad" once each: ids 2, 3, 4 are day, good, "!".
    day, good, mark, other = 2, 3, 4, 1
    rows = [[good, other, good, day, mark], [other, day], [other, day, good]]
    rows.append([other, other, other, good, day])
    assert made.x.tolist() == [row + [0] * (25 - len(row)) for row in rows]
    assert made.y.tolist() == [1, 0, 1, 0]
    assert made.client.tolist() == [0, 0, 1, 1]
    assert made.test.tolist() == [False, False, False, True]
    assert (made.x.dtype, made.classes) == (np.float32, 2)
    assert load("sent140", tmp_path).x.max() == 7


def test_sent140_counts_words(tmp_path):
    sent140(tmp_path)
    made = load("sent140_bow(3)", tmp_path)
    assert made.x.tolist() == [[1, 2, 1], [1, 0, 0], [1, 1, 0], [1, 1, 0]]
    assert load("sent140_bow", tmp_path).x.shape == (4, 1000)
