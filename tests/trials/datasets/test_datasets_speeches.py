"""`speeches:PATH`: a play of one's own, by speaking role."""

import numpy as np
import pytest

from trials import datasets
from trials.common.errors import UserError
from trials.datasets.text import CHARACTERS
from trials.run.scenario import Scenario
from trials.run.spec import canonical
from trials.run.trial import run
from trials.settings import Settings


def play(path, long="To be, or not to be: that is the question. ", times=30):
    speech = long * times
    lines = ["ANNE:", speech[:700], "", "BOB:", speech[::-1], "", "ANNE:", speech[700:], ""]
    lines += ["CARL:", "Short.", ""]
    path.write_text("\n".join(lines))
    return f"speeches:{path}"


def spelled(ids):
    return "".join(CHARACTERS[int(i)] for i in ids)


def test_samples_are_windows_of_a_roles_speeches(tmp_path):
    data = datasets.parse(play(tmp_path / "play.txt")).load(0, None, None)
    assert data.x.shape[1:] == (80,)
    assert data.classes == 80
    assert set(data.client) == {0, 1}  # Carl says too little
    speech = "To be, or not to be: that is the question. " * 30
    anne = speech[:700] + "\n" + speech[700:].rstrip() + "\n"
    mine = np.flatnonzero(data.client == 0)
    for place, k in enumerate(mine[~data.test[mine]]):
        start = 40 * place
        assert spelled(data.x[k]) == anne[start : start + 80]
        assert CHARACTERS[data.y[k]] == anne[start + 80]


def test_the_last_fifth_of_a_role_is_test_and_overlaps_with_nothing(tmp_path):
    data = datasets.parse(play(tmp_path / "play.txt")).load(0, None, None)
    starts = np.arange(0, 1290 - 80, 40)
    mine = data.client == 1
    assert (data.test & mine).sum() == len(starts) // 5
    first_held_out = starts[-(len(starts) // 5)]
    assert (~data.test & mine).sum() == (starts + 80 < first_held_out).sum()


def test_other_windows(tmp_path):
    name = play(tmp_path / "play.txt").replace("speeches", "speeches( 7, stride = 5 )")
    data = datasets.parse(name).load(0, None, None)
    assert data.x.shape[1:] == (7,)
    bob = ("To be, or not to be: that is the question. " * 30)[::-1].strip() + "\n"
    starts = np.arange(0, len(bob) - 7, 5)
    first = starts[-(len(starts) // 5)]
    starts = starts[(starts >= first) | (starts + 7 < first)]
    mine = np.flatnonzero(data.client == 1)
    assert [spelled(data.x[k]) for k in mine] == [bob[i : i + 7] for i in starts]
    assert [CHARACTERS[y] for y in data.y[mine]] == [bob[i + 7] for i in starts]
    np.testing.assert_array_equal(data.test[mine], starts >= first)


def test_names_of_windows(tmp_path):
    path = tmp_path / "play.txt"
    for written, canonical_name in (
        (f"speeches:{path}", f"speeches:{path}"),
        (f"speeches(80,40):{path}", f"speeches:{path}"),
        (f"speeches(20):{path}", f"speeches(20,40):{path}"),
        (f"speeches(stride=10, length=20):{path}", f"speeches(20,10):{path}"),
    ):
        assert datasets.canonical(written) == canonical_name
        assert datasets.canonical(canonical_name) == canonical_name


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("speeches(0):play.txt", "length >= 1 and stride >= 1 must hold, got 0, 40"),
        ("speeches(9,-1):play.txt", "must hold, got 9, -1"),
        ("speeches(x):play.txt", "length is 'x', but must be a whole number"),
        ("speeches(1,2,3):play.txt", r"the form is speeches\(length=80, stride=40\)"),
        ("npz(3):own.npz", "the form is npz$"),
    ],
)
def test_windows_that_are_none(name, message):
    with pytest.raises(UserError, match=message):
        datasets.parse(name)


def test_it_trains_by_role(tmp_path):
    name = play(tmp_path / "play.txt")
    common = Settings(rounds=2, participation=1.0, batch_size=8, eval_every=1, val_fraction=0.0)
    done, data = run(
        canonical("fedavg", {"lr": 0.5}, Scenario(name, "char_lstm", "natural"), common, 0)
    )
    assert data.clients == 2
    assert done.history[-1]["train_loss"] < done.history[0]["test_loss"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"No names here.\n", "has no role"),
        (b"ANNE:\nShort.\n", "has no role"),
        (b"\xff\xfe\x00", "cannot read"),
    ],
)
def test_what_is_no_play_is_refused(tmp_path, content, message):
    (tmp_path / "play.txt").write_bytes(content)
    with pytest.raises(UserError, match=message):
        datasets.parse(f"speeches:{tmp_path / 'play.txt'}").load(0, None, None)
    with pytest.raises(UserError, match="cannot read"):
        datasets.parse(f"speeches:{tmp_path / 'none.txt'}").load(0, None, None)
