"""Natural federations: published counts on the real files, and every packing on small made-up ones."""

import gzip
import hashlib
import os
import tarfile
from pathlib import Path

import numpy as np
import pytest

from trials.common.errors import UserError
from trials.datasets.base import DatasetFamily, Published
from trials.datasets.natural import (
    CHARACTERS,
    HAPT,
    WISDM,
    Adult,
    HeartDisease,
    MNISTWriters,
    News20,
    ShakespeareText,
    roles,
    windows,
)
from trials.datasets.sounds import FSDD

REAL = Path(os.environ.get("SUITE_DATA", "/nowhere"))


PUBLISHED = {
    # shape, training and test samples, clients, and the smallest and largest of these
    MNISTWriters: ((1, 28, 28), 60000, 10000, 539, 19, 131),  # QMNIST's paper and labels
    HAPT: ((390,), 7767, 3162, 21, 295, 434),  # UCI: 10,929 windows, 21 and 9 people
    FSDD: ((1, 13, 59), 2700, 300, 6, 450, 450),  # its README: recordings 0 to 4 are test
    WISDM: ((43,), 4350, 1068, 36, 48, 219),  # 5,418 windows of 36 people
    HeartDisease: ((13,), 494, 246, 4, 31, 202),  # FLamby: 303, 261, 46, 130 patients
    Adult: ((107,), 32561, 16281, 15, 9, 4140),
    News20: ((2000,), 3743, 7532, 389, 5, 73),  # all 7,532 mails of the test part
}


@pytest.mark.parametrize("cls", PUBLISHED)
def test_real_files_have_the_published_counts(cls: type[DatasetFamily]):
    if not all(file["sound"] for file in cls().files(str(REAL))):
        pytest.skip(f"SUITE_DATA does not hold the files of {cls.__name__}")
    data = cls().load(0, None, str(REAL))
    assert np.isfinite(data.x).all()
    sizes = np.unique(data.client[~data.test], return_counts=True)[1]
    counts = (~data.test).sum(), data.test.sum(), len(sizes), sizes.min(), sizes.max()
    assert (data.shape, *counts) == PUBLISHED[cls]
    assert set(data.y) == set(range(data.classes))


def test_shakespeare_s_roles_are_those_that_leaf_s_program_counts():
    dataset = ShakespeareText(80)
    if not all(file["sound"] for file in dataset.files(str(REAL))):
        pytest.skip("SUITE_DATA does not hold the files of ShakespeareText")
    (file,) = dataset.published
    text = roles(file.read(REAL).decode("latin-1").splitlines())
    counts = [len(spoken) - 80 for spoken in text.values() if len(spoken) > 80]
    assert (len(counts), sum(counts)) == (1130, 4_226_206)  # of LEAF's own program, on this file
    found = dataset.load(0, None, str(REAL))
    assert (~found.test).sum() == 40841
    assert set(found.client[found.test]) == set(found.client[~found.test]) == set(range(676))


def test_roles_are_read_by_leaf_s_rules():
    play = """\
THE SONNETS
by William Shakespeare
  Nobody. In verse.
ACT I
THE PLAY
by William Shakespeare
  ANN. One,   two
    three.
Scene II.
    four
  Bob. Alone.
  Ann. five
THE COMEDY OF ERRORS
by William Shakespeare
Cy. Six
seven
<Exit Cy>
eight
Cy. nine
ACT II. SCENE I.
ten"""
    lines = play.replace("by William", "\nby William").splitlines()
    assert roles(lines) == {
        "THE_PLAY_ANN": "One, two three. four five ",
        "THE_COMEDY_OF_ERRORS_CY": "Six seven nine ",
    }


def md5_of(content: bytes) -> str:
    return hashlib.md5(content).hexdigest()


def test_a_published_file_is_known_by_its_content_plain_or_packed(tmp_path: Path):
    file, place = Published("b.data", md5_of(b"1,2\n")), tmp_path / "b.data"
    packed, expected = gzip.compress(b"1,2\n"), f"md5 {md5_of(b'1,3')}"
    assert file.report(tmp_path)["found"] is None
    (tmp_path / "b.data.gz").write_bytes(packed)
    assert file.report(tmp_path)["sound"]
    assert file.read(tmp_path) == b"1,2\n"
    place.write_bytes(b"1,3")
    assert file.report(tmp_path)["found"] == expected
    place.unlink()
    (tmp_path / "b.data.gz").write_bytes(packed[:-6])
    assert "damaged" in file.report(tmp_path)["found"]


def test_a_published_folder_and_its_archive_are_the_same(tmp_path: Path):
    lines = f"d/a/2.txt {md5_of(b'x')}\nd/b.txt {md5_of(b'yz')}\n"
    tree = Published("d", md5_of(lines.encode()), suffixes=(".txt",))
    (tmp_path / "d" / "a").mkdir(parents=True)
    (tmp_path / "d" / "a" / "2.txt").write_bytes(b"x")
    (tmp_path / "d" / "b.txt").write_bytes(b"yz")
    (tmp_path / "d" / "README").write_bytes(b"not counted")
    assert tree.report(tmp_path)["sound"]
    folder = list(tree.members(tmp_path))
    with tarfile.open(tmp_path / "d.tar.xz", "w:xz") as archive:
        archive.add(tmp_path / "d", "d")
    (tmp_path / "d").rename(tmp_path / "aside")
    assert tree.report(tmp_path)["sound"]
    assert list(tree.members(tmp_path)) == folder
    (tmp_path / "d.tar.xz").write_bytes((tmp_path / "d.tar.xz").read_bytes()[:-40])
    assert "damaged" in tree.report(tmp_path)["found"]


def test_hospitals_tables_are_read_with_and_without_a_header(tmp_path: Path):
    data, header = HeartDisease(), "age,sex,cp,trestbps,chol,fbs,restecg,thalach,exang,oldpeak\n"
    row = "63.0,1.0,1.0,145.0,233.0,1.0,2.0,150.0,0.0,2.3,3.0,0.0,6.0,2"
    other = row.replace(",1.0,145.0", ",2.0,?").replace(",2.0,150", ",1.0,150")
    contents = [f"{row}\n{row}\n", row, row, f"{header}{row}\n{other}\n{row}\n"]
    (tmp_path / data.published[0].path).parent.mkdir(parents=True)
    for file, content in zip(data.published, contents, strict=True):
        (tmp_path / file.path).write_text(content)
    with pytest.raises(UserError, match="6 samples"):
        data.load(0, None, str(tmp_path))
    _, y, client, _ = data.born(tmp_path)
    assert y.tolist() == [1] * 6
    assert client.tolist() == [0, 0, 1, 2, 3, 3]


def test_raw_recordings_of_movements_are_read_as_the_archive_unpacks(tmp_path: Path):
    raw = tmp_path / "hapt" / "RawData"
    raw.mkdir(parents=True)
    acceleration, rotation = np.random.default_rng(0).normal(size=(2, 300, 3))
    np.savetxt(raw / "acc_exp07_user03.txt", acceleration)
    np.savetxt(raw / "gyro_exp07_user03.txt", rotation)
    (raw / "labels.txt").write_text("7 3 5 11 200\n8 4 1 1 300\n")
    signals, label, user, recording = HAPT().recordings(tmp_path / "hapt")
    assert np.allclose(signals, np.hstack([acceleration, rotation]), atol=1e-6)
    assert (label[10:200] == 5).all()  # rows 11 to 200, both included, counted from 1
    assert (label == -1).sum() == 110
    assert (set(user), set(recording)) == ({3}, {7})
    with pytest.raises(UserError, match="1 samples"):
        HAPT().load(0, None, str(tmp_path))


def test_the_last_fifth_of_a_text_is_test_and_overlaps_with_nothing():
    """Windows of 7 characters at every 5th; who says too little is left out."""
    speech = "To be, or not to be: that is the question. " * 30
    x, y, client, test = windows([speech, "Short.", speech[::-1]], 7, 5)
    assert set(client) == {0, 1}
    for k, text in enumerate((speech, speech[::-1])):
        mine = np.flatnonzero(client == k)
        starts = np.arange(0, len(text) - 7, 5)
        first = starts[-(len(starts) // 5)]
        starts = starts[(starts >= first) | (starts + 7 < first)]
        spelled = ["".join(CHARACTERS[int(i)] for i in x[row]) for row in mine]
        assert spelled == [text[i : i + 7] for i in starts]
        assert [CHARACTERS[label] for label in y[mine]] == [text[i + 7] for i in starts]
        np.testing.assert_array_equal(test[mine], starts >= first)
