"""Schedules of hyperparameters: how they are written, and runs under them against switching by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.wording.words import params_text
from suite.configurations.configuration import parse, read
from tests.support.commands import document, records, suite_here
from tests.support.simulations import digest, finish, local_work, partitioned, settings, simulation
from trials.algorithm import Algorithm
from trials.algorithms import ALGORITHMS
from trials.common.errors import UserError
from trials.engine import schedule
from trials.engine.schedule import at, is_schedule, last, pieces, written

FINITE = st.floats(allow_nan=False, allow_infinity=False)
PIECES = st.dictionaries(st.integers(2, 10**6), FINITE, max_size=5)
DATA = partitioned([9, 4, 17, 12])


@given(FINITE, PIECES)
def test_what_is_written_is_read_back_and_has_one_spelling(first: float, later) -> None:
    given_ = {1: first, **later}
    text = written(given_)
    assert written(pieces(text)) == text
    for round_index in (1, *(r + d for r in later for d in (-1, 0, 1))):
        held = given_[max(start for start in given_ if start <= round_index)]
        assert at(text, round_index) == held
    assert is_schedule(text) == (len(set(pieces(text).values())) > 1)
    assert last(text) == at(text, 10**7)


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("0.3@1,0.03@100", "0.3@1,0.03@100"),
        (" 3e-1 @ 1 , .030@0100", "0.3@1,0.03@100"),
        ("1@1,1.0@5,2@7,2@9", "1.0@1,2.0@7"),
        ("0.1@1", 0.1),
        ("0.1@1,0.1@3", 0.1),
    ],
)
def test_the_canonical_spelling(text: str, spelled) -> None:
    made = ALGORITHMS["fedprox"].configured({"mu": text})
    assert made.params() == {"lr": 0.1, "mu": spelled}
    assert type(made).configured(made.params()) == made


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("mu", "0.3@1,0.1", "mu is '0.3@1,0.1': '0.1' is no VALUE@ROUND"),
        ("mu", "0.3@2", "round 2 is out of order"),
        ("mu", "0.3@1,0.2@5,0.1@5", "round 5 is out of order"),
        ("mu", "0.3@1,x@5", "'x@5' is no VALUE@ROUND"),
        ("mu", "0.3@1,inf@5", "'inf@5' is not finite"),
        ("mu", "0.3@1,", "'' is no VALUE@ROUND"),
        ("mu", "0.3@1.5", "'0.3@1.5' is no VALUE@ROUND"),
        ("mu", "0.3", "must be a number"),
    ],
)
def test_what_is_no_schedule_is_refused_with_the_grammar(name: str, value: str, words: str) -> None:
    with pytest.raises(UserError) as refused:
        ALGORITHMS["fedprox"].configured({name: value})
    assert words in str(refused.value)
    assert ("@" not in value) or schedule.GRAMMAR in str(refused.value)


def test_only_real_hyperparameters_have_schedules() -> None:
    with pytest.raises(UserError, match=r"variant is 'plain@1'.*must be one of"):
        ALGORITHMS["folb"].configured({"variant": "plain@1"})
    (name, whole), *_ = (
        (key, cls)
        for cls in ALGORITHMS.values()
        for key, spec in cls.ranges().items()
        if spec.type == "int"
    )
    with pytest.raises(UserError, match="only real numbers may have a schedule"):
        whole.configured({name: "1@1,2@5"})


def scheduled(name: str, rounds: int = 6) -> tuple[Algorithm, list[Algorithm]]:
    """An algorithm whose rate and first other real hyperparameter change, and what it is by round."""
    cls = ALGORITHMS[name]
    real = [key for key, spec in cls.ranges().items() if spec.type == "float"]
    other = real[-1]
    value = getattr(cls(), other)
    first = {"lr": 0.3, other: value}
    made = cls.configured({"lr": "0.3@1,0.03@4"} | {other: f"{value}@1,{value / 2}@3"})
    constant = cls.configured(first)
    return made, [
        replace(constant, **{"lr": 0.3 if r < 4 else 0.03} | {other: value if r < 3 else value / 2})
        for r in range(1, rounds + 1)
    ]


@pytest.mark.parametrize("name", ["fedprox", "feddyn", "fedadam", "fedumf", "defed"])
def test_a_scheduled_run_is_switching_by_hand(name: str) -> None:
    made, by_round = scheduled(name)
    common = settings(rounds=6, lr_decay=0.9, execution="batched", **local_work(name))
    by_hand = simulation(by_round[0], DATA, common)
    for algorithm in by_round:
        by_hand.algorithm = algorithm
        by_hand.advance()
    whole = finish(simulation(made, DATA, common))
    assert digest(whole) == digest(by_hand)
    assert digest(whole) != digest(finish(simulation(by_round[0], DATA, common)))
    for cut in (1, 3, 4):
        first, second = simulation(made, DATA, common), simulation(made, DATA, common)
        for _ in range(cut):
            first.advance()
        second.load(first.save())
        assert second.algorithm == by_round[cut - 1]
        assert digest(finish(second)) == digest(whole)


def test_what_is_fused_was_trained_as_in_the_round_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """FedUmf with FedDC replays the last round's training: with that round's rate and alpha."""
    cls = ALGORITHMS["fedumf_feddc"]
    replayed, train = {}, cls.train

    def trace(self: Any, state: Any, ids: Any, start: Any, fed: Any, at: int | None = None) -> Any:
        if at is not None:
            replayed[at] = (self.lr, self.alpha)
        return train(self, state, ids, start, fed, at)

    monkeypatch.setattr(cls, "train", trace)
    made = cls.configured({"lr": "0.3@1,0.1@4", "alpha": "0.01@1,0.5@3"})
    finish(simulation(made, DATA, settings(rounds=5, participation=0.5, execution="batched")))
    rates = {1: (0.3, 0.01), 2: (0.3, 0.01), 3: (0.3, 0.5), 4: (0.1, 0.5)}
    assert replayed == {at: pytest.approx(rates[at]) for at in replayed}
    assert {2, 3} <= replayed.keys(), "rounds after which something changed"


def test_each_phase_is_asked_whether_it_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(self: Algorithm, *given: object) -> None:
        if self.lr > 1:
            raise UserError("lr is too large")

    monkeypatch.setattr(ALGORITHMS["fedavg"], "check", check)
    made = ALGORITHMS["fedavg"].configured({"lr": "0.1@1,2@5"})
    with pytest.raises(UserError, match="too large"):
        simulation(made, DATA, settings())


def test_a_constant_algorithm_has_one_phase() -> None:
    for cls in ALGORITHMS.values():
        assert cls().phases() == {1: cls()}


def test_the_command_line_and_files_take_schedules(tmp_path: Path) -> None:
    args = ["run", "--algorithm", "fedprox", "--set", "rounds=4", "--set", "clients=4", "--json"]
    args += ["--set", "execution=batched"]
    rates = "0.3@1,0.03@3"
    done = document(suite_here(*args, "--set", f"lr={rates}", cwd=tmp_path))
    assert done["params"] == {"lr": rates, "mu": 0.01}
    assert document(suite_here("replay", done["run_id"], "--json", cwd=tmp_path))["identical"]
    (tmp_path / "c.yaml").write_text(
        "algorithm: fedprox\ndataset: digits\nmodel: logreg\nheterogeneity: iid\n"
        f"params: {{lr: '{rates}'}}\nsettings: {{rounds: 4, clients: 4, execution: batched}}\n"
    )
    again = document(suite_here("run", "c.yaml", "--json", cwd=tmp_path))
    assert [e["test_loss"] for e in again["history"]] == [e["test_loss"] for e in done["history"]]
    tuned = read(tmp_path / "c.yaml")
    assert parse(tuned.text(), "x") == tuned
    recorded = {run.params["lr"] for run in records(tmp_path, kind="run")}
    assert recorded == {rates}


def test_tables_show_three_digits() -> None:
    assert params_text({"lr": "0.123456@1,0.03@100", "variant": "plain", "mu": 0.123456}) == (
        "lr=0.123@1,0.03@100 variant=plain mu=0.123"
    )
