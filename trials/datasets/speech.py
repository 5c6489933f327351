"""Google Speech Commands with SAFL's MFCC features, computed by torch from the wav files."""

import hashlib
import math
import wave
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ClassVar

import numpy as np

from trials.common.names import bounded
from trials.common.tensors import Tensor, torch
from trials.datasets.base import Dataset, DatasetFamily
from trials.datasets.published import Array, FileReport, cached, report

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


def read_wav(path: Path) -> Array:
    """Return one second of 16-bit mono at 16 kHz in [-1, 1], (16000,) float32: longer clips are cut, shorter
    ones padded with silence. Raises `ValueError` for another format or a file that is cut off.
    """
    try:
        with wave.open(str(path)) as file:
            form = (file.getnchannels(), file.getsampwidth(), file.getframerate())
            data, announced = file.readframes(file.getnframes()), 2 * file.getnframes()
    except (wave.Error, EOFError) as error:
        raise ValueError(f"{error or 'a file that is cut off'}") from None
    if form != (1, 2, RATE):
        raise ValueError(f"{form[0]} channel(s) of {8 * form[1]} bit at {form[2]} Hz")
    if len(data) != announced:
        raise ValueError(f"{len(data)} of {announced} bytes of sound")
    clip = np.zeros(RATE, np.float32)
    sound = np.frombuffer(data, "<i2")[:RATE]
    clip[: len(sound)] = sound / np.float32(32768)
    return clip


@dataclass(frozen=True)
class SpeechCommands(DatasetFamily):
    """Google Speech Commands v1 (Warden 2018): 64,721 one-second clips of 30 words, as SAFL's MFCC:
    x (N, 1, 13, 59), coefficients by frames, each coefficient standardised by its mean and deviation
    over the training clips. See `mfcc`.

    The first ten labels are the command words yes, no, up, down, left, right, on, off, stop and go,
    then the other twenty in alphabetical order; `words` keeps the first so many. The clips of
    `testing_list.txt` are test; those of `validation_list.txt` are training clips here, because the
    suite draws validation from every client's own samples. A client is a speaker, by the hash in the
    file's name.

    Features are computed once and kept as .npz beside the clips, or in the user's cache where the data
    root is read-only, until the clips' names or sizes change.
    """

    summary = "Google Speech Commands v1 by speaker (natural), SAFL's MFCC 13x59; 30 words or the first `words`"
    folder = "speech_commands_v0.01"
    clips: ClassVar[dict[str, int]] = dict(zip(WORDS.split(), map(int, CLIPS.split()), strict=True))
    """Words in the order of their labels, and how many clips each has."""
    lists: ClassVar[dict[str, int]] = {"validation_list.txt": 6798, "testing_list.txt": 6835}
    """The official lists and how many clips they name."""
    words: int = bounded(30, low=2, high=30)

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        place = self.fetch(root) / self.folder
        paths = [path for word in self.clips for path in sorted((place / word).glob("*.wav"))]
        listing = "\n".join(f"{p.parent.name}/{p.name} {p.stat().st_size}" for p in paths)
        key = hashlib.md5(listing.encode(), usedforsecurity=False).hexdigest()
        name = f"{self.folder}-mfcc.npz"
        read = self._read(place.parent, paths)
        x = cached(place.parent, name, key, lambda: {"x": mfccs(read, len(paths))})["x"]
        label = np.array([list(self.clips).index(path.parent.name) for path in paths])
        kept = np.flatnonzero(label < self.words)
        x, y = x[kept], label[kept]
        listed = set((place / "testing_list.txt").read_text().split())
        test = np.array([f"{paths[i].parent.name}/{paths[i].name}" in listed for i in kept])
        speakers = [paths[i].name.split("_")[0] for i in kept]
        client = np.unique(speakers, return_inverse=True)[1]
        count = FRAMES * int((~test).sum())
        mean = x.sum((0, 2), where=~test[:, None, None], dtype=float) / count
        x -= mean[:, None].astype(np.float32)
        square = np.array([np.square(x[~test, c]).sum(dtype=float) for c in range(x.shape[1])])
        x /= np.sqrt(square / count)[:, None].astype(np.float32)
        return Dataset(x[:, None], y.astype(np.int64), test, self.words, client)

    def _read(self, root: Path, paths: list[Path]) -> Iterator[Array]:
        for path in paths:
            try:
                yield read_wav(path)
            except ValueError as error:
                expected = "a whole wav file, 16-bit mono at 16000 Hz"
                raise self.wrong(root, path, expected, str(error)) from None

    def files(self, root: Path) -> list[FileReport]:
        """Report the lists by their entries, and the folder of each word by its clips."""
        reports, place, remedy = [], root / self.folder, self.remedy(root)
        for name, number in self.lists.items():
            path, found = place / name, None
            if path.is_file():
                found = f"{len(path.read_text().split())} names"
            reports.append(report(name, path, f"{number} names", found, remedy))
        for word, number in self.clips.items():
            path, found = place / word, None
            if path.is_dir():
                found = f"{len(list(path.glob('*.wav')))} clips"
            reports.append(report(word, path, f"{number} clips", found, remedy))
        return reports

    def remedy(self, root: Path) -> str:
        place = root / self.folder
        url = "http://download.tensorflow.org/data/speech_commands_v0.01.tar.gz"
        return (
            f"Unpack {url} (1.5 GB, sha256 743935421bb51cccdb6bdd152e04c5c70274e935c82119ad7faeec31780d811d) "
            f"into {place}:\nmkdir -p {place} && curl -L {url} | tar xz -C {place}\n"
            f"or name the folder that holds {self.folder} with --data-root or SUITE_DATA."
        )
