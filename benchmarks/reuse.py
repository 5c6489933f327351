"""Compare short searches that reuse settings of other data sets with long ones, judged by fresh seeds on test data.

    python benchmarks/reuse.py run RESULTS --workers 16 --minutes 6      # repeat it: each call continues
    python benchmarks/reuse.py show RESULTS --output docs/results/reuse.json --figure docs/results/reuse.svg

An arm is a sampler with a number of trials. All arms search the same ranges with the suite's own search, without Ray and MLflow.
The sampler `line` gets companions (tuned hyperparameters other than the learning rate) from other families of data sets only.
The winner of a search runs again with five fresh seeds. A run that several arms share is made once. Differences are in points
of test accuracy, and their standard errors are clustered by scenario.
"""

import hashlib
import itertools
import json
import multiprocessing
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from measuring import TABLES, parser, show
from suite.configurations.companions import (
    Companions,
    Measurement,
    companions_of,
    measure,
    recorded,
)
from suite.search.candidates import EntrySearch
from suite.search.trial import TrialRequest, ValidationResult
from suite.studies.entries import Entry, make_entries
from suite.studies.study import Study, check_study
from trials import datasets
from trials.common.errors import UserError
from trials.common.lazy import Lazy
from trials.common.tensors import torch
from trials.federated_data import FederatedData
from trials.run.outcome import Status
from trials.run.spec import TrialSpec
from trials.run.trial import load_dataset, partition_data, result_of, simulate

if TYPE_CHECKING:
    import pandas as pd
else:
    pd = Lazy("pandas")
stats: Any = Lazy("scipy.stats")
CONFIRM = {"best": 3, "seeds": 2}
ARMS: dict[str, dict[str, Any]] = {
    "line 8": {"sampler": "line", "trials": 8},
    "line + confirm 14": {"sampler": "line", "trials": 8, "confirm": CONFIRM},
    "line at defaults + confirm 14": {"sampler": "line", "trials": 8, "confirm": CONFIRM},
    "TPE 8": {"sampler": "tpe", "trials": 8},
    "TPE 32": {"sampler": "tpe", "trials": 32},
    "TPE 26 + confirm": {"sampler": "tpe", "trials": 26, "confirm": CONFIRM},
    "random 32": {"sampler": "random", "trials": 32},
}
ALONE = "line at defaults + confirm 14"
"""The arm without companions, as in the shipped studies. Its defaults were chosen with all families, also the one searched in."""
REFERENCE = "TPE 32"
METHODS = ("fedavg", "safl", "fedagg", "folb", "fedumf")
SEARCHES = (0, 1)
"""The seeds of searches; a study's seed is a hundred times that."""
JUDGES = 5
"""The number of fresh seeds with which a winner is run."""
SEARCH = {
    "lr": {"default": 0.1, "low": 1e-4, "high": 1e3, "log": True},
    "folb.mu": {"low": 1e-5, "high": 10.0},
    "folb.psi": {"low": 0.001},
    "safl.L": {"low": 0.1, "high": 1000.0},
    "fedagg.alpha": {"low": 0.0001, "high": 10.0},
}
CLIP = 5.0
"""The size in points to which larger differences are cut for clipped means."""
IMAGES = 6000
"""The number of training images of `SMALL`, the first ones of Fashion-MNIST; it has a third as many test images."""
SMALL = "fashion_small"
DIGITS = {"rounds": 30, "clients": 30, "participation": 0.33, "batch_size": 10}
FASHION = {"rounds": 15, "clients": 30, "participation": 0.2, "batch_size": 10, "eval_every": 3}
CNN = {"rounds": 12, "clients": 20, "participation": 0.2, "batch_size": 20, "eval_every": 3}


@dataclass(frozen=True)
class Place:
    """A scenario with its settings, which make runs short."""

    dataset: str
    model: str
    level: str
    settings: dict[str, Any]

    @property
    def name(self) -> str:
        """Return the scenario's name, such as `digits mlp(32,16) labels(2)`."""
        return f"{self.dataset} {self.model} {self.level}"

    @property
    def linear(self) -> bool:
        """Return whether the model is logistic regression."""
        return self.model == "logreg"

    @property
    def family(self) -> str:
        """Return the family of the data set, from which no companions may come."""
        return "fashion_mnist" if self.dataset == SMALL else datasets.family(self.dataset)


def _natural(rounds: int, clients: int, share: float, batch: int = 10) -> dict[str, Any]:
    sizes = {"rounds": rounds, "clients": clients, "participation": share, "batch_size": batch}
    return sizes | ({"eval_every": 3} if rounds < 20 else {})


PLACES = (
    Place("heart_disease", "logreg", "natural", _natural(30, 4, 0.5)),
    Place("digits", "mlp(32,16)", "labels(2)", DIGITS),
    Place("wisdm", "logreg", "natural", _natural(30, 36, 0.2)),
    Place(SMALL, "mlp(32,16)", "dirichlet(0.1)", FASHION),
    Place("hapt", "logreg", "natural", _natural(20, 21, 0.2)),
    Place("digits", "mlp(32,16)", "dirichlet(0.1)", DIGITS),
    Place("adult", "logreg", "natural", _natural(15, 15, 0.2, 100)),
    Place(SMALL, "mlp(32,16)", "labels(2)", FASHION),
    Place("fsdd", "logreg", "natural", _natural(20, 6, 0.5)),
    Place("wisdm", "mlp(32,16)", "natural", _natural(30, 36, 0.2)),
    Place(SMALL, "logreg", "dirichlet(0.1)", FASHION),
    Place("hapt", "mlp(32,16)", "natural", _natural(20, 21, 0.2)),
    Place(SMALL, "lenet5", "dirichlet(0.1)", CNN),
    Place("digits", "mcmahan_cnn", "labels(2)", CNN),
    Place(SMALL, "lenet5", "labels(2)", CNN),
    Place("digits", "mcmahan_cnn", "dirichlet(0.1)", CNN),
)


class TimeOverError(Exception):
    """The time limit of a call is over."""


def units() -> Iterator[tuple[int, Place, str]]:
    """Yield (search seed, scenario, method) in an order in which scenarios and methods stay balanced when a call is cut short."""
    for seed in SEARCHES:
        for turn, (index, place) in itertools.product(range(len(METHODS)), enumerate(PLACES)):
            yield seed, place, METHODS[(turn + index) % len(METHODS)]


class Runs:
    """The runs of one search seed, scenario and method, by configuration and seed; each is made once and kept in a file."""

    def __init__(self, path: Path, until: float) -> None:
        self.path, self.until, self.kept = path, until, dict[str, dict[str, Any]]()
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                with suppress(ValueError):  # a line was cut off: run it again
                    run = json.loads(line)
                    self.kept[run["key"]] = run

    def run(self, spec: TrialSpec, data: FederatedData) -> dict[str, Any]:
        """Return status, scores and seconds of a run; raise `TimeOverError` if it would have to start after the time limit."""
        key = json.dumps([spec.params, spec.seed], sort_keys=True)
        if key not in self.kept:
            if time.time() > self.until:
                raise TimeOverError
            started = time.process_time()
            simulation = simulate(spec, data)
            for _ in simulation.evaluations():
                pass
            result = result_of(simulation)
            run = {
                "key": key,
                "status": result.status,
                "val": None if result.status == Status.DIVERGED else result.score("val_accuracy"),
                "test": result.score("test_accuracy"),
                "seconds": time.process_time() - started,
            }
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(run) + "\n")
            self.kept[key] = run
        return self.kept[key]


@lru_cache
def _data(name: str, folder: Path) -> FederatedData:
    """Return the partitioned data of a scenario by its name."""
    (place,) = [place for place in PLACES if place.name == name]
    entry = _entry(place, METHODS[0], folder, {"sampler": "random"}, 0)[0]
    spec = entry.spec(entry.space.default(), 0)
    return partition_data(spec, load_dataset(spec, None))


def _entry(
    place: Place, method: str, folder: Path, arm: dict[str, Any], seed: int
) -> tuple[Entry, Study]:
    """Return an arm's study of one method in a scenario, as (its only entry, study)."""
    dataset = f"npz:{folder / SMALL}.npz" if place.dataset == SMALL else place.dataset
    content = {
        "algorithms": [method],
        "datasets": [dataset],
        "models": [place.model],
        "heterogeneity": [place.level],
        "settings": place.settings,
        "search": {k: v for k, v in SEARCH.items() if k.rpartition(".")[0] in ("", method)},
        "seeds": JUDGES,
        "seed": 100 * seed,
        **arm,
    }
    study = check_study(content, {}, "reuse")
    return make_entries(study, "reuse")[0], study


def search(
    place: Place, method: str, arm: str, seed: int, folder: Path, runs: Runs
) -> dict[str, Any]:
    """Return the configuration that an arm chose, its mean test score over fresh seeds, and the runs and seconds of the search."""
    entry, study = _entry(place, method, folder, ARMS[arm], seed)
    warm = []
    if study.sampler == "line" and arm != ALONE:
        file = _companions(place.family, folder)
        warm = companions_of(entry, file.algorithms[method])
    entry_search = EntrySearch(entry, study, 4, warm)
    searched: list[dict[str, Any]] = []
    finals: list[float] = []
    while (request := entry_search.next()) is not None:
        run = runs.run(request.spec(entry), _data(place.name, folder))
        entry_search.end(request.trial_id, ValidationResult(Status(run["status"]), run["val"]))
        if request.counted:
            searched.append(run)
        else:
            finals.append(run["test"])
    best: TrialRequest | None = entry_search.best
    assert best is not None
    return {
        "test": fmean(finals),
        "params": best.params,
        "origin": best.origin,
        "runs": len(searched),
        "seconds": sum(run["seconds"] for run in searched),
    }


def _companions(family: str, folder: Path) -> Companions:
    text = (folder / f"companions-{family}.json").read_text(encoding="utf-8")
    return Companions.model_validate_json(text)


def prepare(folder: Path, pool: ProcessPoolExecutor) -> None:
    """Write the files that all processes read: the first images of Fashion-MNIST, and by family the companions from all others."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / f"{SMALL}.npz").exists():
        try:
            images = datasets.parse("fashion_mnist").load(0, None, None)
        except UserError as error:
            print(f"without Fashion-MNIST: {error}")
        else:
            train = np.flatnonzero(~images.test)[:IMAGES]
            test = np.flatnonzero(images.test)[: IMAGES // 3]
            x, y = np.asarray(images.x), np.asarray(images.y)
            parts = {"x_train": x[train], "y_train": y[train], "x_test": x[test], "y_test": y[test]}
            np.savez_compressed(folder / f"{SMALL}.npz", **parts)
    families = sorted({place.family for place in PLACES})
    if all((folder / f"companions-{family}.json").exists() for family in families):
        return
    by_method = [*pool.map(_companions_without, METHODS, [families] * len(METHODS))]
    for family in families:
        measured = {m: by[family] for m, by in zip(METHODS, by_method, strict=True)}
        file = Companions(command=f"without {family}", algorithms=measured)
        (folder / f"companions-{family}.json").write_text(file.model_dump_json(indent=1))


def _companions_without(method: str, families: list[str]) -> dict[str, Measurement]:
    """Return a method's companions by family, each computed without the trials of that family."""
    scenarios = recorded(sorted(TABLES.glob("*.parquet")), [method])
    return {family: measure(scenarios, family)[method] for family in families}


def _unit(seed: int, place: Place, method: str, folder: Path, until: float) -> str:
    """Run all arms of a scenario, method and search seed that have no result yet; return a line of progress."""
    torch.set_num_threads(1)
    digest = hashlib.sha256(f"{place.name} {method} {seed}".encode()).hexdigest()[:12]
    runs = Runs(folder / f"runs-{digest}.jsonl", until)
    for arm in ARMS:
        path = folder / f"result-{digest}-{arm.replace(' ', '_')}.json"
        if path.exists():
            continue
        try:
            result = search(place, method, arm, seed, folder, runs)
        except TimeOverError:
            return "the time is over"
        except UserError as error:
            return f"{place.name}: {str(error).splitlines()[0]}"
        where = {"scenario": place.name, "linear": place.linear, "method": method}
        path.write_text(json.dumps({**where, "arm": arm, "seed": seed, **result}))
    return f"{method} in {place.name}, search {seed}"


def run(folder: Path, workers: int, minutes: float) -> None:
    """Run all searches that have no result yet, until the time limit in minutes."""
    until = time.time() + 60 * minutes
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        prepare(folder, pool)
        futures = [pool.submit(_unit, *unit, folder, until) for unit in units()]
        for future in as_completed(futures):
            if (line := future.result()) != "the time is over":
                print(line, flush=True)


def results(folder: Path) -> pd.DataFrame:
    """Return a row per result of an arm, beside the reference's result on the same search; scores are in points."""
    rows = [json.loads(path.read_text()) for path in sorted(folder.glob("result-*.json"))]
    frame = pd.DataFrame(rows)
    frame["test"] *= 100
    frame["place"] = frame["scenario"] + " " + frame["method"]
    keys = ["place", "seed"]
    reference = frame[frame["arm"] == REFERENCE].set_index(keys)[["test", "seconds"]]
    frame = frame.join(reference.add_suffix("_reference"), on=keys, how="inner")
    return frame.assign(gap=frame["test"] - frame["test_reference"])


def compared(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the comparison of each arm with the reference, over all, linear and non-linear scenarios."""
    rows = []
    groups = {"all": frame, "linear": frame[frame.linear], "non-linear": frame[~frame.linear]}
    for (group, of_group), arm in itertools.product(groups.items(), ARMS):
        of_arm = of_group[of_group.arm == arm]
        if of_arm.empty or (group != "all" and arm == REFERENCE):
            continue
        pairs = of_arm.groupby("place").gap.mean()
        clipped = of_arm.assign(gap=of_arm.gap.clip(-CLIP, CLIP))
        mean, error, low, high = _clustered(of_arm)
        row = {"scenarios": group, "arm": arm, "runs": float(of_arm.runs.mean())}
        row |= {"count": of_arm.scenario.nunique(), "pairs": len(pairs), "searches": len(of_arm)}
        row |= {"points": mean, "error": error, "low": low, "high": high}
        row |= {"clipped": _clustered(clipped)[0], "clipped_low": _clustered(clipped)[2]}
        row |= {"worst": float(pairs.min()), "worst_pair": str(pairs.idxmin())}
        row |= {"behind_by_5": int((pairs < -CLIP).sum()), "time": _time(of_arm)}
        rows.append(row | {"repeats_within": _repeats(of_arm)})
    return rows


def _clustered(frame: pd.DataFrame) -> tuple[float, float, float, float]:
    """Return the mean gap with equal weights of scenarios, its standard error, and its lower and upper one-sided 95 % bounds."""
    means = frame.groupby("scenario").gap.mean()
    count = len(means)
    if count < 2:
        return float(means.mean()), np.nan, np.nan, np.nan
    error = float(means.std() / count**0.5)
    half = float(stats.t.ppf(0.95, count - 1)) * error
    return float(means.mean()), error, float(means.mean()) - half, float(means.mean()) + half


def _time(frame: pd.DataFrame) -> float:
    """Return how long the searches took relative to the reference's, as a mean of ratios."""
    return float((frame.seconds / frame.seconds_reference).mean())


def _repeats(frame: pd.DataFrame) -> float:
    """Return the median difference in points between searches of the same scenario and method; NaN if none was repeated."""
    apart = frame.groupby("place").test.agg(lambda test: test.max() - test.min())
    twice = frame.groupby("place").test.count() > 1
    return float(apart[twice].median())


def main() -> None:
    """Run the searches or compare their results, as the command line says."""
    cli = parser(__doc__)
    cli.add_argument("action", choices=("run", "show"))
    cli.add_argument("folder", type=Path, help="the folder of results")
    cli.add_argument("--workers", type=int, default=1, help="processes, one thread each")
    cli.add_argument("--minutes", type=float, default=60.0)
    cli.add_argument("--output", type=Path, help="the JSON file to write")
    cli.add_argument("--figure", type=Path, help="the figure to write: .svg, .png or .pdf")
    args = cli.parse_args()
    if args.action == "run":
        run(args.folder.resolve(), args.workers, args.minutes)
    frame = results(args.folder)
    rows = compared(frame)
    if args.output:
        pairs = frame.groupby(["arm", "place"]).gap.mean().round(2).unstack(0)
        scores = frame[frame.arm == REFERENCE].groupby("place").test.mean().round(1).to_dict()
        document = {
            "against": REFERENCE,
            "scores": scores,
            "arms": rows,
            "pairs": pairs.T.to_dict(),
        }
        text = json.dumps(document, indent=1).replace("NaN", "null")
        args.output.write_text(text + "\n")
    if args.figure:
        import plots  # here: machines that only run may lack its packages

        means = pd.DataFrame(rows).rename(columns={"arm": "name", "points": "gap"})
        means = means[(means.scenarios == "all") & (means.name != REFERENCE)]
        ticks = frame.groupby(["arm", "place"], as_index=False).gap.mean()
        title = f"points of test accuracy against {REFERENCE} (grey: one method in one scenario, the farthest at the edge)"
        plots.gaps(ticks.rename(columns={"arm": "name"}), means, title, args.figure)
    show({"against": REFERENCE, "arms": rows}, args.json)


if __name__ == "__main__":
    main()
