"""Natural federations: published data whose samples belong to writers, speakers, hospitals or roles."""

import io
import json
import re
from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trials.common import randomness
from trials.common.lazy import Lazy
from trials.common.names import bounded
from trials.datasets.base import Array, Dataset, DatasetFamily, Published, drawn_of_each
from trials.datasets.images import MNIST
from trials.datasets.tables import indicators, scaled

pd: Any = Lazy("pandas")
Born = tuple[Array, Array, Array, Array | None]
"""Published samples: x (N, ...), labels (N,), owners (N,), and the mask of the published test samples (N,), or None."""


class NaturalData(DatasetFamily):
    """A data set whose samples have owners, read from published files."""

    classes: ClassVar[int]
    share: ClassVar[int] = 0
    """Where no split is published, a random 1/`share` of each owner's samples is test, drawn by `data_seed`."""
    features: ClassVar[bool] = False
    """Whether x holds features (N, p), which are standardised by the training samples."""
    samples: ClassVar[int] = 0
    """The number of samples that the files must give; 0 if the number is not checked."""

    @abstractmethod
    def born(self, folder: Path) -> Born:
        """Return the samples in the files below the data root `folder`. The files' checksums have been checked."""

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        folder = self.fetch(root)
        try:
            x, y, client, test = self.born(folder)
            if self.samples not in (0, len(y)) or y.min() < 0 or y.max() >= self.classes:
                raise ValueError(f"{len(y)} samples with labels {y.min()} to {y.max()}")
        except Exception as error:  # any of pandas, NumPy or the json and wave modules
            raise self.refusal(folder, f"its files do not load: {error}") from error
        if test is None:
            rng = randomness.generator("natural_test", seed)
            test = drawn_of_each(client, rng, lambda sizes: sizes // self.share)
        return Dataset(scaled(x, test) if self.features else x, y, test, self.classes, client)


@dataclass(frozen=True)
class MNISTWriters(MNIST):
    """MNIST by the 539 writers of its training images (natural), 19 to 131 images each; QMNIST (2019) names the writers."""

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
        client = np.zeros(len(images.y), np.int64)  # test images have no owner: their 0 is not read
        client[~images.test] = np.unique(table[:, 2], return_inverse=True)[1]
        return replace(images, client=client)


def read_table(content: bytes, **options: Any) -> Any:
    """Return a pandas table of comma-separated values without a header. Columns are numbered from 0; `options` go to `read_csv`."""
    options |= {"skipinitialspace": True, "float_precision": "round_trip"}
    return pd.read_csv(io.BytesIO(content), header=None, **options)


@dataclass(frozen=True)
class WISDM(NaturalData):
    """WISDM 1.1: six activities of 36 people by their phones (natural by person), 5,418 windows of 43 features."""

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
    """Heart disease of 740 patients by four hospitals (natural; Janosi et al. 1988).

    As in FLamby's Fed-Heart-Disease, the columns slope, ca and thal are dropped, then patients who lack a value. This leaves
    303, 261, 46 and 130 patients. Two classes: no disease, or any. x (740, 13): eight values, then indicators of cp and
    restecg without their first values. A third of each hospital is test: FLamby's share, but another random draw.
    """

    source = "archive.ics.uci.edu/dataset/45 (CC BY 4.0)"
    published = tuple(
        Published(f"tabular/fed_heart_disease/processed.{hospital}.data")
        for hospital in ("cleveland", "hungarian", "switzerland", "va")
    )
    classes = 2
    share = 3
    features = True
    samples = 740

    def born(self, folder: Path) -> Born:
        # UCI's files have no header; copies from elsewhere have one, which begins with "age".
        options = {"comment": "a", "na_values": ["?", "-9", "-9.0"]}
        tables = []
        for file in self.published:
            patients = read_table(file.read(folder), **options)
            tables.append(patients.drop(columns=[10, 11, 12]).dropna())
        table = pd.concat(tables, keys=range(len(tables))).astype(float)
        y = (table.pop(13) > 0).to_numpy(np.int64)
        x = pd.get_dummies(table, columns=[2, 6], drop_first=True).to_numpy(float)
        return x, y, table.index.get_level_values(0).to_numpy(), None


@dataclass(frozen=True)
class Adult(NaturalData):
    """Adult: income above 50,000 dollars, by occupation (natural; Becker and Kohavi 1996).

    The 15 clients are the 14 occupations and `?`. x: standardised numbers, then an indicator of each category, also of `?`.
    The census weight fnlwgt is left out. The published split is kept: 32,561 training and 16,281 test samples.
    """

    source = "archive.ics.uci.edu/dataset/2 (CC BY 4.0)"
    published = (
        Published("tabular/adult/adult.data", "5d7c39d7b8804f071cdd1f2a7c460872"),
        Published("tabular/adult/adult.test", "35238206dfdf7f1fe215bbb874adecdc"),
    )
    classes = 2

    def born(self, folder: Path) -> Born:
        options = {"comment": "|", "keep_default_na": False}
        parts = [read_table(file.read(folder), **options) for file in self.published]
        table = pd.concat(parts, keys=[False, True]).drop(columns=2)
        test = table.index.get_level_values(0).to_numpy(bool)
        y = table.pop(14).str.startswith(">50K").to_numpy(np.int64)
        client = np.unique(table[6], return_inverse=True)[1]
        numbers = scaled(table.select_dtypes("number").to_numpy(), test)
        x = np.hstack([numbers, indicators(table.select_dtypes("object"), test)])
        return x, y, client, test


@dataclass(frozen=True)
class HAPT(NaturalData):
    """HAPT: 12 activities of 30 people by phone sensors (natural by person; Reyes-Ortiz et al. 2016).

    Acceleration and rotation at 50 Hz, in windows of 128 rows that begin every 64 rows of a labelled activity. x (N, 390):
    log(1 + |FFT|) of six channels at 65 frequencies. The published split is kept: nine of the people are test.
    """

    source = "archive.ics.uci.edu/dataset/341 (CC BY 4.0), whose RawData lies in it, or hapt_raw.npz with the same rows"
    published = (Published("hapt"),)
    classes = 12
    features = True
    samples = 10929

    def born(self, folder: Path) -> Born:
        signals, label, user, recording = self.recordings(folder / self.published[0].path)
        rows = np.stack([label, user, recording])
        # A window must not reach across a change of activity, person or recording.
        ends = np.flatnonzero((rows[:, 1:] != rows[:, :-1]).any(0)) + 1
        starts: list[int] = []
        for first, last in zip([0, *ends], [*ends, len(label)], strict=True):
            if label[first] > 0:
                starts += range(first, last - 128 + 1, 64)
        windowed = np.stack([signals[start : start + 128] for start in starts])
        spectrum = np.log1p(abs(np.fft.rfft(windowed.transpose(0, 2, 1)))).reshape(len(starts), -1)
        person, y = user[starts].astype(np.int64), label[starts].astype(np.int64) - 1
        return spectrum, y, person, np.isin(person, [2, 4, 9, 10, 12, 13, 18, 20, 24])

    def recordings(self, folder: Path) -> tuple[Array, ...]:
        """Return the sensor signals (rows, 6), and three arrays (rows,) with each row's label (-1 for none), person and recording."""
        if (folder / "hapt_raw.npz").is_file():
            with np.load(folder / "hapt_raw.npz", allow_pickle=False) as file:
                return tuple(file[name] for name in ("signals", "label", "user", "recording"))
        parts, labels = [], np.loadtxt(folder / "RawData" / "labels.txt", dtype=np.int64)
        for path in sorted((folder / "RawData").glob("acc_exp*_user*.txt")):
            experiment, person = map(int, re.findall(r"\d+", path.name))
            sensors = (path, path.with_name(path.name.replace("acc", "gyro")))
            signals = np.hstack([np.loadtxt(sensor, dtype=np.float32) for sensor in sensors])
            label = np.full(len(signals), -1)
            for _, _, activity, first, last in labels[labels[:, 0] == experiment]:
                label[first - 1 : last] = activity
            owners = np.full((2, len(signals)), [[person], [experiment]])
            parts.append((signals, label, *owners))
        return tuple(map(np.concatenate, zip(*parts, strict=True)))


def words(text: str) -> list[str]:
    """Return the lower-case words of a text. Each of the marks . , ! ? ; counts as a word."""
    return re.findall(r"[\w']+|[.,!?;]", text.lower())


def frequent(texts: Iterable[list[str]], number: int) -> dict[str, int]:
    """Return the ranks, from 0, of the `number` most frequent words. Equally frequent words are ranked in alphabetical order."""
    counts = Counter(chain.from_iterable(texts))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return dict(zip(ranked[:number], range(number), strict=False))


@dataclass(frozen=True)
class News20(NaturalData):
    """20 newsgroups by author (natural), words of subject and body (Lang 1995; the version by date).

    Clients are the 389 authors (addresses in `From:`) with at least five training mails each, 3,743 mails in all. All test
    mails are kept. x (N, 2000): log(1 + count) of the most frequent words in the kept training mails, scaled to length 1.
    Of a mail's headers x has only the subject, since others name the group.
    """

    source = "qwone.com/~jason/20Newsgroups, 20news-bydate.tar.gz (public posts)"
    published = (
        Published("news20/20news-bydate", "7ac20b1baa6345ed8748da57fb7c33bf", suffixes=("",)),
    )
    classes = 20

    def born(self, folder: Path) -> Born:
        from sklearn.feature_extraction.text import CountVectorizer

        rows = []
        for name, content in self.published[0].members(folder):
            part, group, _ = name.split("/")[-3:]
            header, _, body = content.decode("latin-1").partition("\n\n")
            author = re.search(r"^From:.*?([\w.+%-]+@[\w.-]+)", header, re.MULTILINE)
            subject = re.search(r"^Subject:(.*)$", header, re.MULTILINE)
            text = words(f"{subject[1] if subject else ''}\n{body}")
            rows.append((author and author[1].lower(), group, part.endswith("test"), text))
        mails = pd.DataFrame(rows, columns=["author", "group", "test", "words"])
        mails["group"] = pd.factorize(mails["group"], sort=True)[0]
        owner = mails["author"].where(~mails["test"])
        kept = mails["test"] | (owner.map(owner.value_counts()) >= 5)
        mails, owner, test = mails[kept], owner[kept], mails["test"][kept].to_numpy()
        # The vocabulary must not depend on test mails.
        rank = frequent(mails["words"][~test], 2000)
        counter = CountVectorizer(vocabulary=rank, analyzer=list, dtype=np.float32)
        x = np.log1p(counter.transform(mails["words"]).toarray())
        x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
        client = np.maximum(pd.factorize(owner, sort=True)[0], 0)  # a test mail's 0 is not read
        return x, mails["group"].to_numpy(), client, test


CHARACTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
"""LEAF's 80 characters; a character's token is its index in this string."""


def character_ids(texts: list[str], length: int) -> Array:
    """Return the character tokens of n texts, (n, length) uint8. Raise `ValueError` for a text of another length or an unknown character."""
    codes = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
    table = np.full(128, 255, np.uint8)
    table[np.frombuffer(CHARACTERS.encode(), np.uint8)] = np.arange(len(CHARACTERS))
    ids = np.where(codes < 128, table[codes % 128], 255).astype(np.uint8)
    if (ids == 255).any() or {*map(len, texts)} - {length}:
        raise ValueError(f"a text is not {length} characters of LEAF's alphabet long")
    return ids.reshape(len(texts), length)


@dataclass(frozen=True)
class ShakespeareText(NaturalData):
    """Shakespeare's plays as LEAF reads them: predict the next character (of 80), by role (natural; McMahan et al. 2017).

    Project Gutenberg's text, read by LEAF's rules, gives 1,130 roles and 4,226,206 samples. Each `stride`-th sample of a
    role is kept. The last fifth of a role's samples is test, as with LEAF's option `--tf 0.8`.
    """

    kind = "text"
    family = "shakespeare"
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
    """Return the text spoken by each role of each play, by LEAF's rules. A speech begins with a line `  Name. Text` and goes
    on in lines indented by four blanks. The Comedy of Errors has no indents; there a speech ends at a stage direction (`<`)
    or an act. Case in names is ignored, roles of one or two lines in a play are dropped, and repeated blanks become one.
    """
    author, last_line, speaker = "by William Shakespeare", 124196, r"([a-zA-Z][a-zA-Z ]*)\. (.*)"
    works = [number for number, line in enumerate(lines) if author in line][1:]  # not the sonnets
    spoken: dict[str, list[str]] = defaultdict(list)
    for start, end in zip(works, [*works[1:], last_line + 1], strict=True):
        title = next(filter(None, (lines[start - up].strip() for up in range(2, 8))))
        flat, name = title == "THE COMEDY OF ERRORS", ""
        play: dict[str, list[str]] = defaultdict(list)
        for line in lines[start + 1 : end]:
            speech = re.match(speaker, line if flat else line[2:])
            speech = speech if flat or line[:2] == "  " else None
            if speech:
                name = "" if flat and speech[1].upper().startswith("ACT ") else speech[1].upper()
                if name:
                    play[name].append(speech[2])
            elif flat and line[:1] == "<":
                name = ""
            elif name and (flat or line[:4] == "    "):
                play[name].append(line if flat else line[4:])
        for name, texts in play.items():
            if len(texts) > 2:
                spoken[re.sub(r"\W+", "_", f"{title}_{name}")] += texts
    return {role: re.sub("  +", " ", " ".join([*texts, ""])) for role, texts in spoken.items()}


def windows(texts: Iterable[str], length: int, stride: int) -> Born:
    """Return samples cut from each speaker's text, one every `stride` characters. x (N, length) holds the tokens of `length`
    characters, and y (N,) the token of the next character. The last fifth of a speaker's samples is for testing. Training
    samples that overlap with a test sample are left out, and so are speakers with fewer than 10 samples or no training sample.
    """
    parts: list[tuple[Array, ...]] = []
    for text in texts:
        starts = np.arange(0, len(text) - length, stride)
        first = starts[-(len(starts) // 5)] if len(starts) >= 10 else 0
        train = starts[starts + length < first]
        if len(train):
            used = np.concatenate([train, starts[starts >= first]])
            ids = character_ids([text], len(text))[0]
            x = np.lib.stride_tricks.sliding_window_view(ids, length)[used]
            parts.append((x, ids[used + length], np.full(len(used), len(parts)), used >= first))
    x, y, client, test = map(np.concatenate, zip(*parts, strict=True))
    return x.astype(np.float32), y.astype(np.int64), client, test


class Leaf(NaturalData):
    """A data set in LEAF's format (Caldas et al. 2018): files `train/*.json` and `test/*.json`, each with `users` and
    `user_data: {user: {x, y}}`. Users make the files with LEAF and a seed of their choice, so no checksum is published.
    """

    kind = "text"
    source = "github.com/TalwalkarLab/leaf: ./preprocess.sh -s niid --sf 1.0 -k 0 -t sample in data/NAME writes train and test"

    @abstractmethod
    def convert(self, x: list[Any], y: list[Any]) -> tuple[Array, Array]:
        """Return one user's samples (n, ...) and labels (n,) as arrays. Raise an exception if x or y is not in LEAF's format."""

    def born(self, folder: Path) -> Born:
        clients: dict[str, int] = {}
        pieces: list[tuple[Array, ...]] = []
        for part, files in enumerate(self.published):
            for name, content in files.members(folder):
                record = json.loads(content)
                for user in record["users"]:
                    x, y = self.convert(**record["user_data"][user])
                    if len(x) != len(y):
                        raise ValueError(f"{len(x)} samples, {len(y)} labels of {user!r} in {name}")
                    client = clients.setdefault(user, len(clients)) if len(y) else 0
                    pieces.append((x, y, np.full(len(y), client), np.full(len(y), part == 1)))
        x, y, owner, test = map(np.concatenate, zip(*pieces, strict=True))
        return self.samples_of(x, test), y, owner, test

    def samples_of(self, converted: Array, test: Array) -> Array:
        """Return all users' samples as an array (N, ...), float32. A vocabulary must not use the test samples, which `test` (N,) marks."""
        return converted.astype(np.float32, copy=False)


def _parts(name: str) -> tuple[Published, ...]:
    return tuple(Published(f"{name}/{part}", suffixes=(".json",)) for part in ("train", "test"))


@dataclass(frozen=True)
class FEMNIST(Leaf):
    """LEAF's FEMNIST 28x28 by writer (natural), 62 classes; pixels in [0, 1] with a white background of 1."""

    kind = "grey images"
    family = "emnist"
    published = _parts("femnist")
    classes = 62

    def convert(self, x: list[Any], y: list[Any]) -> tuple[Array, Array]:
        return np.array(x, np.float32).reshape(len(x), 1, 28, 28), np.array(y, np.int64)


@dataclass(frozen=True)
class Shakespeare(Leaf):
    """LEAF's Shakespeare: predict the next character (of 80), by speaking role (natural). x (N, 80) token ids."""

    published = _parts("shakespeare")
    classes = len(CHARACTERS)

    def convert(self, x: list[Any], y: list[Any]) -> tuple[Array, Array]:
        return character_ids(x, 80), character_ids(y, 1)[:, 0].astype(np.int64)


@dataclass(frozen=True)
class Sent140(Leaf):
    """LEAF's Sent140: sentiment of tweets by account (natural), token ids (Go et al. 2009).

    x (N, 25): the ids 2, 3, ... are the most frequent words of the training tweets, 1 is any other word, and 0 pads the end;
    there are `vocabulary` ids. The papers use GloVe vectors. Labels 1 and 4 are positive, 0 and 2 (neutral) are not.
    """

    published = _parts("sent140")
    classes = 2
    vocabulary: int = bounded(10000, low=3)

    def convert(self, x: list[Any], y: list[Any]) -> tuple[Array, Array]:
        positive, texts = {"0": 0, "2": 0, "1": 1, "4": 1}, np.empty(len(x), object)
        # A sample is LEAF's csv row, whose fifth entry is the text, or the text itself.
        texts[:] = [words(row if isinstance(row, str) else row[4]) for row in x]
        return texts, np.array([positive[str(label)] for label in y], np.int64)

    def samples_of(self, converted: Array, test: Array) -> Array:
        rank = frequent(converted[~test], self.vocabulary - 2)
        x = np.zeros((len(converted), 25), np.float32)
        for row, text in zip(x, converted, strict=True):
            ids = [rank.get(word, -1) + 2 for word in text[:25]]
            row[: len(ids)] = ids
        return x
