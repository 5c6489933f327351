"""Which known configuration to start from on a cell: its own, else the nearest cell's."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

from suite.configurations.configuration import Tuned
from suite.configurations.distance import Distance, nearest
from suite.studies.modelling import LAG, searched_by
from suite.studies.search_settings import SamplerName
from trials import algorithms, datasets, plugins
from trials.errors import UserError
from trials.place import SPELLING, Place
from trials.spec import outside

OTHERS = 3
"""How many further cells are named."""


@dataclass(frozen=True)
class Recommendation:
    """The best configuration of the nearest cell, and what else there is."""

    wanted: dict[str, str | None]
    best: Tuned
    distance: Distance
    compared: int
    others: tuple[tuple[Distance, Tuned], ...]

    @property
    def exact(self) -> bool:
        """Whether the configuration was tuned for this very cell."""
        return self.distance.total == 0

    def evidence(self) -> dict[str, Any]:
        """The evidence for the configuration: its scores, budget, settings and provenance."""
        settings = self.best.settings.model_dump(exclude_none=True)
        shown = ("rounds", "clients", "participation", "batch_size", "local_epochs", "local_steps")
        return {
            "scores": self.best.scores,
            "budget": self.best.budget,
            "settings": {key: settings[key] for key in shown if key in settings},
            "algorithms_tuned_on_that_cell": self.compared,
            "provenance": self.best.provenance,
        }

    def document(self) -> dict[str, Any]:
        """The JSON of `suite tuned recommend`."""
        return {
            "wanted": self.wanted,
            "exact": self.exact,
            "distance": {**asdict(self.distance), "total": self.distance.total},
            "configuration": self.best.model_dump(mode="json"),
            "evidence": self.evidence(),
            "others": [
                {"distance": d.total, "configuration": t.model_dump(mode="json")}
                for d, t in self.others
            ],
        }

    def lines(self) -> list[str]:
        """The recommendation for a person: how near, on what evidence, what else."""
        best, evidence = self.best, self.evidence()
        near = "This very cell"
        if not self.exact:
            near = f"The nearest cell: {best.place}, {self.distance}"
        metric = f"test_{datasets.parse(best.dataset).task.metric}"
        seeds = len(best.scores.get("test_by_seed", {}))
        interval = best.scores.get("test_interval_95") or []
        low, high = interval if len(interval) == 2 else (None, None)
        between = "" if low is None or high is None else f" [{low:.4g}, {high:.4g}]"
        score = best.scores.get(metric)
        measured = "no recorded score" if score is None else f"{metric} {score:.4g}{between}"
        budget = ", ".join(f"{value} {key}" for key, value in _budget(best).items())
        settings = ", ".join(f"{key} {value}" for key, value in evidence["settings"].items())
        lines = [
            f"{near}; {best.algorithm} validates best of {self.compared} algorithms tuned there.",
            f"Evidence: {measured} over {seeds} final seeds ({budget or 'budget not recorded'}).",
            f"Tuned under: {settings}. Other settings may want another learning rate.",
        ]
        for away, other in self.others:
            lines.append(f"Else: {other.algorithm} on {other.place}, {away}.")
        return lines


def recommend(
    found: Sequence[Tuned],
    dataset: str,
    level: str,
    algorithm: str | None = None,
    model: str | None = None,
) -> Recommendation:
    """The best by validation score of the nearest cell. Without an algorithm, of all that leaderboards
    rank; without a model, of any model.

    Raises `UserError` on unknown names, and when nothing known belongs to the data set's task.
    """
    name = algorithms.canonical(algorithm) if algorithm else None
    dataset, level = SPELLING["dataset"](dataset), SPELLING["heterogeneity"](level)
    model = SPELLING["model"](model) if model else None
    able = [item for item in found if item.algorithm == name or (name is None and _ranked(item))]
    if model is None:
        ranked = [
            pair
            for m in {t.model for t in able}
            for pair in nearest(Place(dataset, m, level), [t for t in able if t.model == m])
        ]
    else:
        ranked = nearest(Place(dataset, model, level), able)
    ranked.sort(key=lambda pair: (pair[0].total, pair[1].loss, pair[1].algorithm, pair[1].model))
    if not ranked:
        what = f"of {name} " if name else ""
        raise UserError(
            f"no tuned configuration {what}fits {dataset}: see `suite tuned list`, make one with "
            "`suite sweep`, or add some with `suite tuned import`"
        )
    away, best = ranked[0]
    there = {t.algorithm for _, t in ranked if t.place == best.place}
    cells: dict[Place, tuple[Distance, Tuned]] = {}
    for pair in ranked:
        cells.setdefault(pair[1].place, pair)
    others = [pair for place, pair in cells.items() if place != best.place]
    wanted = {"algorithm": name, "dataset": dataset, "model": model, "heterogeneity": level}
    return Recommendation(wanted, best, away, len(there), tuple(others[:OTHERS]))


def _budget(item: Tuned) -> dict[str, Any]:
    """What its file says of the search, the sampler by what it came to (`searched_by`)."""
    budget = item.budget
    sampler, trials = str(budget.get("sampler")), budget.get("trials")
    if sampler not in get_args(SamplerName) or not isinstance(trials, int):
        return budget
    confirming = budget.get("confirming", 0)
    asked = trials - (confirming if isinstance(confirming, int) else 0)
    scheduler = str(budget.get("scheduler", "none"))
    return {**budget, "sampler": searched_by(sampler, scheduler, asked, LAG)}


def _ranked(item: Tuned) -> bool:
    """Whether leaderboards rank it: neither a reference nor outside its paper's setting."""
    if plugins.named(item.algorithm):
        return True  # of others' code nothing is known that does not run it
    cls = algorithms.resolve(item.algorithm)
    return not cls.reference and not outside(cls, item.settings)
