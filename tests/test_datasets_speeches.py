"""`speeches:PATH`: a play of one's own, by speaking role."""

import numpy as np
import pytest

from trials import datasets
from trials.datasets.text import CHARACTERS
from trials.errors import UserError
from trials.settings import Settings
from trials.trial import canonical, run


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


def test_it_trains_by_role(tmp_path):
    name = play(tmp_path / "play.txt")
    common = Settings(rounds=2, participation=1.0, batch_size=8, eval_every=1, val_fraction=0.0)
    done, data = run(canonical("fedavg", {"lr": 0.5}, name, "char_lstm", "natural", common, 0))
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
