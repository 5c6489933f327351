"""Made-up papers whose truth is known, judged by the rules of `suite reproduce --readings`.

python benchmarks/planted_papers.py --papers 2000 --output docs/results

A paper prints what runs of a bank (`planted_bank.py`) gave under a reading that is drawn: one of the declared, or one that is
not. It prints 1 to 3 rows, accuracies or rounds to a target, means of 1, 3 or 5 runs, rounded; one in ten has a
handicapped FedAvg. The judge has three other seeds of every declared reading, and does not know how many runs the paper
made.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import nan, sqrt
from pathlib import Path

import numpy as np

from measuring import parser
from planted_bank import BANKS, FOLDER
from planted_judge import KINDS, Claim, Judged, Values, draw, judge
from reports.claims.fit import LEAST, LIKELY, UNDECIDED, UNLIKELY, word
from reports.document import Block, Heading, Items, Text, markdown
from reports.table import table

TINY = 1e-3
"""A share of which nothing was seen counts as this."""
OTHERS = "some reading is left, the truth is not declared"
ABOUT = (
    "A planted paper prints what runs gave under a reading that is known: one of those that its file declares, or another. "
    "It prints one row or more, accuracies or rounds to a target, means of one run or several. One paper in ten prints "
    "FedAvg's numbers 4 tolerances worse. The judge is the code of `suite reproduce --readings`; it has three other seeds of each "
    "declared reading, and takes each number for one run.",
    "`order`: the own method is above, or below, a baseline, by a coin, and true by all seeds of the bank. `as good`: it is "
    "within the tolerance of the baseline.",
    "Each word has two error rates, and has to be said five times as often where it is right as where it is wrong. "
    "What was not reached, and which word is gone for it:",
)
GONE = (
    "*Fits*, *explains*, *no reading fits*: most papers whose truth is not declared leave some reading, for other values "
    "give the same numbers (a rate of 0.01 with momentum is one of 0.1 without). So a page says of a reading only that it is *ruled "
    "out* or *left*. How many are left is counted, and nothing follows from it.",
    "*Holds*, *does not hold*: they were to be said of at least 0.6 of true statements, and were not. *Likely* and *unlikely*, from a "
    "chance of 0.75 on, promise only their error rates. On the bank digits 0.75 is the least step of 0.05 at which at most 5 % of false "
    "statements are likely and of true ones unlikely; the bank mlp is the test. The lines with the target 0.6 show how far they "
    "come, where runs spread by more than the differences. So *undecided* says nothing against a statement.",
    "Probabilities: the chance behind the words is off by more than 0.05 on one bank. No page or document states it.",
    "Any word on a printed number of the own method: such numbers spread by more than their tolerance, so few true ones were told "
    "from false ones. A page shows them beside what was measured.",
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
    """On which readings are left, and on each word for each kind of statement."""
    inside, outside = _sound(judged, True), _sound(judged, False)
    several, one_row = (
        [one for one in outside if (len(one.paper.rows) > 1) == many] for many in (True, False)
    )
    found = [
        Figure("the true reading is left", _true(inside), at_least=0.9),
        Figure("no reading is left, the truth is declared", _none(inside), at_most=0.1),
        Figure(f"{OTHERS}, two rows or more", _some(several), at_most=0.1),
        Figure(f"{OTHERS}, one row", _some(one_row)),
        Figure("the true reading is ruled out", _out(inside, True), at_most=0.05),
        Figure("another declared reading is ruled out", _out([*inside, *outside], False)),
    ]
    for kind in KINDS:
        true, false = claims(judged, kind, True), claims(judged, kind, False)
        named = claims([one for one in judged if one.paper.variant is not None], kind, True)
        likely = [c for c in (*true, *false) if says(c) == LIKELY]
        found += [
            Figure(f"{kind}: {LIKELY}, it is false", share(false, LIKELY), at_most=0.05),
            Figure(f"{kind}: {UNLIKELY}, it is true", share(true, UNLIKELY), at_most=0.05),
            Figure(
                f"{kind}: {LIKELY}, it is true, its variant is named",
                share(named, LIKELY),
                at_least=0.6,
            ),
            Figure(f"{kind}: {LIKELY}, it is true", share(true, LIKELY)),
            Figure(f"{kind}: {UNLIKELY}, it is false", share(false, UNLIKELY)),
            Figure(
                f"{kind}: true, of those that are {LIKELY}", Share.among(c.true for c in likely)
            ),
        ]
    return found


def _sound(judged: Sequence[Judged], inside: bool) -> list[Judged]:
    """The papers whose truth is declared, or is not, and whose baselines' numbers are honest."""
    return [one for one in judged if one.paper.inside == inside and not one.paper.handicapped]


def _true(judged: Sequence[Judged]) -> Share:
    return Share.among(bool(one.left[one.paper.truth]) for one in judged)


def _none(judged: Sequence[Judged]) -> Share:
    return Share.among(not one.left.any() for one in judged)


def _some(judged: Sequence[Judged]) -> Share:
    return Share.among(bool(one.left.any()) for one in judged)


def _out(judged: Sequence[Judged], true: bool) -> Share:
    """How often the true reading, or another declared one, is ruled out."""
    return Share.among(
        not left
        for one in judged
        for reading, left in enumerate(one.left.tolist())
        if (reading == one.paper.truth) == true
    )


def claims(judged: Sequence[Judged], kind: str, true: bool) -> list[Claim]:
    """The statements of a kind that are true, or are not."""
    return [c for one in judged for c in one.claims if c.kind == kind and c.true == true]


def says(claim: Claim, least: float = LEAST) -> str:
    """The judge's word on a statement."""
    return UNDECIDED if claim.chance is None else word(claim.chance, least)


def share(of: Sequence[Claim], said: str, least: float = LEAST) -> Share:
    """How often a word is said."""
    return Share.among(says(claim, least) == said for claim in of)


def likelihood_ratios(judged: Sequence[Judged]) -> list[tuple[str, float]]:
    """How many times as often each word is said where it is right as where it is wrong."""
    inside, outside = _sound(judged, True), _sound(judged, False)
    pairs = [
        ("no reading is left (not said)", _none(outside), _none(inside)),
        ("ruled out", _out([*inside, *outside], False), _out(inside, True)),
    ]
    for kind in KINDS:
        for said, right in ((LIKELY, True), (UNLIKELY, False)):
            shares = (share(claims(judged, kind, true), said) for true in (right, not right))
            pairs.append((f"{kind}: {said}", *shares))
    return [(said, right.value / max(wrong.value, TINY)) for said, right, wrong in pairs]


def steps(judged: Sequence[Judged]) -> list[list[str]]:
    """Of each least chance the larger error of both kinds of statements, and the smaller share of right words."""
    lines = []
    for least in np.arange(0.5, 1, 0.05):
        by = {
            (said, true): [share(claims(judged, kind, true), said, least).value for kind in KINDS]
            for said in (LIKELY, UNLIKELY)
            for true in (True, False)
        }
        wrong = max(by[LIKELY, False]), max(by[UNLIKELY, True])
        right = min(by[LIKELY, True]), min(by[UNLIKELY, False])
        lines.append([f"{least:.2f}", *(f"{value:.3f}" for value in (*wrong, *right))])
    return lines


def calibration(judged: Sequence[Judged]) -> float:
    """The mean distance, over tenths, between the chances of statements and how often such statements are true."""
    known = [
        (c.chance.within, c.true) for one in judged for c in one.claims if c.chance is not None
    ]
    p, true = np.array(known, float).T
    tenth = np.minimum((10 * p).astype(int), 9)
    here = [tenth == n for n in range(10)]
    return float(sum(abs(p[h].mean() - true[h].mean()) * h.mean() for h in here if h.any()))


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
        [said, f"{ratio:.1f}", "5", "yes" if ratio >= 5 else "no"]
        for said, ratio in likelihood_ratios(judged)
    ]
    error = calibration(judged)
    return [
        Heading(f"Bank {name}", level=2),
        Text(about),
        table(["figure", "share", "Monte Carlo error", "of", "target", "reached"], lines),
        Text("How many times as often a word is said where it is right as where it is wrong:"),
        table(["word", "likelihood ratio", "at least", "reached"], ratios),
        Text(
            f"Chances of statements, taken for probabilities, are off by {error:.3f} in the mean (target: at most 0.05, "
            f"{'reached' if error <= 0.05 else 'not reached'})."
        ),
        Text(
            "Words from another least chance on; of both kinds of statements the larger share of errors, and the smaller of right words:"
        ),
        table(
            [
                "least chance",
                f"{LIKELY}, false",
                f"{UNLIKELY}, true",
                f"{LIKELY}, true",
                f"{UNLIKELY}, false",
            ],
            steps(judged),
        ),
    ]


def page(papers: int, banks: Sequence[str]) -> str:
    """What all banks say, as Markdown."""
    command = f"python benchmarks/planted_papers.py --papers {papers} --output docs/results"
    parts: list[Block] = [
        Heading("Planted papers: how often the words on readings are right", level=1)
    ]
    parts += [*map(Text, ABOUT), Items(GONE)]
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
