"""Every algorithm against its equations in plain NumPy, under all settings that it honours, in every execution."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations, islice
from typing import Any

import numpy as np
import pytest

from tests.support import equations as eq
from tests.support.oracle import EXECUTIONS, GENERAL, SYSTEM, Problem, agrees
from trials import topology
from trials.algorithms import ALGORITHMS
from trials.common.errors import UserError
from trials.run.spec import refuse

CASES: dict[str, dict[str, Any]] = {
    "everyone": {},
    "some": {"participation": 0.4, "lr_decay": 0.7},
    "plain": {"participation": 0.6, "aggregation": "plain", "weight_decay": 0.1},
    "minibatches": {
        "participation": 0.6,
        "batch_size": 4,
        "local_epochs": 2,
        "local_steps": None,
        "momentum": 0.5,
    },
    "steps": {"batch_size": 3, "local_steps": 5, "momentum": 0.5, "lr_decay": 0.8},
    "devices": {"participation": 0.6, "lr_decay": 0.9, "weight_decay": 0.05},
    "repeats": {"participation": 0.6, "selection": "with_replacement"},
    "chance": {"participation": 0.6, "selection": "independent"},
    "own starts": {"participation": 0.6, "init": "own"},
    "clipped": {"participation": 0.6, "clip_norm": 0.25},
    "clipped and carried": {"clip_norm": 0.25, "momentum": 0.5, "weight_decay": 0.1},
}
EPOCHS = {"batch_size": 4, "local_epochs": 3, "local_steps": None}
ONCE = {"local_steps": 1}
USERS = 0.7 * np.eye(5) + 0.3 * np.roll(np.eye(5), 1, 0)
USERS = (USERS + USERS.T) / 2


@dataclass(frozen=True)
class Row:
    """An algorithm with hyperparameters and its equations with the same; the default ones where it is given none."""

    name: str
    params: dict[str, Any]
    equations: Callable[[Problem], Iterator[dict[str, np.ndarray]]]
    model: str = "logreg"
    given: dict[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()
    """Cases that say nothing of it."""

    def problem(self, case: str) -> Problem:
        return Problem(
            {**CASES[case], **self.given}, SYSTEM * (case == "devices") or "iid", self.model
        )

    def honours(self, case: str) -> bool:
        problem = self.problem(case)
        try:
            refuse(self.name, ALGORITHMS[self.name], problem.settings, problem.level)
        except UserError:
            return False
        return case not in self.without


MINIBATCHED = ("minibatches", "steps")
LITERAL = {**EPOCHS, "batch_size": "full"}
SAMPLED = ("repeats", "chance")
"""They draw by a rule of their own."""


def rows() -> Iterator[Row]:
    def row(name: str, params: dict[str, Any], equations: Any, *more: Any, **rest: Any) -> Row:
        own = {key: rest.pop(key) for key in ("model", "given", "without") if key in rest}
        return Row(name, params, partial(equations, *more, **rest), **own)

    def of(equations: Any, **params: Any) -> Any:
        return lambda P: equations(P, **params)

    yield row("fedavg", {}, eq.fedavg)
    yield row("fedprox", {"mu": 0.8}, of(eq.fedavg, mu=0.8))
    yield row("fedsgd", {}, eq.fedsgd)
    yield row("fedavgm", {"beta": 0.6, "server_lr": 0.8}, of(eq.fedavgm, beta=0.6, server_lr=0.8))
    yield row("fedavgm", {}, of(eq.fedavgm, beta=0.9, server_lr=1.0))
    rule = {"server_lr": 0.2, "tau": 0.05}
    for name, second, beta1 in (
        ("fedadagrad", eq.adagrad, 0.0),
        ("fedadam", eq.adam, 0.9),
        ("fedyogi", eq.yogi, 0.9),
    ):
        usual = {"server_lr": 0.1, "beta1": beta1, "tau": 1e-3}
        yield row(name, {}, of(eq.adaptive, second=second, **usual))
        more = {} if second is eq.adagrad else {"beta2": 0.8}
        other = partial(second, **more)
        yield row(
            name, {**rule, "beta1": 0.6, **more}, of(eq.adaptive, second=other, beta1=0.6, **rule)
        )
    yield row("fednova", {}, eq.fednova)
    yield row("ida", {}, eq.ida)
    yield row("scaffold", {}, of(eq.scaffold, server_lr=1.0))
    yield row("scaffold", {"server_lr": 0.7}, of(eq.scaffold, server_lr=0.7))
    for name, equations in (("feddyn", eq.feddyn), ("feddc", eq.feddc)):
        yield row(name, {}, of(equations, alpha=0.01))
        yield row(name, {"alpha": 0.3}, of(equations, alpha=0.3))
    for psi in (0.0, 0.5, 10.0):
        variant = {"variant": "heterogeneity", "psi": psi} if psi else {}
        yield row("folb", {"mu": 0.3, **variant}, of(eq.folb, mu=0.3, psi=psi))
    yield row("folb_two_set", {"mu": 0.3}, of(eq.folb_two_set, mu=0.3))
    yield row("folb_two_set", {"mu": 0.0}, of(eq.folb_two_set, mu=0.0))
    yield row("fednu_sign", {"mu": 0.3}, of(eq.fednu_sign, mu=0.3))
    for name in ("lb_optimal", "lb_norm"):
        drawn = of(eq.sampled, rule=name.removeprefix("lb_"), mu=0.3)
        yield row(name, {"mu": 0.3}, drawn, without=SAMPLED)
    drawn = of(eq.sampled, rule="optimal", mu=0.3, psi=2.0)
    variant = {"mu": 0.3, "variant": "heterogeneity", "psi": 2.0}
    yield row("lb_optimal", variant, drawn, without=SAMPLED)
    masks = {"epsilon": 0.3, "L": 5.0}
    for clock in ("rounds", "steps"):
        yield row("safl", {**masks, "clock": clock}, of(eq.safl, **masks, clock=clock))
    yield row("ida_safl", masks, of(eq.safl, **masks, rule="ida"))
    for nu in (0.05, 0.25):
        yield row("safl_extended", {**masks, "nu": nu}, of(eq.safl, **masks, nu=nu))
    for loop, share, last in ((3, 1 / 3, 1), (3, 0.5, 2), (4, 0.1, 1), (2, 1, 2)):
        rule = {"A": 1.7, "loop": loop, "deep_share": share}
        deep = {"model": "mlp(4,3)", "without": ("clipped",)}
        how = of(eq.astw, A=1.7, loop=loop, last=last)
        yield row("astw", rule, how, **deep)
        how = of(eq.astw, A=1.7, loop=loop, last=last, **masks)
        yield row("astw_safl", {**rule, **masks}, how, **deep)
    usual = of(eq.astw, A=np.e / 2, loop=15, last=5)
    yield row("astw", {}, usual, model="mlp(4,3)", given={"rounds": 18}, without=MINIBATCHED)
    yield row("astw", {"A": 1.7}, of(eq.astw, A=1.7, loop=15, last=5))
    yield row("fedma_fixed_width", {}, eq.fedma, model="mlp(3,3)", without=("clipped",))
    yield row("fedumf", {}, of(eq.fedumf, alpha=1.0))
    yield row("fedumf", {"alpha": 0.5}, of(eq.fedumf, alpha=0.5))
    for place in ("theta", "start"):
        combined = {"alpha": 0.1, "fusion": 0.7}
        how = of(eq.feddc, **combined, displacement=place)
        yield row("fedumf_feddc", {**combined, "displacement_from": place}, how)
    for rule in (
        {},
        {"scaling": "raw"},
        {"local_direction": "mean"},
        {"local_direction": "mean", "scaling": "raw", "sweeps": 2},
        {"sweeps": 2, "alpha": 0.3},
        {"alpha": 0.1, "eta_max": 2.0},
        {"alpha": 0.7, "eta_max": 1.05, "scaling": "raw"},
    ):
        spelled = {key.removeprefix("local_"): value for key, value in rule.items()}
        yield row("fedagg", rule, of(eq.fedagg, **spelled), given=EPOCHS, without=("steps",))
    for rule in ({"max_sweeps": 1}, {"max_sweeps": 4}, {"alpha": 0.5, "max_sweeps": 2}):
        exact = {"tolerance": 1e-300, **rule}
        how = of(eq.fedagg_literal, **rule)
        yield row("fedagg_literal", exact, how, given=LITERAL, without=MINIBATCHED)
    yield row("defed", {}, of(eq.defed, mixing=eq.circle(5, 2)), given=ONCE)
    graphs = {"ring(4)": np.full((5, 5), 0.2), "star": eq.hub(5)}
    graphs["erdos_renyi(0.5)"] = topology.parse("erdos_renyi(0.5)").matrix(5, 0)
    for graph, mixing in graphs.items():
        for scale in ("one", "samples", "printed"):
            params = {"topology": graph, "grad_scale": scale}
            yield row("defed", params, of(eq.defed, mixing=mixing, scale=scale))
    yield row("centralized", {}, eq.centralized, without=("chance", "repeats"))
    yield row("local_only", {}, eq.local_only)


ROWS = list(rows())
ALL_WAYS = ("everyone", "minibatches")
TABLE = [
    pytest.param(row, case, execution, id=f"{row.name}-{number}-{case}-{execution}")
    for number, row in enumerate(ROWS)
    for case in filter(row.honours, CASES)
    for execution in (EXECUTIONS if case in ALL_WAYS else ["batched"])
    if row.model == "logreg" or execution in GENERAL
]


def test_every_algorithm_has_a_row():
    assert {row.name for row in ROWS} == ALGORITHMS.keys()


@pytest.mark.parametrize(("row", "case", "execution"), TABLE)
def test_a_run_is_its_equations(row, case, execution):
    problem = row.problem(case)
    run = problem.run(row.name, row.params, execution)
    (of,) = {"w", "W", "z"} & next(row.equations(problem)).keys() - (
        {"z"} if "w" in run.state else set()
    )
    agrees(run, row.equations(problem), of, least=0)


@pytest.mark.parametrize("name", sorted({row.name for row in ROWS}))
def test_each_hyperparameter_matters_to_the_equations(name):
    """Of a method's rows no two give the same: an oracle that does not know one would agree with anything."""
    ends = []
    for row in ROWS:
        if row.name == name and (name != "astw" or row.model != "logreg"):
            *_, end = islice(row.equations(row.problem("some")), 5)
            ends.append(end.get("w", end.get("W")))
    for one, other in combinations(ends, 2):
        assert one.shape != other.shape or np.abs(one - other).max() > 1e-6


def test_a_matrix_of_ones_own(tmp_path):
    np.save(tmp_path / "users.npy", USERS)
    np.savetxt(tmp_path / "users.csv", USERS, delimiter=",", fmt="%.17g")
    for file in tmp_path.iterdir():
        problem = Problem(CASES["some"])
        run = problem.run("defed", {"topology": f"file:{file}"})
        agrees(run, eq.defed(problem, USERS), "W")
