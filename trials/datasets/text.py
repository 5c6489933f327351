"""Text: LEAF's Shakespeare (next character, by speaking role) and Sent140 (sentiment, by account)."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from trials.common.errors import UserError
from trials.datasets.base import Array
from trials.datasets.leaf import Leaf

CHARACTERS = "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
"""LEAF's 80 characters; a token is a place in this string."""

WORDS = 25
"""Tokens of a tweet, as in LEAF."""


def character_ids(texts: list[str], length: int) -> Array:
    """(n, length) uint8 places in `CHARACTERS`; raises `ValueError` on another length or character."""
    if any(len(text) != length for text in texts):
        raise ValueError(f"a text of other than {length} characters")
    codes = np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)
    table = np.full(128, 255, np.uint8)
    table[[ord(char) for char in CHARACTERS]] = np.arange(len(CHARACTERS))
    ids = np.where(codes < 128, table[codes % 128], 255).astype(np.uint8)
    if ids.max() == 255:
        raise ValueError(f"the character {chr(codes[ids == 255][0])!r}, which LEAF does not have")
    return ids.reshape(len(texts), length)


def windows(spoken: Iterable[str], length: int, stride: int) -> tuple[Array, Array, Array, Array]:
    """Samples of who speaks what: x (N, length) float32 places in `CHARACTERS`, the next one y (N,), whether it is
    test, and whose it is. One begins every `stride` characters.

    The last fifth of each one's samples is test, less those training ones that overlap with it. Who has
    fewer than 10 samples, or none to train on, is left out.
    """
    x, y = [np.empty((0, length), np.uint8)], [np.empty(0, np.uint8)]
    test, client = [np.empty(0, bool)], [np.empty(0, np.int64)]
    for text in spoken:
        starts = np.arange(0, len(text) - length, stride)
        first = starts[-(len(starts) // 5)] if len(starts) >= 10 else 0
        trained = starts[starts + length < first]
        if not len(trained):
            continue
        used = np.concatenate([trained, starts[starts >= first]])
        ids = character_ids([text], len(text))[0]
        x.append(np.lib.stride_tricks.sliding_window_view(ids, length)[used])
        y.append(ids[used + length])
        test.append(used >= first)
        client.append(np.full(len(used), len(client) - 1))
    return (
        np.concatenate(x).astype(np.float32),
        np.concatenate(y).astype(np.int64),
        np.concatenate(test),
        np.concatenate(client),
    )


@dataclass(frozen=True)
class Shakespeare(Leaf):
    """LEAF's Shakespeare (McMahan et al. 2017, Caldas et al. 2018): the next character after 80, of
    80 characters, by speaking role. x (N, 80) token ids; LEAF's own training and test parts.
    """

    kind = "text"
    summary: ClassVar[str] = "LEAF's Shakespeare: next of 80 characters, by speaking role (natural)"
    folder: ClassVar[str] = "shakespeare"
    classes: ClassVar[int] = len(CHARACTERS)

    def convert(self, x: list[str], y: list[str]) -> tuple[Array, Array]:
        """Texts of 80 characters and labels of one, as numbers."""
        return character_ids(x, 80), character_ids(y, 1)[:, 0].astype(np.int64)


def words(text: str) -> list[str]:
    """Lower-case words, and the marks . , ! ? ; as words of their own."""
    return re.findall(r"[\w']+|[.,!?;]", text.lower())


def frequent(texts: Iterable[list[str]], number: int) -> dict[str, int]:
    """The most frequent words and their rank from 0; equally frequent ones in alphabetical order."""
    counts = Counter(word for text in texts for word in text)
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    return {word: rank for rank, word in enumerate(ranked[:number])}


@dataclass(frozen=True)
class Sent140(Leaf):
    """LEAF's Sent140 (Go et al. 2009, Caldas et al. 2018): is a tweet positive? By account; LEAF's
    own training and test parts. x (N, 25) token ids: 0 pads at the end, 1 is any other word, and
    2, 3, ... are the most frequent words of the training tweets, `vocabulary` ids in all.

    Reading: the papers use 300-dimensional GloVe vectors, which are not at hand, so tokens come from
    the training text alone and a model learns its embedding. Labels 0 and 2 (neutral) are not
    positive, 1 and 4 are, as in LEAF's and FedProx's files.
    """

    kind = "text"
    family = "sent140"
    summary: ClassVar[str] = "LEAF's Sent140: sentiment of tweets by account (natural), token ids"
    folder: ClassVar[str] = "sent140"
    classes: ClassVar[int] = 2
    vocabulary: int = 10000

    def __post_init__(self) -> None:
        if self.vocabulary < 3:
            raise UserError(
                f"sent140(vocabulary): vocabulary >= 3 must hold, got {self.vocabulary}"
            )

    def convert(self, x: list[Any], y: list[Any]) -> tuple[Array, Array]:
        """Texts and sentiments as numbers: the text is a sample's fifth entry (LEAF's csv row), or the sample itself."""
        positive = {"0": 0, "2": 0, "1": 1, "4": 1}
        if not {str(label) for label in y} <= set(positive):
            raise ValueError(f"labels {sorted({str(label) for label in y})} of 0, 1, 2, 4")
        texts = np.empty(len(x), object)
        for i, row in enumerate(x):
            text = row if isinstance(row, str) else row[4] if len(row) > 4 else None
            if not isinstance(text, str):
                raise ValueError(f"a sample without a text: {row!r}")
            texts[i] = words(text)
        return texts, np.array([positive[str(label)] for label in y], np.int64)

    def samples(self, pieces: list[Array], test: Array) -> Array:
        return self._encode(np.concatenate(pieces), test)

    def _encode(self, texts: Array, test: Array) -> Array:
        known = frequent(texts[~test], self.vocabulary - 2)
        x = np.zeros((len(texts), WORDS), np.float32)
        for row, text in zip(x, texts, strict=True):
            ids = [known.get(word, -1) + 2 for word in text[:WORDS]]
            row[: len(ids)] = ids
        return x


@dataclass(frozen=True)
class Sent140BagOfWords(Sent140):
    """Sent140 for linear models: x (N, vocabulary), how often each of the most frequent words of the
    training tweets occurs in a tweet; other words are left out.
    """

    summary: ClassVar[str] = "LEAF's Sent140 as counts of the most frequent training words"
    vocabulary: int = 1000

    def _encode(self, texts: Array, test: Array) -> Array:
        known = frequent(texts[~test], self.vocabulary)
        x = np.zeros((len(texts), self.vocabulary), np.float32)
        for row, text in zip(x, texts, strict=True):
            for word in text:
                if word in known:
                    row[known[word]] += 1
        return x
