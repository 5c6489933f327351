"""Records of institutions and groups: heart disease by hospital, incomes by occupation, mails by author."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from trials.common.errors import UserError
from trials.common.lazy import Lazy
from trials.datasets.base import Dataset, FileReport, data_root, report
from trials.datasets.cache import Arrays, cached
from trials.datasets.natural.published import (
    Content,
    PublishedData,
    Tree,
    share_of_each,
    standardised,
)
from trials.datasets.text import frequent, words

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = Lazy("pandas")


@dataclass(frozen=True)
class HeartDisease(PublishedData):
    """Heart disease by hospital (Janosi et al. 1988), prepared as FLamby's Fed-Heart-Disease (Ogier du Terrail
    et al. 2022): slope, ca and thal are dropped, then patients with an absent value, which leaves
    303, 261, 46 and 130 of Cleveland, Hungary, Switzerland and Long Beach. Two classes: none,
    or any disease. x (740, 13): eight values, and cp and restecg as indicators without their
    first; standardised by the training patients. A third of each hospital is test, drawn by
    `data_seed` (FLamby's share; its own draw is another).
    """

    summary: ClassVar[str] = "heart disease of 740 patients by four hospitals (natural)"
    source: ClassVar[str] = "archive.ics.uci.edu/dataset/45 (CC BY 4.0)"
    hospitals: ClassVar[tuple[str, ...]] = ("cleveland", "hungarian", "switzerland", "va")
    columns: ClassVar[str] = (
        "age sex cp trestbps chol fbs restecg thalach exang oldpeak slope ca thal target"
    )
    counts: ClassVar[tuple[int, ...]] = (303, 294, 123, 200)
    folder: ClassVar[str] = "tabular/fed_heart_disease"

    def files(self, root: Path) -> list[FileReport]:
        """The four files, by the number of their patients."""
        reports = []
        for hospital, count in zip(self.hospitals, self.counts, strict=True):
            place = self._place(root, hospital)
            found = None
            if place.is_file():
                try:
                    found = f"{len(self._patients(root, hospital))} patients"
                except (ValueError, UnicodeError) as error:
                    found = f"a damaged table ({error})"
            reports.append(report(place.name, place, f"{count} patients", found, self.remedy(root)))
        return reports

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        folder = self.fetch(root)
        kept = [
            self._patients(folder, hospital).drop(columns=["slope", "ca", "thal"]).dropna()
            for hospital in self.hospitals
        ]
        client = np.repeat(np.arange(len(kept)), [len(table) for table in kept])
        table = pd.concat(kept, ignore_index=True)
        y = (table.pop("target") > 0).to_numpy(np.int64)
        x = pd.get_dummies(table, columns=["cp", "restecg"], drop_first=True).to_numpy(float)
        test = share_of_each(client, 3, seed)
        return Dataset(standardised(x, test), y, test, 2, client)

    def _place(self, root: Path, hospital: str) -> Path:
        return root / self.folder / f"processed.{hospital}.data"

    def _patients(self, root: Path, hospital: str) -> pd.DataFrame:
        """A hospital's table; UCI's files have no header, and ? or nothing for what is absent."""
        lines = self._place(root, hospital).read_text().splitlines()
        rows = [line.split(",") for line in lines if line and not line.startswith("age")]
        table = pd.DataFrame(rows, columns=self.columns.split())
        return table.replace({"?": None, "": None, "-9": None, "-9.0": None}).astype(float)


@dataclass(frozen=True)
class Adult(PublishedData):
    """Adult by occupation (Becker and Kohavi 1996): does a person earn over 50,000 dollars? 15 clients are the
    14 occupations of the training part and `?`. x: numbers standardised by the training persons, then
    an indicator of each category (`?` is one). fnlwgt, a weight of the census, is left out. The published split,
    32,561 and 16,281.
    """

    summary: ClassVar[str] = "Adult: income above 50,000 dollars, by occupation (natural)"
    source: ClassVar[str] = "archive.ics.uci.edu/dataset/2 (CC BY 4.0)"
    folder: ClassVar[str] = "tabular/adult"
    published: ClassVar[tuple[Content | Tree, ...]] = (
        Content("tabular/adult/adult.data", "5d7c39d7b8804f071cdd1f2a7c460872"),
        Content("tabular/adult/adult.test", "35238206dfdf7f1fe215bbb874adecdc"),
    )
    columns: ClassVar[str] = (
        "age workclass fnlwgt education education_num marital_status occupation relationship race sex "
        "capital_gain capital_loss hours_per_week native_country income"
    )
    numbers: ClassVar[tuple[str, ...]] = (
        "age", "education_num", "capital_gain", "capital_loss", "hours_per_week",
    )  # fmt: skip

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        folder = self.fetch(root)
        parts = [
            self._people(file.read(folder)) for file in self.published if isinstance(file, Content)
        ]
        test = np.repeat([False, True], [len(part) for part in parts])
        table = pd.concat(parts, ignore_index=True)
        y = table["income"].str.startswith(">50K").to_numpy(np.int64)
        numbers = standardised(table[list(self.numbers)].astype(float).to_numpy(), test)
        categories = table.drop(columns=[*self.numbers, "fnlwgt", "income"])
        x = np.hstack([numbers, pd.get_dummies(categories).to_numpy(np.float32)])
        _, client = np.unique(table["occupation"], return_inverse=True)
        return Dataset(x, y, test, 2, client)

    def _people(self, content: bytes) -> pd.DataFrame:
        rows = [line.split(", ") for line in content.decode().splitlines() if line.count(",") == 14]
        return pd.DataFrame(rows, columns=self.columns.split())


@dataclass(frozen=True)
class News20(PublishedData):
    """20 newsgroups by author (Lang 1995; the version by date): to which of 20 groups does a mail belong? Clients are
    the authors, by the address in `From:`, of at least `mails` training mails: 389 of 5, who wrote 3,743. The
    published test part is whole: 7,532 mails.

    x (N, `vocabulary`): log(1 + count) of the most frequent words of the kept training mails' subjects and
    bodies, scaled to length 1. Other headers are left out, since they tell the group.
    """

    summary: ClassVar[str] = "20 newsgroups by author (natural), words of subject and body"
    source: ClassVar[str] = "qwone.com/~jason/20Newsgroups, 20news-bydate.tar.gz (public posts)"
    folder: ClassVar[str] = "news20"
    mails_of: ClassVar[Tree] = Tree(
        "news20/20news-bydate",
        "",
        18846,
        "b6e38ad5f963d89f05ee5eff1b5c6eb2bbc785cd65e7dfb6906d1e29f5485ec4",
    )
    published: ClassVar[tuple[Content | Tree, ...]] = (mails_of,)
    mails: int = 5
    vocabulary: int = 2000

    def __post_init__(self) -> None:
        if self.mails < 1 or self.vocabulary < 1:
            raise UserError(
                f"news20(mails, vocabulary): both must be at least 1, got {self.mails} and {self.vocabulary}"
            )

    def load(self, seed: int, clients: int | None, root: str | None) -> Dataset:
        place, key = data_root(root) / self.folder, self.stamp(data_root(root))
        name = f"news20-{self.mails}-{self.vocabulary}.npz"
        found = cached(place, name, key, lambda: self._arrays(self.fetch(root)))
        x = np.log1p(found["counts"].astype(np.float32))
        x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
        return Dataset(x, found["y"], found["test"], 20, found["client"])

    def _arrays(self, folder: Path) -> Arrays:
        """Counts (N, vocabulary) of the kept mails, with label, part and author."""
        authors, texts, groups, tests = [], [], [], []
        for name, content in self.mails_of.members(folder):
            part, group, _ = name.split("/")[-3:]
            author, text = mail(content.decode("latin-1"))
            authors.append(author)
            texts.append(words(text))
            groups.append(group)
            tests.append(part.endswith("test"))
        test = np.array(tests)
        count = Counter(a for a, t in zip(authors, tests, strict=True) if a and not t)
        kept = test | np.array([count[a] >= self.mails for a in authors])
        y = np.unique(groups, return_inverse=True)[1]
        chosen = [text for text, keep in zip(texts, kept, strict=True) if keep]
        test = test[kept]
        known = frequent(
            (t for t, held in zip(chosen, test, strict=True) if not held), self.vocabulary
        )
        counts = np.zeros((len(chosen), self.vocabulary), np.uint16)
        for row, found in zip(counts, chosen, strict=True):
            for word, times in Counter(found).items():
                if word in known:
                    row[known[word]] = min(times, np.iinfo(np.uint16).max)
        client = np.zeros(len(chosen), np.int64)  # of test mails it is never read
        names = np.array(authors)[kept]
        client[~test] = np.unique(names[~test], return_inverse=True)[1]
        return {"counts": counts, "y": y[kept].astype(np.int64), "test": test, "client": client}


def mail(text: str) -> tuple[str, str]:
    """The author's address in lower case ("" where there is none), and the subject and body of a mail."""
    header, _, body = text.partition("\n\n")
    found = re.search(r"^From:.*?([\w.+%-]+@[\w.-]+)", header, re.MULTILINE)
    subject = re.search(r"^Subject:(.*)$", header, re.MULTILINE)
    return found[1].lower() if found else "", f"{subject[1] if subject else ''}\n{body}"
