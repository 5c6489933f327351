"""Google Speech Commands with SAFL's MFCC features, computed by torch from the wav files."""

import math
import wave
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, ClassVar

import numpy as np

from trials.common.names import bounded
from trials.common.tensors import Tensor, torch
from trials.datasets.base import Dataset, DatasetFamily
from trials.datasets.published import DAMAGED, Array, Published, cached

RATE = 16000
WINDOW = 1024
HOP = WINDOW // 4
BANKS = 80
COEFFICIENTS = 13
FRAMES = 1 + (RATE - WINDOW) // HOP
WORDS = """yes no up down left right on off stop go bed bird cat dog eight five four happy house marvin
nine one seven sheila six three tree two wow zero"""
CLIPS = """2377 2375 2375 2359 2353 2367 2367 2357 2380 2372 1713 1731 1733 1746 2352 2357 2372 1742
1750 1746 2364 2370 2377 1734 2369 2356 1733 2373 1745 2376"""


def mel_banks() -> Tensor:
    """Return (513, 80): triangular filters, evenly spaced on the mel scale 2595 log10(1 + f / 700) from 0 to
    8,000 Hz, each 1 at its centre and 0 at its neighbours'.
    """
    top = 2595 * math.log10(1 + RATE / 2 / 700)
    corners = 700 * (10 ** (torch.linspace(0, top, BANKS + 2, dtype=torch.float64) / 2595) - 1)
    f = torch.linspace(0, RATE / 2, WINDOW // 2 + 1, dtype=torch.float64)[:, None]
    low, centre, high = corners[:-2], corners[1:-1], corners[2:]
    return torch.minimum((f - low) / (centre - low), (high - f) / (high - centre)).clamp(min=0)


def mfcc(clips: Tensor) -> Tensor:
    """Return the mel-frequency cepstral coefficients (n, 13, 59), float64, of clips (n, 16000) in [-1, 1].

    Frames of 1,024 samples (64 ms) every 256 (75 % overlap), without padding, under a periodic Hann
    window; power spectrum; 80 mel filter banks; logarithm (floor 1e-10); the first 13 of the
    orthonormal DCT-II. SAFL states rate, frame, overlap, banks and coefficients; window, scale, floor
    and transform are the usual ones.
    """
    frames = clips.to(torch.float64).unfold(-1, WINDOW, HOP)
    power = torch.fft.rfft(frames * torch.hann_window(WINDOW, dtype=torch.float64)).abs() ** 2
    energy = (power @ mel_banks()).clamp(min=1e-10).log()
    k = torch.arange(COEFFICIENTS, dtype=torch.float64)[:, None]
    n = torch.arange(BANKS, dtype=torch.float64) + 0.5
    dct = torch.cos(math.pi / BANKS * k * n) * (2 / BANKS) ** 0.5
    dct[0] *= 0.5**0.5
    return (energy @ dct.T).transpose(-1, -2)


def mfccs(clips: Iterable[Array], count: int) -> Array:
    """Return (count, 13, 59) float32 of so many clips (16000,), which are read in batches."""
    x, clips = np.empty((count, COEFFICIENTS, FRAMES), np.float32), iter(clips)
    for start in range(0, count, 256):
        batch = torch.from_numpy(np.stack(list(islice(clips, 256))))
        x[start : start + len(batch)] = mfcc(batch).numpy()
    return x


def read_wav(place: str | IO[bytes], rate: int) -> Array:
    """Return 16-bit mono sound in [-1, 1], float64. Raises one of `DAMAGED` for another format or rate, or where the file
    is cut off.
    """
    try:
        with wave.open(place) as file:
            form = (file.getnchannels(), file.getsampwidth(), file.getframerate())
            data, announced = file.readframes(file.getnframes()), 2 * file.getnframes()
    except wave.Error as error:
        raise ValueError(str(error)) from None
    if form != (1, 2, rate) or len(data) != announced:
        raise ValueError(f"(channels, bytes, Hz) {form}, {len(data)} bytes of {announced}")
    return np.frombuffer(data, "<i2") / 32768


def one_second(sound: Array) -> Array:
    """Return the first second at 16 kHz, (16000,) float32; what is shorter is padded with silence."""
    clip = np.zeros(RATE, np.float32)
    clip[: len(sound)] = sound[:RATE]
    return clip


@dataclass(frozen=True)
class SpeechCommands(DatasetFamily):
    """Google Speech Commands v1 (Warden 2018): 64,721 one-second clips of 30 words, as SAFL's MFCC:
    x (N, 1, 13, 59), coefficients by frames, each standardised over the training clips. See `mfcc`.

    The first ten labels are the command words; `words` keeps the first so many. The clips of `testing_list.txt` are
    test; those of `validation_list.txt` are training clips here, because validation is drawn from every client's own
    samples. A client is a speaker, by the hash in the file's name.
    """

    summary = "Google Speech Commands v1 by speaker (natural), SAFL's MFCC 13x59; 30 words or the first `words`"
    source = (
        "http://download.tensorflow.org/data/speech_commands_v0.01.tar.gz (1.5 GB, sha256 "
        "743935421bb51cccdb6bdd152e04c5c70274e935c82119ad7faeec31780d811d), unpacked into this folder"
    )
    published = (Published("speech_commands_v0.01"),)
    clips: ClassVar[dict[str, int]] = dict(zip(WORDS.split(), map(int, CLIPS.split()), strict=True))
    """Words in the order of their labels, and how many clips each has."""
    tested: ClassVar[int] = 6835
    """How many clips the official list of test clips names."""
    words: int = bounded(30, low=2, high=30)

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        folder = self.fetch(root)
        place = folder / self.published[0].path
        paths: list[Path] = []
        for word, number in self.clips.items():
            held = sorted((place / word).glob("*.wav"))
            if len(held) != number:
                raise self.wrong(folder, place / word, f"{number} clips", f"{len(held)} clips")
            paths += held
        listed = place / "testing_list.txt"
        tested = set(listed.read_text().split()) if listed.is_file() else set()
        if len(tested) != self.tested:
            raise self.wrong(folder, listed, f"{self.tested} names", f"{len(tested)} names")
        names = [f"{path.parent.name}/{path.name}" for path in paths]
        key = " ".join(f"{path} {path.stat().st_size}" for path in paths)
        read = self._read(folder, paths)
        x = cached("speech", key, lambda: {"x": mfccs(read, len(paths))})["x"]
        label = np.repeat(np.arange(len(self.clips)), list(self.clips.values()))
        kept = np.flatnonzero(label < self.words)
        x, test = x[kept], np.array([names[i] in tested for i in kept])
        speakers = [paths[i].name.split("_")[0] for i in kept]
        client = np.unique(speakers, return_inverse=True)[1]
        count = FRAMES * int((~test).sum())
        mean = x.sum((0, 2), where=~test[:, None, None], dtype=float) / count
        x -= mean[:, None].astype(np.float32)
        square = np.array([np.square(x[~test, c]).sum(dtype=float) for c in range(x.shape[1])])
        x /= np.sqrt(square / count)[:, None].astype(np.float32)
        return Dataset(x[:, None], label[kept], test, self.words, client)

    def _read(self, folder: Path, paths: list[Path]) -> Iterator[Array]:
        for path in paths:
            try:
                yield one_second(read_wav(str(path), RATE))
            except DAMAGED as error:
                expected = f"a whole wav file, 16-bit mono at {RATE} Hz"
                raise self.wrong(folder, path, expected, str(error)) from None
