"""LEAF's json files: FEMNIST, Shakespeare and Sent140."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.fake_files import leaf_json
from trials import datasets
from trials.common.errors import UserError
from trials.datasets.natural import CHARACTERS


def load(name: str, root: Path) -> datasets.Dataset:
    return datasets.parse(name).load(0, None, str(root))


def femnist(root: Path) -> dict[str, dict[str, tuple[list, list]]]:
    rng = np.random.default_rng(0)
    sizes = {"train": {"w9": 3, "w1": 5}, "test": {"w1": 1, "w9": 2}}
    parts = {}
    for part, users in sizes.items():
        parts[part] = {
            user: (rng.random((n, 784)).round(3).tolist(), rng.integers(0, 62, n).tolist())
            for user, n in users.items()
        }
        leaf_json(root, "femnist", part, parts[part])
    return parts


def test_femnist_by_writer(tmp_path):
    parts = femnist(tmp_path)
    made = load("femnist", tmp_path)
    assert (made.shape, made.classes, made.x.dtype) == ((1, 28, 28), 62, np.float32)
    held = [samples for part in parts.values() for samples in part.values()]
    x, y = (np.concatenate(column) for column in zip(*held, strict=True))
    np.testing.assert_allclose(made.x.reshape(-1, 784), x, atol=1e-7)
    np.testing.assert_array_equal(made.y, y)
    assert made.test.tolist() == [False] * 8 + [True] * 3
    assert made.client.tolist() == [0] * 3 + [1] * 5 + [1] + [0] * 2


def test_absent_leaf_files_give_the_remedy(tmp_path):
    with pytest.raises(UserError, match=r"(?s)femnist/train is absent.*preprocess.sh"):
        load("femnist", tmp_path)


# Text


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


def tweet(text: str) -> list[str]:
    """LEAF's row: id, date, query, account, text, part."""
    return ["1467810672", "Mon Apr 06", "NO_QUERY", "someone", text, "training"]


def test_sent140_tokens_come_from_training_text(tmp_path):
    train = {
        "ann": ([tweet("Good, GOOD day!"), tweet("bad day")], [1, 0]),
        "bob": ([tweet("a day: good")], [1]),
    }
    leaf_json(tmp_path, "sent140", "train", train)
    held_out = {"bob": ([tweet("unseen unseen unseen good day")], [0])}
    leaf_json(tmp_path, "sent140", "test", held_out)
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
