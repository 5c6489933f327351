"""LEAF's json files (Caldas et al. 2018): who has which samples, in a training and a test part."""

import json
from abc import abstractmethod
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trials.common import names
from trials.datasets.base import Array, Dataset, DatasetFamily, FileReport, data_root, joined, md5
from trials.datasets.cache import Arrays, cached, packed

FORMAT = "1"
"""The version of what is kept, to be changed with what `convert` and `samples` make of a file."""
EXPECTED = "LEAF json whose users, num_samples and user_data agree"
MALFORMED = (ValueError, TypeError, AttributeError)
"""What reading a file raises that is json, but not of this form, or is cut off."""


class Leaf(DatasetFamily):
    """A data set in LEAF's format: files `train/*.json` and `test/*.json` below its folder, each with
    `users`, `num_samples` and `user_data: {user: {x, y}}`. A user is a client.

    LEAF draws its samples and splits with a seed of the person's, so no checksum is published: each
    file must be whole, and every user must have the announced number of samples, that fit the task.
    What was read and found good is kept as .npz beside the files, or in the user's cache where they
    are read-only, with the files' checksums, and read from there while these are the same.
    """

    folder: ClassVar[str]
    classes: ClassVar[int]

    @abstractmethod
    def convert(self, x: list[Any], y: list[Any]) -> tuple[Array, Array]:
        """One user's samples as arrays (n, ...) and labels (n,); raises `ValueError` saying what is
        wrong with them.
        """

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        folder = self._complete(root)
        place = folder / self.folder
        sums = [f"{path.parent.name}/{path.name} {md5(path)}" for path in self._paths(folder)]
        key = f"{FORMAT} {sha256(chr(10).join(sums).encode()).hexdigest()}"
        name = names.spell(f"parsed-{type(self).__name__.lower()}", self)
        found = cached(place, f"{name}.npz", key, lambda: self._arrays(folder))
        x = found["x"].astype(np.float32, copy=False)
        return Dataset(x, found["y"], found["test"], self.classes, found["client"])

    def samples(self, pieces: list[Array], test: Array) -> Array:
        """x (N, ...) of what `convert` made of each user, in pieces; `test` (N,) says which are test."""
        return joined(pieces)

    def _arrays(self, folder: Path) -> Arrays:
        pieces, y, test, client = self._read(folder)
        x = packed(self.samples(pieces, test))
        return {"x": x, "y": y, "test": test, "client": client}

    def _read(self, folder: Path) -> tuple[list[Array], Array, Array, Array]:
        """The samples of one user and part after the other, in pieces; labels, test and owner (N,)."""
        index: dict[str, int] = {}
        pieces, labels, tests, owners = [], [], [], []
        for path in self._paths(folder):
            try:
                for user, x, y in self._users(path):
                    pieces.append(x)
                    labels.append(y)
                    tests.append(np.full(len(y), path.parent.name == "test"))
                    owners.append(np.full(len(y), index.setdefault(user, len(index))))
            except MALFORMED as error:
                raise self.wrong(folder, path, EXPECTED, str(error)) from None
        y, test, client = (np.concatenate(column) for column in (labels, tests, owners))
        return pieces, y, test, client

    def files(self, root: Path) -> list[FileReport]:
        """A report of each file, which is read to the end."""
        reports = []
        for part in ("train", "test"):
            place = root / self.folder / part
            if not list(place.glob("*.json")):
                name = f"{self.folder}/{part}/*.json"
                remedy = self.remedy(root)
                reports.append(FileReport(name, place, EXPECTED, None, False, remedy))
        for path in self._paths(root):
            fault = None
            try:
                for _ in self._users(path):
                    pass
            except MALFORMED as error:
                fault = str(error)
            remedy = self.remedy(root) if fault else ""
            name = f"{self.folder}/{path.parent.name}/{path.name}"
            found = fault or md5(path)
            reports.append(FileReport(name, path, EXPECTED, found, fault is None, remedy))
        return reports

    def remedy(self, root: Path) -> str:
        return (
            f"In a checkout of LEAF (github.com/TalwalkarLab/leaf), in data/{self.folder}:\n"
            f"./preprocess.sh -s niid --sf 1.0 -k 0 -t sample; then copy data/train and data/test "
            f"into {root / self.folder}/,\n"
            f"or name the folder that holds {self.folder}/ with --data-root or SUITE_DATA."
        )

    def _paths(self, root: Path) -> list[Path]:
        return [
            path
            for part in ("train", "test")
            for path in sorted((root / self.folder / part).glob("*.json"))
        ]

    def _complete(self, root: str | None) -> Path:
        """The data root; both parts must be there. What is in them is checked as it is read."""
        folder = data_root(root)
        parts = {path.parent.name for path in self._paths(folder)}
        return folder if parts == {"train", "test"} else self.fetch(root)

    def _users(self, path: Path) -> Iterator[tuple[str, Array, Array]]:
        """User, samples and labels; raises `ValueError` saying what is wrong with the file."""
        content = json.loads(path.read_bytes())
        if not isinstance(content, dict) or not {"users", "num_samples", "user_data"} <= set(
            content
        ):
            raise ValueError("no users, num_samples and user_data in it")
        users, announced, data = content["users"], content["num_samples"], content["user_data"]
        if len(users) != len(announced):
            raise ValueError(f"{len(users)} users, but {len(announced)} num_samples")
        for user, number in zip(users, announced, strict=True):
            held = data.pop(user, {})
            x, y = held.get("x", []), held.get("y", [])
            if not len(x) == len(y) == number:
                raise ValueError(
                    f"user {user!r} with {len(x)} samples and {len(y)} labels of {number}"
                )
            if not number:
                continue
            samples, labels = self.convert(x, y)
            if labels.min() < 0 or labels.max() >= self.classes:
                raise ValueError(
                    f"user {user!r} with label {labels.min()}..{labels.max()}, which must be "
                    f"0..{self.classes - 1}"
                )
            yield user, samples, labels
