"""Natural federations of speech: each speaker's audio clips, as mel-frequency cepstral coefficients (MFCC)."""

import io
import math
import wave
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from trials.common.names import bounded
from trials.common.tensors import Tensor, torch
from trials.datasets.base import Array, Published
from trials.datasets.natural import Born, NaturalData

RATE, WINDOW, BANKS = 16000, 1024, 80
WORDS = """yes no up down left right on off stop go bed bird cat dog eight five four happy house marvin
nine one seven sheila six three tree two wow zero""".split()  # noqa: SIM905
"""The words of Speech Commands, in the order of their labels."""


def mfcc(clips: Tensor) -> Tensor:
    """Return the mel-frequency cepstral coefficients (n, 13, 59), float64, of clips (n, 16000) in [-1, 1].

    The steps are: frames of 1,024 samples every 256 samples, a periodic Hann window, the power spectrum, 80 mel filter banks,
    the logarithm (of at least 1e-10), and the first 13 coefficients of the orthonormal DCT-II. SAFL states no window, mel scale,
    floor or transform; the usual ones are used.
    """
    frames = clips.to(torch.float64).unfold(-1, WINDOW, WINDOW // 4)
    power = torch.fft.rfft(frames * torch.hann_window(WINDOW, dtype=torch.float64)).abs() ** 2
    # Triangular filters, evenly spaced on the mel scale: 1 at a filter's centre, 0 at its neighbours'.
    top = 2595 * math.log10(1 + RATE / 2 / 700)
    corners = 700 * (10 ** (torch.linspace(0, top, BANKS + 2, dtype=torch.float64) / 2595) - 1)
    f = torch.linspace(0, RATE / 2, WINDOW // 2 + 1, dtype=torch.float64)[:, None]
    low, centre, high = corners[:-2], corners[1:-1], corners[2:]
    banks = torch.minimum((f - low) / (centre - low), (high - f) / (high - centre)).clamp(min=0)
    energy = (power @ banks).clamp(min=1e-10).log()
    k = torch.arange(13, dtype=torch.float64)[:, None]
    n = torch.arange(BANKS, dtype=torch.float64) + 0.5
    dct = torch.cos(math.pi / BANKS * k * n) * (2 / BANKS) ** 0.5
    dct[0] *= 0.5**0.5
    return (energy @ dct.T).transpose(-1, -2)


def coefficients(sounds: Iterable[Array], test: Array) -> Array:
    """Return mel-frequency cepstral coefficients (n, 1, 13, 59), float32, of n sounds at 16 kHz. A sound is first cut, or padded
    with silence, to one second. Each coefficient is standardised over the training sounds; `test` (n,) marks the test sounds.
    """
    batches, sounds = [], iter(sounds)
    while batch := list(islice(sounds, 256)):
        clips = np.zeros((len(batch), RATE), np.float32)
        for clip, sound in zip(clips, batch, strict=True):
            clip[: len(sound)] = sound[:RATE]
        batches.append(mfcc(torch.from_numpy(clips)).numpy().astype(np.float32))
    x = np.concatenate(batches).astype(np.float64)
    train = x[~test]
    x = (x - train.mean((0, 2), keepdims=True)) / train.std((0, 2), keepdims=True)
    return x[:, None].astype(np.float32)


def read_wav(content: bytes, rate: int) -> Array:
    """Return the sound of a 16-bit mono WAV file as float64 in [-1, 1). Raise an exception for another format or rate, or a truncated file."""
    with wave.open(io.BytesIO(content)) as file:
        header, data = file.getparams(), file.readframes(file.getnframes())
    if header[:4] != (1, 2, rate, len(data) // 2):
        raise ValueError(f"{len(data)} bytes of sound in a file of {header}")
    return np.frombuffer(data, "<i2") / 32768


@dataclass(frozen=True)
class FSDD(NaturalData):
    """Free Spoken Digit Dataset: ten digits by six speakers (natural), 50 times each (Jackson et al.).

    x (N, 1, 13, 59): MFCC as in `speech_commands`. Clips of 8 kHz are first interpolated linearly to 16 kHz, and cut or
    padded to one second. The published split is kept: of each digit and speaker, recordings 0 to 4 are test.
    """

    source = "github.com/Jakobovski/free-spoken-digit-dataset (CC BY-SA 4.0)"
    published = (
        Published("fsdd/recordings", "dbd99df2d81f98e4a1058afcb3e06d30", suffixes=(".wav",)),
    )
    classes = 10

    def born(self, folder: Path) -> Born:
        names, sounds = [], []
        for name, content in self.published[0].members(folder):
            sound = read_wav(content, 8000)
            sounds.append(np.interp(np.arange(2 * len(sound)) / 2, np.arange(len(sound)), sound))
            names.append(Path(name).stem.split("_"))
        digit, speaker, take = zip(*names, strict=True)
        test, client = np.array(take, int) < 5, np.unique(speaker, return_inverse=True)[1]
        return coefficients(sounds, test), np.array(digit, np.int64), client, test


@dataclass(frozen=True)
class SpeechCommands(NaturalData):
    """Google Speech Commands v1 by speaker (natural), SAFL's MFCC 13x59; 30 words or the first `words` (Warden 2018).

    64,721 clips of one second. x (N, 1, 13, 59): 13 coefficients in 59 frames, standardised over the training clips. The clips
    of `testing_list.txt` are test. Those of `validation_list.txt` are training clips, because validation samples are drawn
    from every client's own. The speaker is a hash in a file's name.
    """

    source = "http://download.tensorflow.org/data/speech_commands_v0.01.tar.gz (1.5 GB), unpacked into this folder"
    published = (Published("speech_commands_v0.01"),)
    clips = 64721
    words: int = bounded(30, low=2, high=30)

    def __post_init__(self) -> None:
        object.__setattr__(self, "classes", self.words)

    def born(self, folder: Path) -> Born:
        archive = folder / self.published[0].path
        tested = set((archive / "testing_list.txt").read_text().split())
        clips, number = [], 0
        for label, word in enumerate(WORDS):
            paths = sorted((archive / word).glob("*.wav"))
            number += len(paths)
            for path in paths if label < self.words else ():
                speaker = path.name.split("_")[0]
                clips.append((path, label, speaker, f"{word}/{path.name}" in tested))
        if number != self.clips:
            raise ValueError(f"{number} clips, not {self.clips}")
        files, y, speakers, test = map(np.array, zip(*clips, strict=True))
        sounds = (read_wav(path.read_bytes(), RATE) for path in files)
        return coefficients(sounds, test), y, np.unique(speakers, return_inverse=True)[1], test
