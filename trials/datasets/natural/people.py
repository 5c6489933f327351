"""Samples of people: MNIST by writer, movements by person, spoken digits by speaker."""

import io
import wave
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from trials.common.tensors import torch
from trials.datasets.base import Array, Dataset, FileReport, data_root, report
from trials.datasets.cache import Arrays, cached
from trials.datasets.images import MNIST
from trials.datasets.natural.published import (
    BROKEN,
    Content,
    PublishedData,
    Tree,
    share_of_each,
    standardised,
)
from trials.datasets.speech import COEFFICIENTS, FRAMES, RATE, mfcc

QMNIST = "github.com/facebookresearch/qmnist (BSD 3-clause; torchvision's QMNIST downloads them)"


@dataclass(frozen=True)
class MNISTWriters(MNIST):
    """MNIST by writer: the training images belong to the 539 people who wrote them (19 to 131 each),
    and the 10,000 test images were written by 297 others. Writers are those of QMNIST (Yadav and Bottou
    2019), whose labels are in the order of MNIST's images.
    """

    summary: ClassVar[str] = "MNIST by its 539 writers (natural), with QMNIST's labels"
    writers: ClassVar[Content] = Content(
        "QMNIST/raw/qmnist-train-labels-idx2-int", "1d43300e7f41ddcbf7fd006cbe865af9"
    )

    def files(self, root: Path) -> list[FileReport]:
        """MNIST's own, and the training labels of QMNIST."""
        remedy = f"Get it from {QMNIST} and put it at {root / self.writers.path}[.gz]."
        return [*super().files(root), self.writers.report(root, remedy)]

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        images = super().load(seed, clients, root)
        assert isinstance(images.x, np.ndarray)
        table = np.frombuffer(self.writers.read(self.fetch(root)), ">i4", offset=12).reshape(-1, 8)
        _, writer = np.unique(table[:, 2], return_inverse=True)
        client = np.zeros(len(images.y), np.int64)  # of test images it is never read
        client[~images.test] = writer
        return Dataset(images.x, images.y, images.test, images.classes, client)


@dataclass(frozen=True)
class HAPT(PublishedData):
    """Human activities and postural transitions by person (Reyes-Ortiz et al. 2016): 12 activities of 30
    people, by acceleration and rotation of a phone at 50 Hz.

    A sample is a window of 128 rows, every 64 rows within one labelled stretch: 10,929 windows, as
    published. x (N, 390): log(1 + |FFT|) of the window's six channels at 65 frequencies, standardised by
    the training windows. The published split: 7,767 windows of 21 people are training, and 3,162
    of nine others are test.
    """

    summary: ClassVar[str] = "HAPT: 12 activities of 30 people by phone sensors (natural by person)"
    source: ClassVar[str] = (
        "archive.ics.uci.edu/dataset/341 (CC BY 4.0): its folder RawData, or the same rows as "
        "hapt_raw.npz with signals, label, user and recording"
    )
    folder: ClassVar[str] = "hapt"
    test_people: ClassVar[tuple[int, ...]] = (2, 4, 9, 10, 12, 13, 18, 20, 24)
    rows: ClassVar[str] = "1122772 rows, 815614 of them labelled, of 30 people"
    window: ClassVar[int] = 128

    def files(self, root: Path) -> list[FileReport]:
        """The recordings, by the number of their rows."""
        place = root / self.folder
        found = None
        if (place / "hapt_raw.npz").is_file() or (place / "RawData").is_dir():
            try:
                _, label, user, _ = self._recordings(place)
                found = f"{len(label)} rows, {(label > 0).sum()} of them labelled, of {len(set(user.tolist()))} people"
            except (*BROKEN, KeyError) as error:
                found = f"damaged recordings ({error})"
        return [report(self.folder, place, self.rows, found, self.remedy(root))]

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        place = self.fetch(root) / self.folder
        signals, label, user, recording = self._recordings(place)
        where = np.stack([label, user, recording])
        ends = np.flatnonzero((where[:, 1:] != where[:, :-1]).any(0)) + 1
        starts = [
            start
            for first, last in zip([0, *ends], [*ends, len(label)], strict=True)
            if label[first] > 0
            for start in range(first, last - self.window + 1, self.window // 2)
        ]
        windows = np.stack([signals[start : start + self.window] for start in starts])
        spectrum = np.log1p(abs(np.fft.rfft(windows.transpose(0, 2, 1)))).reshape(len(starts), -1)
        person = user[starts].astype(np.int64)
        test = np.isin(person, self.test_people)
        y = label[starts].astype(np.int64) - 1
        return Dataset(standardised(spectrum, test), y, test, 12, person)

    def _recordings(self, place: Path) -> tuple[Array, Array, Array, Array]:
        """signals (rows, 6), and of each row its label (-1: none), person and recording."""
        packed = place / "hapt_raw.npz"
        if packed.is_file():
            with np.load(packed, allow_pickle=False) as file:
                signals, label, user, recording = (
                    file[name] for name in ("signals", "label", "user", "recording")
                )
            return signals, label, user, recording
        raw = place / "RawData"
        labels = np.loadtxt(raw / "labels.txt", dtype=np.int64)
        parts = []
        for path in sorted(raw.glob("acc_exp*_user*.txt")):
            experiment, person = (int(part[-2:]) for part in path.stem.split("_")[1:])
            gyro = np.loadtxt(raw / path.name.replace("acc", "gyro"), dtype=np.float32)
            signals = np.hstack([np.loadtxt(path, dtype=np.float32), gyro])
            label = np.full(len(signals), -1, np.int8)
            for _, _, activity, first, last in labels[labels[:, 0] == experiment]:
                label[first - 1 : last] = activity
            who, which = (np.full(len(signals), of, np.uint8) for of in (person, experiment))
            parts.append((signals, label, who, which))
        signals, label, user, recording = (
            np.concatenate(column) for column in zip(*parts, strict=True)
        )
        return signals, label, user, recording


@dataclass(frozen=True)
class FSDD(PublishedData):
    """The Free Spoken Digit Dataset by speaker (Jackson et al.): ten digits, 50 times each by six people.

    x (N, 1, 13, 59): the MFCC of `speech_commands`, of the clip at twice its 8 kHz by linear interpolation,
    cut or padded to one second; each coefficient standardised by the training clips. The published
    split: recordings 0 to 4 of each digit and speaker are test (300), the others training (2,700).
    """

    summary: ClassVar[str] = "Free Spoken Digit Dataset: ten digits by six speakers (natural)"
    source: ClassVar[str] = "github.com/Jakobovski/free-spoken-digit-dataset (CC BY-SA 4.0)"
    folder: ClassVar[str] = "fsdd"
    clips: ClassVar[Tree] = Tree(
        "fsdd/recordings",
        ".wav",
        3000,
        "226595153d0cf8a1bd16e197e673043896374e660d16381a8b515d6d329b89d3",
    )
    published: ClassVar[tuple[Content | Tree, ...]] = (clips,)

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        place, key = data_root(root) / self.folder, self.stamp(data_root(root))
        found = cached(place, "fsdd-mfcc.npz", key, lambda: self._arrays(self.fetch(root)))
        y, client, take = found["y"], found["client"], found["take"]
        test = take < 5
        x = found["x"].astype(np.float64)
        train = x[~test]
        mean, deviation = (of((0, 2), keepdims=True) for of in (train.mean, train.std))
        x = ((x - mean) / deviation).astype(np.float32)
        return Dataset(x[:, None], y, test, 10, client)

    def _arrays(self, folder: Path) -> Arrays:
        """MFCC (3000, 13, 59), and of each clip its digit, speaker and number."""
        names, sounds = [], []
        for name, content in self.clips.members(folder):
            with wave.open(io.BytesIO(content)) as file:
                sound = np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32768
            clip = np.zeros(RATE, np.float32)
            twice = np.interp(np.arange(2 * len(sound)) / 2, np.arange(len(sound)), sound)[:RATE]
            clip[: len(twice)] = twice
            names.append(Path(name).stem.split("_"))
            sounds.append(clip)
        x = np.empty((len(names), COEFFICIENTS, FRAMES), np.float32)
        for start in range(0, len(names), 256):
            x[start : start + 256] = mfcc(torch.from_numpy(np.stack(sounds[start : start + 256])))
        digit, speaker, take = zip(*names, strict=True)
        _, client = np.unique(speaker, return_inverse=True)
        y, number = (np.array(column, np.int64) for column in (digit, take))
        return {"x": x, "y": y, "client": client, "take": number}


@dataclass(frozen=True)
class WISDM(PublishedData):
    """WISDM 1.1 by person (Kwapisz et al. 2010): six activities of 36 people by the phone's accelerometer, 5,418
    windows of ten seconds, 43 features each, standardised by the training windows. An absent
    value is the training mean. A fifth of each person's windows is test, drawn by `data_seed`.
    """

    summary: ClassVar[str] = "WISDM 1.1: six activities of 36 people (natural by person)"
    source: ClassVar[str] = (
        "www.cis.fordham.edu/wisdm/dataset.php (WISDM lab; no licence is stated)"
    )
    folder: ClassVar[str] = "tabular/wisdm"
    published: ClassVar[tuple[Content | Tree, ...]] = (
        Content("tabular/wisdm/WISDM_ar_v1.1_transformed.arff", "36dff2e1be235ebe7e779a15c4ffe08e"),
    )
    activities: ClassVar[tuple[str, ...]] = (
        "Walking", "Jogging", "Upstairs", "Downstairs", "Sitting", "Standing",
    )  # fmt: skip

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        (file,) = (one for one in self.published if isinstance(one, Content))
        lines = file.read(self.fetch(root)).decode().splitlines()
        rows = [line.split(",") for line in lines if line[:1].isdigit()]
        x = np.array([[np.nan if v == "?" else float(v) for v in row[2:-1]] for row in rows])
        client = np.array([int(row[1]) for row in rows])
        y = np.array([self.activities.index(row[-1]) for row in rows])
        test = share_of_each(client, 5, seed)
        filled = np.where(np.isnan(x), np.nanmean(x[~test], 0), x)
        return Dataset(standardised(filled, test), y, test, len(self.activities), client)
