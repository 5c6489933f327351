"""What a round of each algorithm sends and computes (table 7), counted by the devices that it chose."""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.support.equations import among, circle, hub
from tests.support.oracle import GENERAL, SYSTEM, Problem, spent
from tests.support.simulations import finish
from trials.algorithms import ALGORITHMS
from trials.engine.federation import Federation

STEPS, L = 4, 3
LITERAL = {"local_epochs": L, "local_steps": None, "batch_size": "full"}
EPOCHS = {"local_epochs": L, "local_steps": None, "batch_size": 4}
REPEATS = {"selection": "with_replacement"}


@dataclass(frozen=True)
class Row:
    """What a round sends, in models down and up and numbers besides, and computes; K are the distinct devices that were
    selected, `other` those of a second set and `either` those of one of both, t is the round.
    """

    name: str
    params: dict[str, Any] = field(default_factory=dict)
    down: Callable[[Any], float] = lambda c: c.K
    up: Callable[[Any], float] = lambda c: c.K
    numbers: Callable[[Any], float] = lambda c: 0
    passes: Callable[[Any], float] = lambda c: 0
    steps: Callable[[Any], float] = lambda c: STEPS * c.K
    heard: Callable[[Any], float] = lambda c: c.K
    given: dict[str, Any] = field(default_factory=dict)


def everyone(c: Any) -> float:
    return c.n


def twice(c: Any) -> float:
    return 2 * c.K


def nothing(c: Any) -> float:
    return 0


def but_first(c: Any) -> float:
    return c.K * (c.t > 1)


ROWS = [
    *(Row(name) for name in ("fedavg", "fedprox", "fedavgm", "fedadagrad", "fedadam", "fedyogi")),
    *(Row(name) for name in ("ida", "feddyn", "fedma_fixed_width", "astw")),
    Row("fedsgd", passes=lambda c: c.K, steps=nothing),
    Row("fednova", numbers=lambda c: c.K),
    Row("scaffold", down=twice, up=twice),
    Row("feddc", down=twice, up=twice),
    Row("folb", up=twice, passes=lambda c: c.K, given=REPEATS),
    Row(
        "folb",
        {"variant": "heterogeneity"},
        up=twice,
        passes=twice,
        numbers=lambda c: c.K,
        given=REPEATS,
    ),
    *(
        Row(
            "folb_two_set",
            down=lambda c: c.K + c.other,
            up=lambda c: 2 * c.K + c.other,
            passes=lambda c: c.K + c.other,
            heard=lambda c: c.either,
            given=given,
        )
        for given in ({}, REPEATS)
    ),
    *(
        Row(
            name,
            down=everyone,
            up=lambda c, own=own: c.K + own * c.n,
            numbers=lambda c, own=own: (1 - own) * c.n,
            passes=everyone,
            heard=everyone,
            given=given,
        )
        for name, own, given in (
            ("fednu_sign", 1, {}),
            ("fednu_sign", 1, REPEATS),
            ("lb_optimal", 1, {}),
            ("lb_norm", 0, {}),
        )
    ),
    Row("safl", down=but_first),
    Row("ida_safl", down=but_first),
    Row("astw_safl", down=but_first, given={"init": "own"}),
    Row("fedumf", down=everyone, steps=lambda c: STEPS * c.n),
    Row("fedumf_feddc", down=lambda c: 2 * c.n, up=twice, steps=lambda c: STEPS * c.n),
    *(
        Row(
            "fedagg",
            {"sweeps": sweeps, "local_direction": direction},
            down=lambda c, sweeps=sweeps: (2 * L * sweeps + 1) * c.K,
            up=lambda c, sweeps=sweeps: (2 * L * sweeps + 1) * c.K,
            passes=lambda c, sweeps=sweeps: L * sweeps * c.K,
            # The mean direction needs no training after the first pass.
            steps=lambda c, trained=trained: trained * L * c.per_epoch,
            given=EPOCHS,
        )
        for sweeps, direction, trained in ((1, "own", 2), (2, "own", 3), (2, "mean", 1))
    ),
    *(
        Row(
            "fedagg_literal",
            {"max_sweeps": sweeps, "tolerance": 1e-300},
            down=lambda c, sweeps=sweeps: (1 + 2 * L * (sweeps + 1)) * c.K,
            up=lambda c, sweeps=sweeps: (1 + 2 * L * (sweeps + 1)) * c.K,
            passes=lambda c, sweeps=sweeps: L * (sweeps + 2) * c.K,
            steps=nothing,
            given=LITERAL,
        )
        for sweeps in (1, 3)
    ),
    Row("local_only", down=nothing, up=nothing, heard=nothing),
    Row("centralized", down=nothing, up=nothing, heard=nothing, given={"batch_size": 1}),
]
ELSEWHERE = {"defed", "safl_extended"}
"""What they send is not a function of the number of devices; below."""


def counted(row: Row, dtype: str) -> tuple[Any, list[SimpleNamespace]]:
    """A run, and of each of its rounds which devices it chose."""
    problem = Problem({"participation": 0.6, "dtype": dtype, **row.given})
    chosen: dict[str, list[list[int]]] = {"select": [], "second": [], "draw": []}

    class Noted(Federation):
        def select(self, stream="select"):
            ids = super().select(stream)
            chosen[stream].append(ids.tolist())
            return ids

        def draw(self, p, *stream):
            ids = super().draw(p, *stream)
            chosen["draw"].append(ids.tolist())
            return ids

    run = finish(problem.run(row.name, row.params, "batched", Noted))
    ids_of, second = chosen["select"], chosen["second"] or [[]] * 5
    if row.name.startswith("lb_"):  # else draws are part of a selection
        ids_of = chosen["draw"]
    met = []
    for t, (ids, other) in enumerate(zip(ids_of, second, strict=True), 1):
        about = {"n": problem.n, "t": t, "K": len({*ids}), "other": len({*other})}
        epoch = sum(problem.per_epoch(k) for k in set(ids))
        met.append(SimpleNamespace(**about, either=len({*ids, *other}), per_epoch=epoch))
    return run, met


@pytest.mark.parametrize(("dtype", "size"), [("float64", 8), ("float32", 4)])
@pytest.mark.parametrize("row", ROWS, ids=[f"{row.name}-{i}" for i, row in enumerate(ROWS)])
def test_what_a_round_costs(row, dtype, size):
    run, met = counted(row, dtype)
    assert len(met) == 5
    d = run.fed.d
    assert spent(run, "downloaded_bytes") == [size * d * row.down(c) for c in met]
    assert spent(run, "uploaded_bytes") == [size * (d * row.up(c) + row.numbers(c)) for c in met]
    assert spent(run, "clients_uploaded") == [row.heard(c) for c in met]
    assert spent(run, "client_steps") == [row.steps(c) for c in met]
    passes = spent(run, "gradient_passes")
    # The literal reading may take the starting values' gradients once more where their means are formed.
    extra = 3 * L if row.name == "fedagg_literal" else 0
    assert all(
        row.passes(c) <= p <= row.passes(c) + extra for c, p in zip(met, passes, strict=True)
    )
    assert set(spent(run, "evaluation_passes")) == set(spent(run, "peer_bytes")) == {0}


def test_every_algorithm_s_costs_are_known():
    assert {row.name for row in ROWS} | ELSEWHERE == ALGORITHMS.keys()


def test_extended_safl_sends_what_its_coins_say():
    problem = Problem({"participation": 0.6, "init": "own"})
    run = finish(problem.run("safl_extended", {"epsilon": 0.3, "L": 5.0, "nu": 0.25}))
    heard, d = spent(run, "clients_uploaded"), 8 * run.fed.d
    assert heard[0] == 3
    assert sum(heard) < 15
    assert spent(run, "downloaded_bytes") == [0] + [3 * d] * 4
    assert spent(run, "uploaded_bytes") == [k * d for k in heard]
    assert spent(run, "evaluation_passes") == [0] + [2 * 3] * 4


@pytest.mark.parametrize("name", ["astw", "astw_safl"])
@pytest.mark.parametrize("init", ["common", "own"])
def test_layers_travel_when_they_are_due(name, init):
    """Rounds 3 and 6 of loops of three exchange all layers; what nobody has uploaded is not sent to clients that began
    on their own.
    """
    problem = Problem({"participation": 0.6, "rounds": 7, "init": init}, model="mlp(4,3)")
    run = finish(problem.run(name, {"loop": 3, "deep_share": 1 / 3}))
    shallow, d = 3 * 8 * 12, 3 * 8 * run.fed.d
    due = [shallow, shallow, d, shallow, shallow, d, shallow]
    assert spent(run, "uploaded_bytes") == due
    first = 0 if init == "own" or name == "astw_safl" else shallow
    third = shallow if init == "own" else d
    assert spent(run, "downloaded_bytes") == [first, shallow, third, *due[3:]]


GRAPHS = {"ring(2)": circle(5, 2), "star": hub(5), "complete": np.full((5, 5), 0.2)}


@pytest.mark.parametrize("participation", [1.0, 0.6])
@pytest.mark.parametrize("graph", GRAPHS)
def test_each_edge_between_those_awake_carries_a_model_each_way(graph, participation):
    problem = Problem({"participation": participation})
    run = finish(problem.run("defed", {"topology": graph}))
    mixing = [among(GRAPHS[graph], problem.select(t)) for t in range(1, 6)]
    edges = [np.count_nonzero(w - np.diag(np.diag(w))) for w in mixing]
    assert spent(run, "peer_bytes") == [8 * run.fed.d * count for count in edges]
    assert set(spent(run, "uploaded_bytes")) == set(spent(run, "downloaded_bytes")) == {0}
    if participation == 1:
        assert edges[0] == {"ring(2)": 10, "star": 8, "complete": 20}[graph]  # K l in a ring


@pytest.mark.parametrize("execution", GENERAL)
def test_steps_are_those_of_the_devices(execution):
    """Of FedUmf those of all devices, of references as many as the clients'; of full gradients none."""
    problem = Problem({"participation": 0.6, "batch_size": 1}, SYSTEM)
    all_steps = [sum(problem.steps(t, k) for k in range(5)) for t in range(1, 6)]
    some = [sum(problem.steps(t, k) for k in problem.select(t)) for t in range(1, 6)]
    for name, steps in {"fedumf": all_steps, "fedavg": some, "local_only": some}.items():
        assert spent(finish(problem.run(name, {}, execution)), "client_steps") == steps
    assert spent(finish(problem.run("centralized", {}, execution)), "client_steps") == some


@pytest.mark.parametrize("batch", [2, 4, 8, "full"])
@pytest.mark.parametrize("selection", ["without_replacement", "with_replacement", "independent"])
def test_centralised_training_sees_as_many_samples_as_the_clients(selection, batch):
    given = {"batch_size": batch, "local_steps": None, "local_epochs": 2, "selection": selection}
    problem = Problem({**given, "participation": 0.6}, sizes=(8,) * 5)
    runs = [finish(problem.run(name, {})) for name in ("centralized", "fedavg")]
    samples, theirs = (spent(run, "sample_gradients") for run in runs)
    assert samples == theirs
    # Clients' short minibatches do not make the pool see more, but to the nearest minibatch.
    short = {"batch_size": 4 * batch if batch != "full" else 32, "local_steps": None}
    problem = Problem(short, sizes=(5,) * 20)
    off = np.array(spent(finish(problem.run("centralized", {})), "sample_gradients")) - 100
    assert np.abs(off).max() <= short["batch_size"] / 2
