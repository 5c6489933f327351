"""Papers made up from a bank (`planted_bank.py`), and what the rules of `suite reproduce --readings` make of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from planted_bank import BANKS, BASELINES, FOLDER, METHODS, Bank
from reports.claims.chances import Chance, Sample, chances
from reports.claims.fit import weighted
from reports.claims.metrics import Metric, metric
from reports.claims.verdicts import AgreementRange
from reports.claims.weights import Array, Bools, FittedRow, Ints, weigh

SEEDS = 3
"""Of the judge."""
TARGETS = (70, 80, 85, 90)
OWN = range(BASELINES, len(METHODS))
FEDAVG = 0
BOUNDS = np.zeros(BASELINES, np.int64)
KINDS = ("order", "as good")


@dataclass(frozen=True)
class Values:
    """What a bank gives: accuracies (scenario, reading, method, seed) in percent, last and best scored, and rounds to each target."""

    bank: Bank
    accuracy: Array
    rounds_to: Mapping[int, Array]
    declared: int

    @classmethod
    def read(cls, name: str) -> "Values":
        """Each reading twice, declared ones first: `last` is scored, then `best`."""
        kept = np.load(FOLDER / f"{name}.npz")
        bank, declared = BANKS[name], int(kept["declared"])
        curves = 100.0 * kept["correct"] / kept["tests"]

        def twice(last: Array, best: Array) -> Array:
            parts = [last[:, :declared], best[:, :declared], last[:, declared:], best[:, declared:]]
            return np.concatenate(parts, 1)

        rounds = {}
        for target in TARGETS:
            hit = curves[..., 1:] >= target
            first = np.where(hit.any(-1), hit.argmax(-1) + 1.0, np.inf)
            rounds[target] = twice(first, first)
        accuracy = twice(curves[..., -1], curves[..., 1:].max(-1))
        return cls(bank, accuracy, rounds, 2 * declared)

    def of(self, wanted: Metric) -> Array:
        """(scenario, reading, method, seed)."""
        return self.rounds_to[int(wanted.arguments[0])] if wanted.arguments else self.accuracy


@dataclass(frozen=True)
class Row:
    """A printed row: its scenario and metric, and the baselines' numbers. The row's statements compare the own method with
    the baseline `other`: it is more (`above`) or less, or as good; `ordered` and `as_good`: whether they are true.
    """

    scenario: int
    wanted: Metric
    baselines: Array
    other: int
    above: bool
    ordered: bool
    as_good: bool


@dataclass(frozen=True)
class Paper:
    """A made-up paper; `variant` is the own method's that it names, None where it names none; `seeds` are the judge's."""

    truth: int
    inside: bool
    runs: int
    handicapped: bool
    variant: int | None
    rows: Sequence[Row]
    seeds: Sequence[int]


def draw(values: Values, rng: np.random.Generator) -> Paper:
    """A paper."""
    scenarios, readings, _, seeds = values.accuracy.shape
    inside = bool(rng.random() < 0.6)
    ends = (0, values.declared) if inside else (values.declared, readings)
    truth, order = int(rng.integers(*ends)), rng.permutation(seeds)
    runs = int(rng.choice([n for n in (1, 3, 5) if n + SEEDS <= seeds]))
    handicapped = bool(rng.random() < 0.1)
    variant, by_rounds = int(rng.choice(list(OWN))), bool(rng.random() < 0.5)
    named = variant if rng.random() < 0.5 else None
    rows = []
    for scenario in rng.permutation(scenarios)[: rng.integers(1, scenarios + 1)].tolist():
        wanted = metric(f"rounds_to({rng.choice(TARGETS)})" if by_rounds else "test_accuracy")
        rows.append(_row(values, (scenario, truth, variant), wanted, handicapped, order[:runs]))
    return Paper(truth, inside, runs, handicapped, named, rows, order[runs : runs + SEEDS].tolist())


def _row(
    values: Values, at: tuple[int, int, int], wanted: Metric, handicapped: bool, seeds: Ints
) -> Row:
    scenario, truth, variant = at
    found = values.of(wanted)[scenario, truth]
    if wanted.arguments:
        found = np.where(np.isfinite(found), found, values.bank.rounds + 1.0)
    means, better = found.mean(1), 1 if wanted.kind.better == "more" else -1
    shown = found[:BASELINES, seeds].mean(1)
    if handicapped:
        shown[FEDAVG] -= better * 4 * wanted.tolerance(shown[FEDAVG])
    other = int(seeds[0]) % BASELINES
    gap, above = means[variant] - means[other], bool(seeds[0] // BASELINES % 2)
    return Row(
        scenario,
        wanted,
        np.round(shown, 0 if wanted.arguments else 2),
        other,
        above,
        bool(gap > 0) == above,
        bool(abs(gap) <= wanted.apart(means[other])),
    )


@dataclass(frozen=True)
class Claim:
    """A statement of a paper, whether it is true, and its chance as the judge has it; None where no reading is left."""

    kind: str
    true: bool
    chance: Chance | None


@dataclass(frozen=True)
class Judged:
    """What the judge makes of a paper: which of the declared readings it leaves, and its claims."""

    paper: Paper
    left: Bools
    claims: Sequence[Claim]


def judge(values: Values, paper: Paper) -> Judged:
    """By the functions of the command, with the declared readings' other seeds."""
    rows, last = [], values.bank.rounds
    for row in paper.rows:
        found = values.of(row.wanted)[row.scenario, : values.declared][:, :, paper.seeds]
        found = np.where(np.isfinite(found), found, last + 1.0)[:, :BASELINES]
        never = (row.baselines > last).astype(np.int64) if row.wanted.arguments else 0 * BOUNDS
        tolerance = np.array([row.wanted.tolerance(x) for x in row.baselines])
        rows.append(FittedRow.of(row.baselines, never, tolerance, np.moveaxis(found, 2, 1)))
    taken = np.repeat(np.arange(values.declared)[:, None], len(rows), 1)
    weighed = weigh(rows, taken)
    left = np.flatnonzero(weighed.left).tolist()
    variants = list(OWN) if paper.variant is None else [paper.variant]
    numbered = dict(enumerate((r, m) for r in left for m in variants))
    weights = {n: float(weighed.weight[r]) for n, (r, _) in numbered.items()}
    claims = []
    for row in paper.rows:
        for kind, true in zip(KINDS, (row.ordered, row.as_good), strict=True):
            samples = _samples(values, paper, row, kind, list(numbered.values()))
            claims.append(Claim(kind, true, weighted(chances(samples), weights)))
    return Judged(paper, weighed.left, claims)


def _samples(
    values: Values, paper: Paper, row: Row, kind: str, at: Sequence[tuple[int, int]]
) -> dict[int, Sample]:
    """What the judge's runs say of a claim under each (reading, variant): as `reports.claims.judged.samples` does."""
    wanted, last = row.wanted, values.bank.rounds
    found = values.of(wanted)[row.scenario][:, :, paper.seeds]
    if wanted.arguments:
        found = np.where(np.isfinite(found), found, last + 1.0)
    readings, methods = np.array(at).T if at else np.zeros((2, 0), int)
    other = found[readings, row.other]
    runs = found[readings, methods] - other
    relation = "~" if kind == "as good" else ">" if row.above else "<"
    ranges = [AgreementRange.of(relation, 0.0, wanted.apart(size)) for size in other.mean(1)]
    moments = zip(ranges, runs.mean(1).tolist(), runs.var(1, ddof=1).tolist(), strict=True)
    return {
        n: Sample(allowed, mean, spread, SEEDS) for n, (allowed, mean, spread) in enumerate(moments)
    }
