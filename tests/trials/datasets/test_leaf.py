"""LEAF's json files: FEMNIST, Shakespeare and Sent140."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fake_files import leaf_json, write
from trials import datasets, heterogeneity
from trials.common.errors import UserError
from trials.datasets.leaf import CHARACTERS, character_ids, frequent, words
from trials.datasets.published import packed
from trials.federated_data import partition
from trials.settings import Settings


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


def test_several_files_are_read_in_the_order_of_their_names(tmp_path):
    femnist(tmp_path)
    one = load("femnist", tmp_path)
    path = tmp_path / "femnist/train/all_data_0.json"
    content = json.loads(path.read_text())
    path.unlink()
    for i, user in enumerate(content["users"]):
        piece = {
            "users": [user],
            "num_samples": [content["num_samples"][i]],
            "user_data": {user: content["user_data"][user]},
        }
        write(path.with_name(f"all_data_{i}.json"), json.dumps(piece).encode())
    two = load("femnist", tmp_path)
    for name in ("x", "y", "test", "client"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def changed(path: Path, change) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda c: c["user_data"]["w1"]["x"].pop(), "'w1' with 4 samples and 5 labels of 5"),
        (lambda c: c["user_data"].pop("w1"), "'w1' with 0 samples and 0 labels of 5"),
        (lambda c: c["num_samples"].pop(), "2 users, but 1 num_samples"),
        (lambda c: c.pop("num_samples"), "no users, num_samples and user_data"),
        (lambda c: c["user_data"]["w9"]["x"][0].pop(), "."),
        (lambda c: c["user_data"]["w9"]["y"].__setitem__(0, 62), "label .*must be 0..61"),
        (lambda c: c["user_data"]["w9"]["y"].__setitem__(0, "a"), "."),
        (lambda c: c["user_data"].__setitem__("w9", [1, 2, 3]), "."),
    ],
    ids=["sample", "user", "counts", "key", "pixel", "label", "letter", "list"],
)
def test_wrong_leaf_files_are_named(tmp_path, change, says):
    femnist(tmp_path)
    path = tmp_path / "femnist/train/all_data_0.json"
    changed(path, change)
    with pytest.raises(UserError, match=says) as raised:
        load("femnist", tmp_path)
    for part in (str(path), "expected LEAF json", "Nothing was loaded", "preprocess.sh -s niid"):
        assert part in str(raised.value)
    assert [r.path for r in datasets.prepare("femnist", str(tmp_path)) if not r.sound] == [path]


@pytest.mark.parametrize("keep", [0, 1, 100, -1])
def test_truncated_json_is_named(tmp_path, keep):
    femnist(tmp_path)
    path = tmp_path / "femnist/test/all_data_0.json"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(UserError, match="has the wrong content") as raised:
        load("femnist", tmp_path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("name", ["femnist", "shakespeare", "sent140", "sent140_bow"])
def test_absent_leaf_files_give_the_remedy(tmp_path, name):
    folder = name.removesuffix("_bow")
    with pytest.raises(UserError) as raised:
        load(name, tmp_path)
    for part in (f"{folder}/train/*.json", "./preprocess.sh", str(tmp_path / folder), "SUITE_DATA"):
        assert part in str(raised.value)
    leaf_json(tmp_path, folder, "train", {})
    with pytest.raises(UserError, match=rf"absent: {folder}/test/\*.json\)"):
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
def all_leaf(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
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
    kept = list(all_leaf.glob("*/parsed-*.npz"))
    assert len(kept) == len(LEAF)
    for path in kept:
        with np.load(path, allow_pickle=False) as file:
            assert all(file[name].dtype.kind != "O" for name in file.files)
    tokens = np.load(next(path for path in kept if "shakespeare" in path.name))["x"]
    assert tokens.dtype == np.uint8


def test_changed_json_is_read_again_even_if_size_and_time_are_the_same(all_leaf):
    first = load("shakespeare", all_leaf)
    path = all_leaf / "shakespeare/train/all_data_0.json"
    before = path.stat()
    path.write_text(path.read_text().replace("b" * 80, "e" * 80))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    second = load("shakespeare", all_leaf)
    assert second.x[1].tolist() == [CHARACTERS.index("e")] * 80
    assert first.x[0].tolist() == second.x[0].tolist()


def test_a_further_or_renamed_file_is_seen(all_leaf):
    assert len(load("shakespeare", all_leaf).y) == 4
    path = all_leaf / "shakespeare/train/all_data_0.json"
    write(path.with_name("all_data_1.json"), path.read_bytes())
    assert len(load("shakespeare", all_leaf).y) == 6
    path.rename(path.parent.parent / "test/other.json")
    assert load("shakespeare", all_leaf).test.sum() == 4


def test_a_file_gone_wrong_is_reported_though_it_was_good_before(all_leaf):
    load("femnist", all_leaf)
    path = all_leaf / "femnist/train/all_data_0.json"
    path.write_bytes(path.read_bytes()[:-1])
    for _ in range(2):
        with pytest.raises(UserError, match="has the wrong content") as raised:
            load("femnist", all_leaf)
        assert str(path) in str(raised.value)


def test_what_is_kept_is_made_anew_when_it_is_damaged(all_leaf):
    first = load("femnist", all_leaf)
    (kept,) = all_leaf.glob("femnist/parsed-*.npz")
    whole = kept.read_bytes()
    middle = len(whole) // 2
    flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
    for data in (flipped, whole[:-100], b"", b"no array"):
        kept.write_bytes(data)
        assert equal(load("femnist", all_leaf), first)
        assert kept.read_bytes() == whole


def test_where_nothing_can_be_written_json_is_read_every_time(all_leaf, monkeypatch):
    def refuse(**given):
        raise OSError("read-only")

    monkeypatch.setattr("trials.datasets.published.tempfile.NamedTemporaryFile", refuse)
    first = load("femnist", all_leaf)
    assert equal(load("femnist", all_leaf), first)
    assert not list(all_leaf.rglob("*.npz"))


def test_a_full_disk_leaves_nothing_behind(all_leaf, monkeypatch):
    def full(file, **arrays):
        file.write(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr("trials.datasets.published.np.savez", full)
    load("femnist", all_leaf)
    names = {path.name for path in (all_leaf / "femnist").iterdir()}
    assert names == {"train", "test"}
    assert not any(path.is_file() for path in (all_leaf / "cache").rglob("*"))


@given(
    st.one_of(
        st.lists(st.integers(0, 70_000), max_size=9),
        st.lists(st.floats(-1e5, 1e9, width=32), max_size=9),
    )
)
def test_packing_loses_nothing(values):
    x = np.array(values, np.float32)
    small = packed(x)
    np.testing.assert_array_equal(small.astype(np.float32), x)
    whole = all(v == int(v) and v >= 0 for v in x.tolist())
    if whole:
        top = x.max(initial=0)
        assert small.dtype == (np.uint8 if top < 256 else np.uint16 if top < 65536 else np.float32)


# Shakespeare


def test_shakespeare_has_80_characters():
    assert len(CHARACTERS) == len(set(CHARACTERS)) == 80


@given(st.lists(st.text(CHARACTERS, min_size=7, max_size=7), min_size=1, max_size=5))
def test_characters_are_places(texts):
    ids = character_ids(texts, 7)
    assert ["".join(CHARACTERS[i] for i in row) for row in ids] == texts


@given(st.characters().filter(lambda c: c not in CHARACTERS))
def test_other_characters_are_refused(char):
    with pytest.raises(ValueError, match="which LEAF does not have"):
        character_ids(["ab", char + "a"], 2)


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
    ("x", "y", "says"),
    [
        (["a" * 79], ["b"], "a text of other than 80 characters"),
        (["a" * 80], ["bc"], "a text of other than 1 characters"),
        (["a" * 79 + "é"], ["b"], "the character 'é'"),
        (["a" * 80], ["\t"], r"the character '\\t'"),
    ],
)
def test_shakespeare_refuses_other_text(tmp_path, x, y, says):
    leaf_json(tmp_path, "shakespeare", "train", {"A": (x, y)})
    leaf_json(tmp_path, "shakespeare", "test", {"A": (["a" * 80], ["b"])})
    with pytest.raises(UserError, match=says):
        load("shakespeare", tmp_path)


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


def test_words():
    assert words("Don't STOP, @you; no!") == ["don't", "stop", ",", "you", ";", "no", "!"]


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


def test_long_tweets_are_cut(tmp_path):
    train = {"ann": ([tweet("day " * 40)], [1])}
    leaf_json(tmp_path, "sent140", "train", train)
    leaf_json(tmp_path, "sent140", "test", train)
    assert load("sent140", tmp_path).x.tolist() == [[2] * 25] * 2
    assert load("sent140_bow(3)", tmp_path).x[0].tolist() == [40, 0, 0]


def test_labels_and_texts_of_the_fedprox_files(tmp_path):
    x = ["plain text", tweet("row"), "more", "text"]
    users = {"ann": (x, ["0", "4", "2", 1])}
    for part in ("train", "test"):
        leaf_json(tmp_path, "sent140", part, users)
    assert load("sent140", tmp_path).y.tolist() == [0, 1, 0, 1] * 2


@pytest.mark.parametrize(
    ("x", "y", "says"),
    [
        ([tweet("a")], [3], "labels .* of 0, 1, 2, 4"),
        ([["id", "date"]], [1], "a sample without a text"),
        ([5], [1], "."),
    ],
)
def test_sent140_refuses_other_rows(tmp_path, x, y, says):
    leaf_json(tmp_path, "sent140", "train", {"ann": (x, y)})
    leaf_json(tmp_path, "sent140", "test", {"ann": ([tweet("a")], [1])})
    with pytest.raises(UserError, match=says):
        load("sent140", tmp_path)


def test_a_vocabulary_needs_a_word():
    with pytest.raises(UserError, match="vocabulary is 2, but must be at least 3"):
        datasets.parse("sent140(2)")
