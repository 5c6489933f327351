"""Which known configuration to start from on a scenario: its own, else the nearest scenario's."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from suite.configurations.configuration import Tuned
from suite.configurations.distance import Distance, nearest
from suite.studies.samplers import LAG, searched_by
from trials import algorithms
from trials.common import plugins
from trials.common.errors import UserError
from trials.run.scenario import SPELLING, Scenario
from trials.run.spec import outside, refuse
from trials.settings import Settings

OTHERS = 3
"""How many further scenarios are named."""


@dataclass(frozen=True)
class Adapted:
    """A configuration for a scenario that it was not tuned for, and what was changed of it, in words."""

    configuration: Tuned
    changes: tuple[str, ...]


@dataclass(frozen=True)
class Recommendation:
    """The best configuration of the nearest scenario, the same for the scenario that was asked for, and what else
    there is.
    """

    wanted: dict[str, str | None]
    best: Tuned
    adapted: Adapted
    distance: Distance
    compared: int
    others: tuple[tuple[Distance, Tuned], ...]

    @property
    def exact(self) -> bool:
        """Whether the configuration was tuned for this very scenario."""
        return self.distance.total == 0

    def evidence(self) -> dict[str, Any]:
        """The evidence for the configuration: its scores, budget, settings and provenance."""
        settings = self.best.settings.model_dump(exclude_none=True)
        shown = ("rounds", "clients", "participation", "batch_size", "local_epochs", "local_steps")
        return {
            "scores": self.best.scores,
            "budget": self.best.budget,
            "settings": {key: settings[key] for key in shown if key in settings},
            "algorithms_tuned_on_that_scenario": self.compared,
            "provenance": self.best.provenance,
        }

    def document(self) -> dict[str, Any]:
        """The JSON of `suite tuned recommend`."""
        return {
            "wanted": self.wanted,
            "exact": self.exact,
            "distance": {**asdict(self.distance), "total": self.distance.total},
            "configuration": self.best.model_dump(mode="json"),
            "adapted": self.adapted.configuration.model_dump(mode="json"),
            "adaptations": list(self.adapted.changes),
            "evidence": self.evidence(),
            "others": [
                {"distance": d.total, "configuration": t.model_dump(mode="json")}
                for d, t in self.others
            ],
        }

    def lines(self) -> list[str]:
        """The recommendation for a person: how near, on what evidence, what else."""
        best, evidence = self.best, self.evidence()
        near = "This very scenario"
        if not self.exact:
            near = f"The nearest scenario: {best.scenario}, {self.distance}"
        metric = f"test_{best.task.metric}"
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
        if self.adapted.changes:
            lines.append(f"Adapted: {'; '.join(self.adapted.changes)}.")
        for away, other in self.others:
            lines.append(f"Else: {other.algorithm} on {other.scenario}, {away}.")
        return lines


def recommend(
    found: Sequence[Tuned],
    dataset: str,
    level: str,
    algorithm: str | None = None,
    model: str | None = None,
    clients: int | None = None,
) -> Recommendation:
    """The best by validation score of the nearest scenario, adapted to the scenario asked for, and to so many
    clients. Without an algorithm, of all that leaderboards rank; without a model, of any model.

    Raises `UserError` on unknown names, and when nothing known belongs to the data set's task.
    """
    if clients is not None and not 1 <= clients < 2**63:
        raise UserError(f"--clients {clients}: must be at least 1, and below 2^63")
    name = algorithms.canonical(algorithm) if algorithm else None
    dataset, level = SPELLING["dataset"](dataset), SPELLING["heterogeneity"](level)
    model = SPELLING["model"](model) if model else None
    able = [item for item in found if _asked_for(item, name) and _takes(item, level)]
    ranked = ranking(able, dataset, level, model)
    if not ranked:
        what = f"of {name} " if name else ""
        raise UserError(
            f"no tuned configuration {what}fits {dataset}: see `suite tuned list`, make one with "
            "`suite sweep`, or add some with `suite tuned import`"
        )
    away, best = ranked[0]
    there = {t.algorithm for _, t in ranked if t.scenario == best.scenario}
    scenarios: dict[Scenario, tuple[Distance, Tuned]] = {}
    for pair in ranked:
        scenarios.setdefault(pair[1].scenario, pair)
    others = [pair for scenario, pair in scenarios.items() if scenario != best.scenario]
    wanted = {"algorithm": name, "dataset": dataset, "model": model, "heterogeneity": level}
    adapted = adapt(best, Scenario(dataset, model or best.model, level), clients)
    return Recommendation(wanted, best, adapted, away, len(there), tuple(others[:OTHERS]))


def ranking(
    found: Sequence[Tuned],
    dataset: str,
    level: str,
    model: str | None = None,
    measured: float | None = None,
) -> list[tuple[Distance, Tuned]]:
    """Configurations with their distances, nearest scenario first, in a scenario the best validated first; without
    a model each is as near as its model lets it. `measured` is the data's skew, where the level has none.
    """
    if model is None:
        ranked = [
            pair
            for m in {t.model for t in found}
            for pair in nearest(
                Scenario(dataset, m, level), [t for t in found if t.model == m], measured
            )
        ]
    else:
        ranked = nearest(Scenario(dataset, model, level), found, measured)
    return sorted(ranked, key=lambda pair: (pair[0].total, pair[1].loss, *_names(pair[1])))


def adapt(item: Tuned, wanted: Scenario, clients: int | None = None) -> Adapted:
    """A configuration for another scenario. As many clients take part in a round as did where it was tuned; how
    a round is computed is left to the new model. Scores, which are of the other scenario, are left out.
    """
    old = item.settings
    new: dict[str, Any] = {}
    if wanted.heterogeneity.startswith("natural") and clients is None:
        new["clients"] = None
    elif clients is not None:
        new["clients"] = clients
    if old.clients and new.get("clients") and new["clients"] != old.clients:
        selected = max(1, round(old.participation * old.clients))
        new["participation"] = float(f"{min(1.0, selected / new['clients']):.6g}")
    if wanted.model != item.model:
        new |= {"execution": None, "chunk": None}
    settings = Settings(**{**old.model_dump(), **new})
    pairs = [(part, getattr(item, part), name) for part, name in wanted.names().items()]
    pairs += [(key, getattr(old, key), getattr(settings, key)) for key in new]
    changes = [f"{key} {_said(was)} -> {_said(now)}" for key, was, now in pairs if was != now]
    if not changes:
        return Adapted(item, ())
    tuned_for = {"adapted_from": str(item.scenario), **item.provenance}
    content = {**item.model_dump(), **wanted.names(), "settings": settings}
    made = Tuned(**{**content, "scores": {}, "provenance": tuned_for})
    return Adapted(made, (*changes, f"its scores, those of {item.scenario}, are left out"))


def _said(value: Any) -> str:
    return "as many as there are" if value is None else str(value)


def _names(item: Tuned) -> tuple[str, str]:
    return item.algorithm, item.model


def _takes(item: Tuned, level: str) -> bool:
    """Whether the algorithm can run at a level under the configuration's settings; of others' code, which
    does not run for an answer, it is taken to.
    """
    if plugins.named(item.algorithm):
        return True
    try:
        refuse(item.algorithm, algorithms.resolve(item.algorithm), item.settings, level)
    except UserError:
        return False
    return True


def _budget(item: Tuned) -> dict[str, Any]:
    """What its file says of the search, the sampler by what it came to (`searched_by`)."""
    budget = item.budget
    sampler, trials = str(budget.get("sampler")), budget.get("trials")
    if "sampler" not in budget or not isinstance(trials, int):
        return budget
    confirming = budget.get("confirming", 0)
    asked = trials - (confirming if isinstance(confirming, int) else 0)
    return {**budget, "sampler": searched_by(sampler, asked, LAG)}


def _asked_for(item: Tuned, name: str | None) -> bool:
    return _ranked(item) if name is None else algorithms.is_named(item.algorithm, name)


def rivals(name: str) -> bool:
    """Whether a method is no reference, and its code is still there where it is others'."""
    if plugins.named(name):
        try:
            plugins.file_of(name)
        except UserError:
            return False
    return not algorithms.resolve(name).reference


def _ranked(item: Tuned) -> bool:
    """Whether leaderboards rank it: neither a reference nor outside its paper's setting."""
    if plugins.named(item.algorithm):
        return True  # of others' code nothing is known that does not run it
    cls = algorithms.resolve(item.algorithm)
    return not cls.reference and not outside(cls, item.settings)
