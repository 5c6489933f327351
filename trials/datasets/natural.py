"""Natural federations: samples that people, speakers, hospitals and groups own, in files that others published."""

from __future__ import annotations

import bz2
import io
import re
import struct
from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from trials.common import randomness
from trials.common.lazy import Lazy
from trials.common.names import bounded
from trials.common.tensors import torch
from trials.datasets.base import Dataset, DatasetFamily, drawn_of_each, scaled
from trials.datasets.images import MNIST
from trials.datasets.leaf import CHARACTERS, bags, character_ids, frequent, words
from trials.datasets.published import DAMAGED, Array, Published
from trials.datasets.speech import mfccs, one_second, read_wav
from trials.datasets.tables import indicators

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = Lazy("pandas")

Born = tuple[Array, Array, Array, Array | None]
"""Samples as they are published: x (N, ...), labels and owners (N,), and which are test, where that is published."""


class NaturalData(DatasetFamily):
    """Samples with owners, in published files."""

    classes: ClassVar[int]
    share: ClassVar[int] = 0
    """One in so many samples of each owner is test, drawn by `data_seed`, where no split is published."""
    features: ClassVar[bool] = False
    """Whether x are features (N, p), to be standardised by the training samples."""
    counts: ClassVar[str] = ""
    """What is counted in files whose checksums are not published."""

    @abstractmethod
    def born(self, folder: Path) -> Born:
        """Return the samples of files that were checked, below the data root."""

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        folder = self.fetch(root)
        try:
            x, y, client, test = self.born(folder)
        except (*DAMAGED, KeyError) as error:
            if not self.counts:
                raise
            place = (folder / self.published[0].path).parent
            raise self.wrong(folder, place, self.counts, str(error)) from None
        if test is None:
            rng = randomness.generator("natural_test", seed)
            test = drawn_of_each(client, rng, lambda sizes: sizes // self.share)
        return Dataset(scaled(x, test) if self.features else x, y, test, self.classes, client)

    def check(self, counts: str) -> None:
        """Raise `ValueError` where the files hold something else."""
        if counts != self.counts:
            raise ValueError(counts)


def read_table(content: bytes, columns: str = "", **options: Any) -> pd.DataFrame:
    """Return a comma-separated table without a header."""
    names = columns.split() or None
    options |= {"skipinitialspace": True, "float_precision": "round_trip"}
    return pd.read_csv(io.BytesIO(content), header=None, names=names, **options)


@dataclass(frozen=True)
class MNISTWriters(MNIST):
    """The 60,000 training images of MNIST by the 539 people who wrote them (19 to 131 each), as QMNIST says (Yadav and
    Bottou 2019); the 10,000 test images were written by 297 others.
    """

    summary = "MNIST by its 539 writers (natural), with QMNIST's labels"
    published = (
        *MNIST.published,
        Published(
            "QMNIST/raw/qmnist-train-labels-idx2-int",
            "1d43300e7f41ddcbf7fd006cbe865af9",
            "https://raw.githubusercontent.com/facebookresearch/qmnist/master/qmnist-train-labels-idx2-int.gz",
        ),
    )

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        images, labels = super().load(seed, clients, root), self.published[-1]
        table = np.frombuffer(labels.read(self.fetch(root)), ">i4", offset=12).reshape(-1, 8)
        client = np.zeros(len(images.y), np.int64)  # of test images it is never read
        client[~images.test] = np.unique(table[:, 2], return_inverse=True)[1]
        return replace(images, client=client)


@dataclass(frozen=True)
class MNISTUSPS(MNIST):
    """MNIST and USPS (Hull 1994): the same ten digits, scanned and cut out in two ways; the client of an image is its
    domain, which `mnist_usps(each=10)` partitions evenly over ten, drawn by `data_seed`. USPS's 7,291 / 2,007 images of
    16x16 are made 28x28 (bilinear), a value v in [-1, 1] the pixel (v + 1) / 2; all are standardised as MNIST.
    """

    summary = "MNIST and USPS: digits in two domains (natural by domain)"
    source = "cran.r-project.org/src/contrib/Archive/ElemStatLearn (its folder data; GPL-2)"
    published = (
        *MNIST.published,
        Published("usps/zip.train.RData", "3e37e46fa4937e76cf4c92db29460640"),
        Published("usps/zip.test.RData", "213610705fb453b9dfe916a02f6c7be6"),
    )
    each: int = bounded(1, low=1, high=1000, kw_only=True)

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        images, ((mean,), (deviation,)) = super().load(seed, clients, root), self.used_scale
        folder = self.fetch(root)
        train, test = (read_r_matrix(file.read(folder)) for file in self.published[-2:])
        pixels, y = (np.concatenate(both) for both in zip(train, test, strict=True))
        small = (pixels - np.float32(mean)) / np.float32(deviation)
        rng = randomness.generator("domains", seed)
        within = [rng.permutation(len(labels)) % self.each for labels in (images.y, y)]
        client = np.repeat([0, 1], [len(images.y), len(y)]) * self.each + np.concatenate(within)
        held_out = np.concatenate([images.test, np.arange(len(y)) >= len(train[1])])
        x, y = np.concatenate([images.x, small]), np.concatenate([images.y, y])
        return replace(images, x=x, y=y, test=held_out, client=client)


def read_r_matrix(file: bytes) -> tuple[Array, Array]:
    """Return pixels (n, 1, 28, 28) in [0, 1] and labels (n,) of an R matrix: a label and 256 values a row."""
    # Before the numbers of a matrix stands the type of reals, 0x20E, and how many there are.
    content, kind = bz2.decompress(file), struct.pack(">i", 0x20E)
    start = content.index(kind) + 8
    (count,) = struct.unpack(">i", content[start - 4 : start])
    table = np.frombuffer(content, ">f8", count, start).reshape(257, -1).T
    small = torch.from_numpy(((table[:, 1:] + 1) / 2).astype(np.float32)).unflatten(1, (1, 16, 16))
    large = torch.nn.functional.interpolate(small, size=(28, 28), mode="bilinear")
    return large.numpy(), table[:, 0].astype(np.int64)


@dataclass(frozen=True)
class HAPT(NaturalData):
    """Human activities and postural transitions (Reyes-Ortiz et al. 2016): 12 activities of 30 people, by a phone's
    acceleration and rotation at 50 Hz, in windows of 128 rows, every 64 rows within a labelled stretch. x (N, 390):
    log(1 + |FFT|) of six channels at 65 frequencies. The published split: nine of the people are test.
    """

    summary = "HAPT: 12 activities of 30 people by phone sensors (natural by person)"
    source = "archive.ics.uci.edu/dataset/341 (CC BY 4.0), whose RawData lies in it, or hapt_raw.npz with the same rows"
    published = (Published("hapt"),)
    classes = 12
    features = True
    counts = "1122772 rows, 815614 of them labelled, of 30 people"

    def born(self, folder: Path) -> Born:
        signals, label, user, recording = self.recordings(folder / "hapt")
        people, labelled = len(np.unique(user)), (label > 0).sum()
        self.check(f"{len(label)} rows, {labelled} of them labelled, of {people} people")
        where = np.stack([label, user, recording])
        # A window must not reach across a change of activity, person or recording.
        ends = np.flatnonzero((where[:, 1:] != where[:, :-1]).any(0)) + 1
        starts: list[int] = []
        for first, last in zip([0, *ends], [*ends, len(label)], strict=True):
            if label[first] > 0:
                starts += range(first, last - 128 + 1, 64)
        stretches = np.stack([signals[start : start + 128] for start in starts])
        spectrum = np.log1p(abs(np.fft.rfft(stretches.transpose(0, 2, 1)))).reshape(len(starts), -1)
        person, y = user[starts].astype(np.int64), label[starts].astype(np.int64) - 1
        return spectrum, y, person, np.isin(person, [2, 4, 9, 10, 12, 13, 18, 20, 24])

    def recordings(self, place: Path) -> tuple[Array, ...]:
        """Return signals (rows, 6), and of each row its label (-1: none), person and recording."""
        if (place / "hapt_raw.npz").is_file():
            with np.load(place / "hapt_raw.npz", allow_pickle=False) as file:
                return tuple(file[name] for name in ("signals", "label", "user", "recording"))
        parts, labels = [], np.loadtxt(place / "RawData" / "labels.txt", dtype=np.int64)
        for path in sorted((place / "RawData").glob("acc_exp*_user*.txt")):
            experiment, person = map(int, re.findall(r"\d+", path.name))
            both = (path, path.with_name(path.name.replace("acc", "gyro")))
            signals = np.hstack([np.loadtxt(part, dtype=np.float32) for part in both])
            label = np.full(len(signals), -1)
            for _, _, activity, first, last in labels[labels[:, 0] == experiment]:
                label[first - 1 : last] = activity
            owner = np.full((2, len(signals)), [[person], [experiment]])
            parts.append((signals, label, *owner))
        return tuple(np.concatenate(column) for column in zip(*parts, strict=True))


@dataclass(frozen=True)
class FSDD(NaturalData):
    """The Free Spoken Digit Dataset (Jackson et al.): ten digits, 50 times each by six people. x (N, 1, 13, 59): the
    MFCC of `speech_commands`, of the clip at twice its 8 kHz by linear interpolation, cut or padded to one second; each
    coefficient standardised. The published split: recordings 0 to 4 of each digit and speaker are test.
    """

    summary = "Free Spoken Digit Dataset: ten digits by six speakers (natural)"
    source = "github.com/Jakobovski/free-spoken-digit-dataset (CC BY-SA 4.0)"
    published = (
        Published("fsdd/recordings", "dbd99df2d81f98e4a1058afcb3e06d30", suffixes=(".wav",)),
    )
    classes = 10

    def born(self, folder: Path) -> Born:
        names, sounds = [], []
        for name, content in self.published[0].members(folder):
            sound = read_wav(io.BytesIO(content), 8000)
            twice = np.interp(np.arange(2 * len(sound)) / 2, np.arange(len(sound)), sound)
            names.append(Path(name).stem.split("_"))
            sounds.append(one_second(twice))
        digit, speaker, take = zip(*names, strict=True)
        test = np.array(take, int) < 5
        x = mfccs(sounds, len(sounds)).astype(np.float64)
        train = x[~test]
        x = (x - train.mean((0, 2), keepdims=True)) / train.std((0, 2), keepdims=True)
        client = np.unique(speaker, return_inverse=True)[1]
        return x[:, None].astype(np.float32), np.array(digit, np.int64), client, test


@dataclass(frozen=True)
class WISDM(NaturalData):
    """WISDM 1.1 (Kwapisz et al. 2010): six activities of 36 people by the phone's accelerometer, 5,418 windows of ten
    seconds, 43 features each. A fifth of each person's windows is test.
    """

    summary = "WISDM 1.1: six activities of 36 people (natural by person)"
    source = "www.cis.fordham.edu/wisdm/dataset.php (WISDM lab; no licence is stated)"
    published = (
        Published(
            "tabular/wisdm/WISDM_ar_v1.1_transformed.arff", "36dff2e1be235ebe7e779a15c4ffe08e"
        ),
    )
    classes = 6
    share = 5
    features = True

    def born(self, folder: Path) -> Born:
        activities = ["Walking", "Jogging", "Upstairs", "Downstairs", "Sitting", "Standing"]
        table = read_table(self.published[0].read(folder), comment="@", na_values="?")
        y = table[45].map(activities.index).to_numpy(np.int64)
        return table.drop(columns=[0, 1, 45]).to_numpy(float), y, table[1].to_numpy(), None


@dataclass(frozen=True)
class HeartDisease(NaturalData):
    """Heart disease by hospital (Janosi et al. 1988), prepared as FLamby's Fed-Heart-Disease (Ogier du Terrail et al.
    2022): slope, ca and thal are dropped, then patients with an absent value, which leaves 303, 261, 46 and 130. Two
    classes: none, or any disease. x (740, 13): eight values, and cp and restecg as indicators without their first. A third
    of each hospital is test (FLamby's share; its own draw is another).
    """

    summary = "heart disease of 740 patients by four hospitals (natural)"
    source = "archive.ics.uci.edu/dataset/45 (CC BY 4.0)"
    published = tuple(
        Published(f"tabular/fed_heart_disease/processed.{hospital}.data")
        for hospital in ("cleveland", "hungarian", "switzerland", "va")
    )
    classes = 2
    share = 3
    features = True
    counts = "303, 294, 123, 200 patients"
    columns = "age sex cp trestbps chol fbs restecg thalach exang oldpeak slope ca thal target"

    def born(self, folder: Path) -> Born:
        # UCI's files have no header; in others it begins with "age".
        form = {"comment": "a", "na_values": ["?", "-9", "-9.0"]}
        tables = [read_table(file.read(folder), self.columns, **form) for file in self.published]
        self.check(f"{', '.join(str(len(table)) for table in tables)} patients")
        kept = [table.drop(columns=["slope", "ca", "thal"]).dropna() for table in tables]
        table = pd.concat(kept, ignore_index=True).astype(float)
        y = (table.pop("target") > 0).to_numpy(np.int64)
        x = pd.get_dummies(table, columns=["cp", "restecg"], drop_first=True).to_numpy(float)
        return x, y, np.repeat(np.arange(len(kept)), [len(rows) for rows in kept]), None


@dataclass(frozen=True)
class Adult(NaturalData):
    """Adult by occupation (Becker and Kohavi 1996): does a person earn over 50,000 dollars? 15 clients are the 14
    occupations and `?`. x: numbers standardised, then an indicator of each category (`?` is one). fnlwgt, a weight of the
    census, is left out. The published split, 32,561 and 16,281.
    """

    summary = "Adult: income above 50,000 dollars, by occupation (natural)"
    source = "archive.ics.uci.edu/dataset/2 (CC BY 4.0)"
    published = (
        Published("tabular/adult/adult.data", "5d7c39d7b8804f071cdd1f2a7c460872"),
        Published("tabular/adult/adult.test", "35238206dfdf7f1fe215bbb874adecdc"),
    )
    classes = 2
    columns = (
        "age workclass fnlwgt education education_num marital_status occupation relationship race sex "
        "capital_gain capital_loss hours_per_week native_country income"
    )

    def born(self, folder: Path) -> Born:
        form = {"comment": "|", "keep_default_na": False}
        parts = [read_table(file.read(folder), self.columns, **form) for file in self.published]
        test = np.repeat([False, True], [len(part) for part in parts])
        table = pd.concat(parts, ignore_index=True).drop(columns="fnlwgt")
        y = table.pop("income").str.startswith(">50K").to_numpy(np.int64)
        client = np.unique(table["occupation"], return_inverse=True)[1]
        numbers = scaled(table.select_dtypes("number").to_numpy(), test)
        return (
            np.hstack([numbers, indicators(table.select_dtypes("object"), test)]),
            y,
            client,
            test,
        )


@dataclass(frozen=True)
class News20(NaturalData):
    """20 newsgroups by author (Lang 1995; the version by date): to which group does a mail belong? Clients are the
    addresses in `From:` of at least `mails` training mails: 389 of 5, who wrote 3,743. The test part is whole: 7,532.
    x (N, `vocabulary`): log(1 + count) of the most frequent words of the kept training mails, scaled to length 1.
    Headers but the subject are left out, since they tell the group.
    """

    summary = "20 newsgroups by author (natural), words of subject and body"
    source = "qwone.com/~jason/20Newsgroups, 20news-bydate.tar.gz (public posts)"
    published = (
        Published("news20/20news-bydate", "7ac20b1baa6345ed8748da57fb7c33bf", suffixes=("",)),
    )
    classes = 20
    mails: int = bounded(5, low=1)
    vocabulary: int = bounded(2000, low=1)

    def born(self, folder: Path) -> Born:
        authors, groups, tests, texts = [], [], [], []
        for name, content in self.published[0].members(folder):
            part, group, _ = name.split("/")[-3:]
            author, text = mail(content.decode("latin-1"))
            authors.append(author)
            texts.append(words(text))
            groups.append(group)
            tests.append(part.endswith("test"))
        test = np.array(tests)
        count = Counter(a for a, held_out in zip(authors, tests, strict=True) if a and not held_out)
        kept = np.flatnonzero(test | np.array([count[author] >= self.mails for author in authors]))
        # Words of test mails would tell a model what it is tested on.
        rank = frequent((texts[i] for i in kept if not test[i]), self.vocabulary)
        x = np.log1p(bags([texts[i] for i in kept], rank, self.vocabulary).astype(np.float32))
        x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
        y, test = np.unique(groups, return_inverse=True)[1][kept], test[kept]
        client = np.zeros(len(kept), np.int64)  # of test mails it is never read
        client[~test] = np.unique(np.array(authors)[kept][~test], return_inverse=True)[1]
        return x, y.astype(np.int64), client, test


def mail(text: str) -> tuple[str, str]:
    """Return the author's address in lower case ("" where there is none), and the subject and body of a mail."""
    header, _, body = text.partition("\n\n")
    author = re.search(r"^From:.*?([\w.+%-]+@[\w.-]+)", header, re.MULTILINE)
    subject = re.search(r"^Subject:(.*)$", header, re.MULTILINE)
    return author[1].lower() if author else "", f"{subject[1] if subject else ''}\n{body}"


@dataclass(frozen=True)
class ShakespeareText(NaturalData):
    """The roles of 36 plays (McMahan et al. 2017, Caldas et al. 2018): the next character after 80, of LEAF's 80. It
    reads Project Gutenberg's text, as LEAF's own program does: 1,130 roles with 4,226,206 samples. `stride` keeps each
    so-many-th sample of a role; the last fifth is test, as LEAF's `--tf 0.8`.
    """

    kind = "text"
    family = "shakespeare"
    summary = "Shakespeare's plays as LEAF reads them: next of 80 characters, by role (natural)"
    source = "www.gutenberg.org/files/100/old/1994-01-100.zip (etext 100 of 1994: for personal use, not commercial)"
    published = (
        Published("leaf_shakespeare/t8.shakespeare.txt", "d2028225a89d8b0b3093dddb720da91f"),
    )
    classes = len(CHARACTERS)
    stride: int = bounded(1, low=1)

    def born(self, folder: Path) -> Born:
        lines = self.published[0].read(folder).decode("latin-1").splitlines()
        return windows(roles(lines).values(), 80, self.stride)


def roles(lines: Sequence[str]) -> dict[str, str]:
    """Return what each role of each play says, by LEAF's rules: names without regard to case; a role has more than two
    lines; spaces and line ends in a row are one space.

    A speech begins with a line `  Name. Text`, and goes on with lines that are indented by four. In The Comedy of
    Errors nothing is indented: there all lines go on, until a stage direction (`<`) or an act.
    """
    author, last_line, speaker = "by William Shakespeare", 124196, r"([a-zA-Z][a-zA-Z ]*)\. (.*)"
    works = [number for number, line in enumerate(lines) if author in line][1:]  # but the sonnets
    spoken: dict[str, list[str]] = defaultdict(list)
    for start, end in zip(works, [*works[1:], last_line + 1], strict=True):
        title = next(filter(None, (lines[start - up].strip() for up in range(2, 8))))
        flat, name = title == "THE COMEDY OF ERRORS", ""
        play: dict[str, list[str]] = defaultdict(list)
        for line in lines[start + 1 : end]:
            begun = re.match(speaker, line if flat else line[2:])
            begun = begun if flat or line[:2] == "  " else None
            if begun:
                name = "" if flat and begun[1].upper().startswith("ACT ") else begun[1].upper()
                if name:
                    play[name].append(begun[2])
            elif flat and line[:1] == "<":
                name = ""
            elif name and (flat or line[:4] == "    "):
                play[name].append(line if flat else line[4:])
        for name, speech in play.items():
            if len(speech) > 2:
                spoken[re.sub(r"\W+", "_", f"{title}_{name}")] += speech
    return {role: re.sub("  +", " ", " ".join([*speech, ""])) for role, speech in spoken.items()}


def windows(texts: Iterable[str], length: int, stride: int) -> Born:
    """Cut samples of who speaks what: x (N, length) float32 places in `CHARACTERS`, and the next one. One begins
    every `stride` characters.

    The last fifth of each one's samples is test, less those training ones that overlap with it. Who has
    fewer than 10 samples, or none to train on, is left out.
    """
    parts: list[tuple[Array, ...]] = []
    for text in texts:
        starts = np.arange(0, len(text) - length, stride)
        first = starts[-(len(starts) // 5)] if len(starts) >= 10 else 0
        trained = starts[starts + length < first]
        if len(trained):
            used = np.concatenate([trained, starts[starts >= first]])
            ids = character_ids([text], len(text))[0]
            x = np.lib.stride_tricks.sliding_window_view(ids, length)[used]
            parts.append((x, ids[used + length], np.full(len(used), len(parts)), used >= first))
    x, y, client, test = (np.concatenate(column) for column in zip(*parts, strict=True))
    return x.astype(np.float32), y.astype(np.int64), client, test
