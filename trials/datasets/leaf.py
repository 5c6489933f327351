"""LEAF's json files (Caldas et al. 2018): who has which samples, in a training and a test part."""

import json
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from trials.common import names
from trials.common.names import bounded
from trials.datasets.base import Dataset, DatasetFamily
from trials.datasets.published import Array, Arrays, Published, cached

CHARACTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
"""LEAF's 80 characters; a token is a place in this string."""
WORDS = 25
"""Tokens of a tweet, as in LEAF."""


def _parts(folder: str) -> tuple[Published, ...]:
    return tuple(Published(f"{folder}/{part}", suffixes=(".json",)) for part in ("train", "test"))


class Leaf(DatasetFamily):
    """A data set in LEAF's format: files `train/*.json` and `test/*.json` below its folder, each with
    `users`, `num_samples` and `user_data: {user: {x, y}}`. A user is a client.

    LEAF draws its samples and splits with a seed of the person's, so no checksum is published: each file must be
    whole, and every user must have the announced number of samples. What was read is kept in the user's cache.
    """

    kind = "text"
    source = (
        "a checkout of LEAF (github.com/TalwalkarLab/leaf): in the folder of the same name below data/, "
        "./preprocess.sh -s niid --sf 1.0 -k 0 -t sample makes data/train and data/test"
    )
    classes: ClassVar[int]

    @abstractmethod
    def convert(self, x: list[Any], y: list[Any]) -> tuple[Array, Array]:
        """Return one user's samples as arrays (n, ...) and labels (n,); raises `ValueError` saying what is
        wrong with them.
        """

    def samples(self, pieces: list[Array], test: Array) -> Array:
        """Return x (N, ...) of what `convert` made of each user, in pieces; `test` (N,) says which are test."""
        return np.concatenate(pieces)

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        folder = self.fetch(root)
        key = " ".join(part.digest(folder) for part in self.published)
        name = names.spell(type(self).__name__, self)

        def read() -> Arrays:
            try:
                return self._arrays(part.members(folder) for part in self.published)
            except (ValueError, TypeError, AttributeError, KeyError) as error:
                place = (folder / self.published[0].path).parent
                expected = "LEAF json whose users, num_samples and user_data agree"
                raise self.wrong(folder, place, expected, str(error)) from None

        kept = cached(name, key, read)
        x = kept["x"].astype(np.float32, copy=False)
        return Dataset(x, kept["y"], kept["test"], self.classes, kept["client"])

    def _arrays(self, parts: Iterable[Iterable[tuple[str, bytes]]]) -> Arrays:
        """Return x, y, test and client of the files, name and content, of the training and the test part."""
        index: dict[str, int] = {}
        pieces, labels, tests, owners = [], [], [], []
        for number, files in enumerate(parts):
            for name, content in files:
                for user, x, y in self._users(name, json.loads(content)):
                    pieces.append(x)
                    labels.append(y)
                    tests.append(np.full(len(y), number == 1))
                    owners.append(np.full(len(y), index.setdefault(user, len(index))))
        y, test, client = (np.concatenate(column) for column in (labels, tests, owners))
        if not 0 < test.sum() < len(test):
            raise ValueError("one of the two parts without a sample")
        return {"x": self.samples(pieces, test), "y": y, "test": test, "client": client}

    def _users(self, name: str, content: Any) -> Iterator[tuple[str, Array, Array]]:
        """Yield user, samples and labels; raises `ValueError` saying what is wrong with the file."""
        users, announced = content["users"], content["num_samples"]
        for user, number in zip(users, announced, strict=True):
            held = content["user_data"].pop(user)
            if not len(held["x"]) == len(held["y"]) == number:
                raise ValueError(
                    f"{name} with {len(held['x'])} samples and {len(held['y'])} labels of {number} of user {user!r}"
                )
            if number:
                samples, labels = self.convert(held["x"], held["y"])
                if labels.min() < 0 or labels.max() >= self.classes:
                    raise ValueError(f"{name} with labels beyond 0..{self.classes - 1}")
                yield user, samples, labels


@dataclass(frozen=True)
class FEMNIST(Leaf):
    """FEMNIST of LEAF (Caldas et al. 2018): characters of 62 classes by writer, 28x28, pixels as LEAF
    writes them, in [0, 1] with a white background of 1. LEAF's own training and test parts.
    """

    kind = "grey images"
    family = "emnist"
    summary = "LEAF's FEMNIST 28x28 by writer (natural), 62 classes"
    published = _parts("femnist")
    classes = 62

    def convert(self, x: list[list[float]], y: list[int]) -> tuple[Array, Array]:
        return np.array(x, np.float32).reshape(len(x), 1, 28, 28), np.array(y, np.int64)


def character_ids(texts: list[str], length: int) -> Array:
    """Return (n, length) uint8 places in `CHARACTERS`; raises `ValueError` on another length or character."""
    if any(len(text) != length for text in texts):
        raise ValueError(f"a text of other than {length} characters")
    codes = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
    table = np.full(128, 255, np.uint8)
    table[[ord(char) for char in CHARACTERS]] = np.arange(len(CHARACTERS))
    ids = np.where(codes < 128, table[codes % 128], 255).astype(np.uint8)
    if ids.max() == 255:
        raise ValueError(f"the character {chr(codes[ids == 255][0])!r}, which LEAF does not have")
    return ids.reshape(len(texts), length)


@dataclass(frozen=True)
class Shakespeare(Leaf):
    """LEAF's Shakespeare (McMahan et al. 2017, Caldas et al. 2018): the next character after 80, of
    80 characters, by speaking role. x (N, 80) token ids; LEAF's own training and test parts.
    """

    summary = "LEAF's Shakespeare: next of 80 characters, by speaking role (natural)"
    published = _parts("shakespeare")
    classes = len(CHARACTERS)

    def convert(self, x: list[str], y: list[str]) -> tuple[Array, Array]:
        return character_ids(x, 80), character_ids(y, 1)[:, 0].astype(np.int64)


def words(text: str) -> list[str]:
    """Return lower-case words, and the marks . , ! ? ; as words of their own."""
    return re.findall(r"[\w']+|[.,!?;]", text.lower())


def frequent(texts: Iterable[list[str]], number: int) -> dict[str, int]:
    """Return the most frequent words and their rank from 0; equally frequent ones in alphabetical order."""
    counts = Counter(word for text in texts for word in text)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return {word: rank for rank, word in enumerate(ranked[:number])}


def bags(texts: Collection[list[str]], rank: dict[str, int], size: int) -> Array:
    """Return how often each ranked word occurs in each text, (N, size) uint16."""
    x = np.zeros((len(texts), size), np.uint16)
    for row, text in zip(x, texts, strict=True):
        for word, times in Counter(text).items():
            if word in rank:
                row[rank[word]] = min(times, np.iinfo(np.uint16).max)
    return x


@dataclass(frozen=True)
class Sent140(Leaf):
    """LEAF's Sent140 (Go et al. 2009, Caldas et al. 2018): is a tweet positive? By account; LEAF's
    own training and test parts. x (N, 25) token ids: 0 pads at the end, 1 is any other word, and
    2, 3, ... are the most frequent words of the training tweets, `vocabulary` ids in all.

    Reading: the papers use GloVe vectors; here a model learns its embedding from the training text alone. Labels 0 and
    2 (neutral) are not positive, 1 and 4 are, as in LEAF's and FedProx's files.
    """

    family = "sent140"
    summary = "LEAF's Sent140: sentiment of tweets by account (natural), token ids"
    published = _parts("sent140")
    classes = 2
    vocabulary: int = bounded(10000, low=3)

    def convert(self, x: list[Any], y: list[Any]) -> tuple[Array, Array]:
        """Return texts and sentiments as numbers: the text is a sample's fifth entry (LEAF's csv row), or the sample itself."""
        positive = {"0": 0, "2": 0, "1": 1, "4": 1}
        texts = np.empty(len(x), object)
        for i, row in enumerate(x):
            text = row if isinstance(row, str) else row[4] if len(row) > 4 else None
            if not isinstance(text, str):
                raise ValueError(f"a sample without a text: {row!r}")
            texts[i] = words(text)
        return texts, np.array([positive[str(label)] for label in y], np.int64)

    def samples(self, pieces: list[Array], test: Array) -> Array:
        texts = np.concatenate(pieces)
        rank = frequent(texts[~test], self.vocabulary - 2)
        x = np.zeros((len(texts), WORDS), np.float32)
        for row, text in zip(x, texts, strict=True):
            ids = [rank.get(word, -1) + 2 for word in text[:WORDS]]
            row[: len(ids)] = ids
        return x


@dataclass(frozen=True)
class Sent140BagOfWords(Sent140):
    """Sent140 for linear models: x (N, vocabulary), how often each of the most frequent words of the
    training tweets occurs in a tweet; other words are left out.
    """

    summary = "LEAF's Sent140 as counts of the most frequent training words"
    vocabulary: int = bounded(1000, low=3)

    def samples(self, pieces: list[Array], test: Array) -> Array:
        texts = np.concatenate(pieces)
        rank = frequent(texts[~test], self.vocabulary)
        return bags(texts, rank, self.vocabulary)
