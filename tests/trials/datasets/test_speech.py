"""Speech Commands: MFCC in NumPy and SciPy, the official lists, wav files that are wrong."""

from pathlib import Path

import numpy as np
import pytest
import scipy.fft

from tests.support.fake_files import wav
from trials import datasets
from trials.common.errors import UserError
from trials.datasets import sounds

WORDS = ["yes", "no", "up"]
CLIPS = {
    "yes": ["ann_nohash_0", "ann_nohash_1", "bob_nohash_0", "cat_nohash_0"],
    "no": ["ann_nohash_0", "bob_nohash_0", "dan_nohash_0"],
    "up": ["bob_nohash_0", "cat_nohash_0", "dan_nohash_0"],
}
TESTING = ["yes/cat_nohash_0.wav", "up/cat_nohash_0.wav", "no/dan_nohash_0.wav"]


def clip(word: str, name: str, n: int = 16000) -> np.ndarray:
    rng = np.random.default_rng([ord(c) for c in word + name])
    t = np.arange(n) / 16000
    return 0.4 * np.sin(2 * np.pi * 300 * (1 + len(word)) * t) + 0.05 * rng.standard_normal(n)


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(sounds, "WORDS", WORDS)
    monkeypatch.setattr(sounds.SpeechCommands, "clips", 10)
    place = tmp_path / "data/speech_commands_v0.01"
    for word, names in CLIPS.items():
        for name in names:
            wav(place / word / f"{name}.wav", clip(word, name))
    (place / "testing_list.txt").write_text("\n".join(TESTING) + "\n")
    return tmp_path / "data"


def load(root: Path, name: str = "speech_commands(3)") -> datasets.Dataset:
    return datasets.parse(name).load(0, None, str(root))


def by_hand(sound: np.ndarray) -> np.ndarray:
    """13 x 59 coefficients, frame by frame and filter by filter."""
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(1024) / 1024)
    mel = np.linspace(0, 2595 * np.log10(1 + 8000 / 700), 82)
    edges = 700 * (10 ** (mel / 2595) - 1)
    hertz = np.arange(513) * 16000 / 1024
    columns = []
    for start in range(0, 16000 - 1024 + 1, 256):
        power = np.abs(np.fft.rfft(sound[start : start + 1024] * window)) ** 2
        bank = [
            power @ np.interp(hertz, edges[i : i + 3], [0, 1, 0], left=0, right=0)
            for i in range(80)
        ]
        columns.append(scipy.fft.dct(np.log(np.maximum(bank, 1e-10)), norm="ortho")[:13])
    return np.array(columns).T


def test_speech_commands(root):
    made = load(root)
    names = [(word, name) for word in WORDS for name in sorted(CLIPS[word])]
    assert (made.shape, made.classes, made.x.dtype) == ((1, 13, 59), 3, np.float32)
    assert made.y.tolist() == [0] * 4 + [1] * 3 + [2] * 3
    assert made.test.tolist() == [f"{word}/{name}.wav" in TESTING for word, name in names]
    speakers = {"ann": 0, "bob": 1, "cat": 2, "dan": 3}
    assert made.client.tolist() == [speakers[name[:3]] for _, name in names]
    sounds = [(clip(w, n) * 32768).astype("<i2") / 32768 for w, n in names]
    raw = np.array([by_hand(sound) for sound in sounds])
    train = raw[~made.test]
    mean, deviation = train.mean((0, 2)), train.std((0, 2))
    expected = (raw - mean[:, None]) / deviation[:, None]
    np.testing.assert_allclose(made.x[:, 0], expected, atol=2e-4)


def test_missing_clips_and_lists_are_named(root, tmp_path):
    (root / "speech_commands_v0.01/no/bob_nohash_0.wav").unlink()
    with pytest.raises(UserError, match="9 clips, not 10"):
        load(root)
    (root / "speech_commands_v0.01/testing_list.txt").unlink()
    with pytest.raises(UserError, match=r"do not load.*testing_list\.txt"):
        load(root)
    with pytest.raises(UserError, match=r"(?s)speech_commands_v0\.01 is absent.*1\.5 GB"):
        load(tmp_path / "elsewhere")
