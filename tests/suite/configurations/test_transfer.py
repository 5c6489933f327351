"""`suite transfer` on two scenarios and two algorithms, against the same runs by hand."""

from statistics import fmean

import pytest

from suite.configurations.transfer import FIRST_SEED
from tests.support.commands import SINGLY, document, fault, records, suite_here
from tests.support.configurations import a_tuned, folder
from trials.run import trial
from trials.scoring.metrics import score

CELLS = ["iid", "labels(2)"]
FEDAVG = {level: a_tuned(level=level, lr=lr) for level, lr in zip(CELLS, (0.5, 0.001), strict=True)}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    path = tmp_path_factory.mktemp("transfer")
    one_cell = a_tuned("fedprox").model_copy(update={"params": {"lr": 0.1, "mu": 0.1}})
    suite_here("tuned", "import", folder(path / "set", *FEDAVG.values(), one_cell), cwd=path)
    return path


def by_hand(source: str, target: str, seed: int) -> float:
    spec = FEDAVG[target].model_copy(update={"params": FEDAVG[source].params}).spec(seed)
    return score(trial.run(spec)[0].history, "test_accuracy")


def test_the_matrix(place):
    found = document(suite_here("transfer", "--seeds", 2, *SINGLY, "--json", cwd=place))
    entries = {
        (e["source"].split(" · ")[2], e["target"].split(" · ")[2]): e for e in found["entries"]
    }
    assert set(entries) == {(a, b) for a in CELLS for b in CELLS}
    assert {e["algorithm"] for e in found["entries"]} == {"fedavg"}, "fedprox has one scenario"
    assert len(records(place, kind="transfer")) == 2 * 4
    for (source, target), entry in entries.items():
        theirs = [by_hand(source, target, FIRST_SEED + k) for k in (0, 1)]
        own = [by_hand(target, target, FIRST_SEED + k) for k in (0, 1)]
        assert entry["score"] == pytest.approx(fmean(theirs))
        assert entry["own_score"] == pytest.approx(fmean(own))
        assert entry["loss"] == pytest.approx(100 * (fmean(own) - fmean(theirs)))
        assert entry["seeds"] == 2
        assert entry["distance"] == (0 if source == target else pytest.approx(0.85))
    assert entries["iid", "iid"]["loss"] == 0
    assert entries["labels(2)", "iid"]["loss"] > 5, "a rate of 0.001 learns too little in 5 rounds"
    before = {r.run_id for r in records(place, kind="transfer")}
    shown = suite_here("transfer", "--seeds", 2, cwd=place)
    assert "fedavg: test_accuracy lost" in shown.stdout
    assert {r.run_id for r in records(place, kind="transfer")} == before, "done is done"


def test_nothing_to_transfer(place):
    done = suite_here("transfer", "--algorithm", "fedprox", cwd=place, code=2)
    assert fault(done) == (
        "transfer needs one algorithm that is tuned for two scenarios of one task: see `suite tuned list`, "
        "or add some with `suite sweep` or `suite tuned import`"
    )
