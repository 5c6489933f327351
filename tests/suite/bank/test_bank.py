"""The bank: what a store, a file and a run into it hold are the same trials, each once."""

import json
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest

from suite import bank
from suite.bank.fill import Filling, fill
from suite.bank.rows import Traits
from suite.bank.table import KEY, merged, read, table, write
from suite.studies.study import Study
from suite.tracking.store import Store
from tests.support.commands import fault, suite_here
from trials import datasets, heterogeneity
from trials.common.errors import UserError
from trials.federated_data import FederatedData, partition
from trials.run.spec import TrialSpec
from trials.run.trial import fit_model
from trials.settings import Settings

CONTENT = {
    "algorithms": ["fedavg", "folb"],
    "datasets": ["digits"],
    "models": ["logreg"],
    "heterogeneity": ["iid", "labels(2)"],
    "trials": 4,
    "seeds": 2,
    "sampler": "random",
    "confirm": {"best": 2, "seeds": 1},
    "settings": {"rounds": 4, "clients": 4, "execution": "batched"},
    "search": {"lr": {"low": 0.001, "high": 1e6}},  # some diverge
}
MEASURED = ["seconds"]
"""What two runs of a trial need not agree in."""


def filled(changes=(), rows=(), until=None, name="small"):
    """A study as the bank holds it, from what it held before."""
    filling = Filling(name, Study(**{**CONTENT, **dict(changes)}), list(rows), None)
    fill(filling, time.monotonic() + 100 if until is None else until, lambda f: None, 100)
    return filling


@pytest.fixture(scope="module")
def whole():
    return filled()


def content(filling):
    return merged([table(filling.current())]).drop_columns(MEASURED).to_pylist()


def test_a_sweep_exported_and_the_same_study_filled_are_equal_to_the_bit(
    in_this_process, tmp_path, whole
):
    (tmp_path / "small.yaml").write_text(json.dumps(CONTENT))
    suite_here("sweep", "small.yaml", cwd=tmp_path)
    done = suite_here("bank", "export", "out.parquet", "--name", "small", "--json", cwd=tmp_path)
    assert json.loads(done.stdout) == {"file": "out.parquet", "trials": 4 * (4 + 2 + 2)}
    rows = read(tmp_path / "out.parquet").drop_columns(MEASURED).to_pylist()
    np.testing.assert_equal(rows, content(whole))
    # And the store says so itself.
    store = Store(None, tmp_path / "runs")
    by_id = {row["trial_id"]: row for row in rows}
    finals = store.sound(kind="final")
    assert len(finals) == 8
    for run in finals:
        row = by_id[run.tags.trial_id]
        assert row["test_score"] == run.metrics["test_score"]
        assert row["bytes"] == sum(
            run.metrics.get(f"{way}_bytes", 0) for way in ("uploaded", "downloaded", "peer")
        )
        curve = store.history(run.run_id, "test_accuracy")
        assert row["evaluations"] == [at for at, _ in curve]
        np.testing.assert_allclose(row["test_curve"], [value for _, value in curve], rtol=1e-6)


def test_some_trials_diverge_and_are_there(whole):
    assert {row["status"] for row in whole.rows.values()} == {"finished", "diverged"}


def test_what_the_bank_holds_is_not_run_again_and_the_rest_is_the_same(whole, monkeypatch):
    half = [row for row in whole.rows.values() if row["kind"] == "search"][::2]
    ran = []
    run = Filling._run
    monkeypatch.setattr(Filling, "_run", lambda self, pack: ran.extend(pack) or run(self, pack))
    again = filled(rows=half)
    assert not {request.trial_id for request in ran} & {row["trial_id"] for row in half}
    assert len(ran) + len(half) == len(whole.rows)
    np.testing.assert_equal(content(again), content(whole))
    ran.clear()
    assert content(filled(rows=whole.rows.values()))
    assert not ran


def test_a_larger_budget_keeps_the_trials_and_leaves_out_former_finals(whole):
    more = filled({"trials": 6}, whole.rows.values())
    kinds = [row["kind"] for row in more.current()]
    assert kinds.count("search") == 24
    assert kinds.count("final") == 8
    assert {row["trial_id"] for row in whole.current() if row["kind"] == "search"} < set(more.rows)


def test_trials_are_run_again_and_a_changed_number_is_found(whole, in_this_process, tmp_path):
    (tmp_path / "small.yaml").write_text(json.dumps(CONTENT))
    rows = merged([table(whole.current())]).to_pylist()
    kept = tmp_path / "runs" / "bank" / "small.parquet"
    write(kept, table(rows))
    asked = ("bank", "verify", "small.yaml", "--sample", 40, "--json")
    said = json.loads(suite_here(*asked, cwd=tmp_path).stdout)["studies"]
    assert said == [{"study": "small", "trials": 32, "again": 32, "identical": 32}]
    write(kept, table([rows[0] | {"test_score": 0.123}, *rows[1:]]))
    refused = suite_here(*asked, cwd=tmp_path, code=1)
    assert json.loads(refused.stdout)["studies"][0]["identical"] == 31
    assert f"{rows[0]['trial_id']} differs in test_score; test score 0.123, now" in refused.stderr
    kept.unlink()
    assert "no trial of study small" in suite_here(*asked, cwd=tmp_path, code=2).stderr


def test_no_trial_starts_after_the_time(whole):
    assert not filled(until=time.monotonic() - 1).rows


def test_a_learning_sampler_goes_on_as_it_would_have(whole):
    changes = {"sampler": "tpe", "trials": 12, "algorithms": ["fedavg"], "confirm": None}
    changes["heterogeneity"] = ["iid"]
    once = filled(changes)
    cut = [row for row in once.rows.values() if row["trial_id"][-4:] < "0007"]
    np.testing.assert_equal(content(filled(changes, cut)), content(once))


@pytest.mark.parametrize(
    "change", [{"scheduler": "asha"}, {"constraints": {"uploaded_bytes": {"max": 1}}}]
)
def test_a_study_that_needs_more_than_rows_is_refused(change):
    with pytest.raises(UserError, match=r"small: scheduler and constraints need `suite sw"):
        filled(change)


def test_imported_twice_counts_once(tmp_path, whole):
    write(tmp_path / "theirs.parquet", merged([table(whole.current())]))
    for added in (32, 0):
        done = suite_here("bank", "import", "theirs.parquet", "--json", cwd=tmp_path)
        assert json.loads(done.stdout)["added"] == added
    trials = bank.load(tmp_path / "runs" / "bank")
    assert len(trials) == 32
    assert not trials[list(KEY)].duplicated().any()
    said = suite_here("bank", "describe", "runs/bank", "--json", cwd=tmp_path)
    (group,) = json.loads(said.stdout)["groups"]
    assert (group["study"], group["levels"], group["trials"]) == ("small", 2, 32)


def test_fill_writes_a_table_for_each_study_and_goes_on(tmp_path):
    small = {**CONTENT, "trials": 2, "confirm": None, "heterogeneity": ["iid"]}
    (tmp_path / "one.yaml").write_text(json.dumps(small))
    (tmp_path / "bad.yaml").write_text(json.dumps({**small, "datasets": ["npz:none.npz"]}))
    late = suite_here("bank", "fill", "one.yaml", "--hours", "0", "--json", cwd=tmp_path)
    assert json.loads(late.stdout) == []
    assert not (tmp_path / "runs").exists()
    done = suite_here("bank", "fill", "bad.yaml", "one.yaml", "--json", cwd=tmp_path, code=2)
    assert json.loads(done.stdout) == [{"study": "one", "trials": 8, "planned": 8}]
    assert "none.npz" in done.stderr
    suite_here("bank", "fill", "one.yaml", "--trials", "3", cwd=tmp_path)
    trials = bank.load(tmp_path / "runs" / "bank")
    assert (trials["kind"] == "search").sum() == 6


def test_a_folder_of_tables_may_have_a_dot_in_its_name(tmp_path: Path, whole):
    content = merged([table(whole.current())])
    write(tmp_path / "edition.3" / "small.parquet", content)
    assert len(bank.load(tmp_path / "edition.3")) == len(content)


@pytest.mark.parametrize("damage", ["cut", "text", "column", "absent"])
def test_what_is_no_bank_is_refused_in_one_line(tmp_path: Path, whole, damage):
    path = tmp_path / "bad.parquet"
    content = merged([table(whole.current())])
    write(path, content)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-50])
    elif damage == "text":
        path.write_text("algorithm,lr\nfedavg,0.1\n")
    elif damage == "column":
        parquet.write_table(content.drop_columns(["seed"]), path)
    else:
        path.unlink()
    said = fault(suite_here("bank", "import", path, cwd=tmp_path, code=2))
    assert "bad.parquet" in said
    assert "\n" not in said.strip()
    assert not (tmp_path / "runs").exists()


def test_traits_of_a_federation_by_hand(digits):
    """Two clients: 3 samples of label 0 and 1 of label 1; 2 of label 1. Shares 3/6 and 3/6 in all."""
    zero, one = (np.flatnonzero(digits.y == label) for label in (0, 1))
    train = np.concatenate([zero[:3], one[:3]])
    data = FederatedData(digits, train, np.array([0, 4, 6]), one[3:4], one[4:5])
    spec = TrialSpec(
        algorithm="fedavg",
        params={},
        dataset="digits",
        model="logreg",
        heterogeneity="iid",
        settings=Settings(),
        seed=0,
    )
    found = Traits.of(data, fit_model(spec, digits))
    assert (found.samples, found.clients, found.features, found.classes) == (6, 2, 64, 10)
    assert found.weights == 650
    assert found.label_skew == pytest.approx((0.25 + 0.5) / 2)
    assert found.size_spread == pytest.approx(1 / 3)
    even = partition(
        datasets.parse("digits").load(0, None, None),
        heterogeneity.parse("iid"),
        Settings(clients=4),
    )
    assert Traits.of(even, fit_model(spec, digits)).label_skew < 0.06
