"""Made-up papers whose truth is known, judged by the rules of `suite reproduce --readings`.

python benchmarks/planted_papers.py --papers 2000 --output docs/results

A paper prints what runs of a bank (`planted_bank.py`) gave under a reading that is drawn: one of the declared, or one that is
not. It prints 1 to 3 rows, accuracies or rounds to a target, means of 1, 3 or 5 runs, rounded. Its own method's number is
honest, or 1, 2 or 4 tolerances too high, or another variant's, or stands beside a handicapped FedAvg. The judge has three
other seeds of every declared reading, and does not know how many runs the paper made.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import nan, sqrt
from pathlib import Path

import numpy as np

from measuring import parser
from planted_bank import BANKS, FOLDER
from planted_judge import KINDS, Claim, Judged, Values, draw, judge
from reports.claims.fit import FAILS, HOLDS, NONE_FITS
from reports.document import Block, Heading, Text, markdown
from reports.table import table

FAILED_WORD = dict.fromkeys(KINDS, FAILS) | {"number": f"{FAILS} (not said)"}
TINY = 1e-3
"""A share of which nothing was seen counts as this."""
ABOUT = (
    "A planted paper prints what runs gave under a reading that is known: one of those that its file declares, or another. "
    "It prints one row or more, accuracies or rounds to a target, means of one run or several. Half of the papers are "
    "honest. The others print their own number 1, 2 or 4 tolerances too high, or another variant's, or FedAvg's 4 "
    "tolerances too low. The judge is the code of `suite reproduce --readings`; it has three other seeds of each "
    "declared reading, and takes each number for one run.",
    "`number`: the own printed number is a mean of the method's runs. `order`: the own method is above, or below, a "
    "baseline, by a coin, and true by all seeds of the bank. `as good`: it is within the tolerance of the baseline.",
    "What was not reached, and what follows. *Some reading fits* most papers whose truth is not declared, for other values "
    "give the same numbers (a rate of 0.01 with momentum is one of 0.1 without). So a page says that a reading *fits*, "
    "never that it explains the table, or is what the paper did; and it prints how often shifted numbers would be fitted. *Holds* "
    "is said of few true claims, since runs spread by more than the tolerance, so *undecided* says nothing against a "
    "claim. Of a printed number *does not hold* is never said, since its likelihood ratio on one bank would be below 5 (the line `not "
    "said`). *No reading fits* describes what was found; with one row and few readings it tells nothing of the truth. Both errors of each word, which are what a reader relies on, are in the tables.",
)


@dataclass(frozen=True)
class Share:
    """How often something is so, of how many papers or claims."""

    hits: int
    of: int

    @classmethod
    def among(cls, found: Iterable[bool]) -> "Share":
        """Of yes and no."""
        many = list(found)
        return cls(sum(many), len(many))

    @property
    def value(self) -> float:
        """The share; NaN of nothing."""
        return self.hits / self.of if self.of else nan

    @property
    def error(self) -> float:
        """Its Monte Carlo standard error."""
        return sqrt(max(self.value * (1 - self.value), 1e-12) / self.of) if self.of else nan


@dataclass(frozen=True)
class Figure:
    """A figure, and what it is to reach: at most or at least so much; neither: it is only shown."""

    says: str
    share: Share
    at_most: float | None = None
    at_least: float | None = None

    @property
    def target(self) -> str:
        """What is to be reached."""
        if self.at_most is not None:
            return f"at most {self.at_most:g}"
        return "" if self.at_least is None else f"at least {self.at_least:g}"

    @property
    def reached(self) -> str:
        """Whether it is."""
        if not self.target:
            return ""
        low = self.at_least is None or self.share.value >= self.at_least
        return "yes" if low and (self.at_most is None or self.share.value <= self.at_most) else "no"


def figures(judged: Sequence[Judged]) -> list[Figure]:
    """On which readings fit, and on each word for each kind of claim."""
    inside = [one for one in judged if one.paper.inside and one.paper.lie != "handicapped"]
    outside = [one for one in judged if not one.paper.inside and one.paper.lie != "handicapped"]
    rows = {n: [one for one in outside if (len(one.paper.rows) > 1) == (n > 1)] for n in (1, 2)}
    found = [
        Figure(
            "the true reading fits",
            Share.among(bool(one.fits[one.paper.truth]) for one in inside),
            at_least=0.9,
        ),
        Figure(f"{NONE_FITS}, the truth is declared", _none(inside), at_most=0.1),
        Figure(
            "some reading fits, the truth is not declared, two rows or more",
            _some(rows[2]),
            at_most=0.1,
        ),
        Figure("some reading fits, the truth is not declared, one row", _some(rows[1])),
    ]
    for kind in KINDS:
        said = [(one, c) for one in judged for c in one.claims if c.kind == kind]
        true, false = ([c for _, c in said if c.true == t] for t in (True, False))
        named = [c for one, c in said if c.true and one.paper.variant is not None]
        fails = f"{kind}: {FAILED_WORD[kind]}"
        found += [
            Figure(f"{kind}: {HOLDS}, it is false", _holds(false), at_most=0.05),
            Figure(f"{fails}, it is true", _fails(true), at_most=0.05),
            Figure(
                f"{kind}: {HOLDS}, it is true, its variant is named", _holds(named), at_least=0.6
            ),
            Figure(f"{kind}: {HOLDS}, it is true", _holds(true)),
            Figure(f"{fails}, it is false", _fails(false)),
        ]
    return found


def _none(judged: Sequence[Judged]) -> Share:
    return Share.among(not one.fits.any() for one in judged)


def _some(judged: Sequence[Judged]) -> Share:
    return Share.among(bool(one.fits.any()) for one in judged)


def _holds(claims: Sequence[Claim]) -> Share:
    return Share.among(c.answer.verdict == HOLDS for c in claims)


def _fails(claims: Sequence[Claim]) -> Share:
    return Share.among(c.fails for c in claims)


def likelihood_ratios(judged: Sequence[Judged]) -> list[tuple[str, float]]:
    """How many times as often each word is said where it is right as where it is wrong."""
    sound = [one for one in judged if one.paper.lie != "handicapped"]
    parts = [[one for one in sound if one.paper.inside == inside] for inside in (False, True)]
    found = [(NONE_FITS, _none(parts[0]).value / max(_none(parts[1]).value, TINY))]
    for kind in KINDS:
        true, false = (
            [c for one in judged for c in one.claims if c.kind == kind and c.true == t]
            for t in (True, False)
        )
        ratio = _holds(true).value / max(_holds(false).value, TINY)
        found.append((f"{kind}: {HOLDS}", ratio))
        found.append(
            (f"{kind}: {FAILED_WORD[kind]}", _fails(false).value / max(_fails(true).value, TINY))
        )
    return found


def calibration(judged: Sequence[Judged], kinds: Sequence[str]) -> tuple[float, list[list[str]]]:
    """The mean distance between stated probabilities and how often such claims are true, and both by tenths."""
    said = [
        (c.answer.probability, float(c.true))
        for one in judged
        for c in one.claims
        if c.kind in kinds and c.answer.probability is not None
    ]
    p, true = np.array(said).T
    tenth = np.minimum((10 * p).astype(int), 9)
    lines, error = [], 0.0
    for n in range(10):
        here = tenth == n
        if here.any():
            error += abs(p[here].mean() - true[here].mean()) * here.mean()
            lines.append(
                [
                    f"{n / 10:.1f} to {n / 10 + 0.1:.1f}",
                    f"{p[here].mean():.2f}",
                    f"{true[here].mean():.2f}",
                    str(here.sum()),
                ]
            )
    return error, lines


def bank_blocks(name: str, papers: int) -> list[Block]:
    """A bank's part of the page."""
    values, rng = Values.read(name), np.random.default_rng(0)
    judged = [judge(values, draw(values, rng)) for _ in range(papers)]
    scenarios, _, _, seeds = values.accuracy.shape
    outside = values.accuracy.shape[1] - values.declared
    about = (
        f"{values.bank.model} on digits, {values.declared} declared readings and {outside} others, {seeds} seeds, levels "
        f"{', '.join(level for level, _ in values.bank.scenarios[:scenarios])}; {papers} papers."
    )
    lines = [
        [
            f.says,
            f"{f.share.value:.3f}",
            f"{f.share.error:.3f}",
            str(f.share.of),
            f.target,
            f.reached,
        ]
        for f in figures(judged)
        if f.share.of
    ]
    ratios = [
        [word, f"{ratio:.1f}", "5", "yes" if ratio >= 5 else "no"]
        for word, ratio in likelihood_ratios(judged)
    ]
    error, tenths = calibration(judged, KINDS[1:])
    return [
        Heading(f"Bank {name}", level=2),
        Text(about),
        table(["figure", "share", "Monte Carlo error", "of", "target", "reached"], lines),
        Text("How many times as often a word is said where it is right as where it is wrong:"),
        table(["word", "likelihood ratio", "at least", "reached"], ratios),
        Text(
            f"Stated probabilities of statements are off by {error:.3f} in the mean (target: at most 0.05, "
            f"{'reached' if error <= 0.05 else 'not reached'}):"
        ),
        table(["stated", "mean", "true", "statements"], tenths),
    ]


def page(papers: int, banks: Sequence[str]) -> str:
    """What all banks say, as Markdown."""
    command = f"python benchmarks/planted_papers.py --papers {papers} --output docs/results"
    parts: list[Block] = [
        Heading("Planted papers: how often the words on readings are right", level=1)
    ]
    parts += [Text(text) for text in ABOUT]
    parts.append(
        Text(
            f"`{command}` writes this page from the banks in `benchmarks/planted`, which `python benchmarks/planted_bank.py` makes."
        )
    )
    for name in banks:
        parts += bank_blocks(name, papers)
    return markdown(parts) + "\n"


def main() -> None:
    """The command."""
    made = parser(__doc__)
    made.add_argument("--papers", type=int, default=2000)
    made.add_argument("--output", type=Path, help="folder that planted_papers.md is written to")
    given = made.parse_args()
    text = page(given.papers, [name for name in BANKS if (FOLDER / f"{name}.npz").exists()])
    if given.output is not None:
        (given.output / "planted_papers.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
