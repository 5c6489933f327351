"""Commands that need no sweep: listings, bad input, single runs."""

import importlib.metadata
import os
import sys
from pathlib import Path

import pytest

from tests.support.commands import document, fault, study_file, suite, suite_here


def test_all_faults_are_shown_at_once(tmp_path: Path) -> None:
    path = study_file(
        tmp_path,
        "algorithms: [fedavg, foldb]\ndatasets: [digits]\nmodels: [logreg]\nheterogeneity: [iid]\n"
        "trials: -1\nsettings: {rouns: 3}\nsearch: {lr: {low: 1.0, high: 0.1}}\n",
    )
    failed = suite("sweep", path, cwd=tmp_path, code=2)
    assert fault(failed) == (
        f"{path}: 4 faults, nothing was started\n"
        "  algorithms[1] = 'foldb': unknown algorithm 'foldb'. Did you mean 'folb'?\n"
        "  trials = -1: must be greater than or equal to 1\n"
        "  settings.rouns = 3: unknown key 'rouns'. Did you mean 'rounds'?\n"
        "  search.lr = {'low': 1.0, 'high': 0.1}: low <= high must hold, but got low=1, high=0.1"
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["small.yaml"]


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_unwritable_storage(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    failed = suite("sweep", "smoke", "--storage", tmp_path / "locked", cwd=tmp_path, code=2)
    assert fault(failed) == f"cannot write {tmp_path}/locked/smoke: Permission denied"


@pytest.mark.parametrize(
    "kind", ["algorithms", "datasets", "models", "heterogeneity", "samplers", "studies", "papers"]
)
def test_listings(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    found = document(suite_here("list", kind, "--json", cwd=tmp_path))
    assert all(item["name"] for item in found)
    table = suite_here("list", kind, cwd=tmp_path).stdout
    assert found[0]["name"][:4] in table
    assert max(map(len, table.splitlines())) <= 80
    assert "…" not in table


def test_algorithm_listing_carries_the_contract(tmp_path: Path) -> None:
    found = {
        item["name"]: item
        for item in document(suite_here("list", "algorithms", "--json", cwd=tmp_path))
    }
    assert {"fedavg", "fedprox", "folb", "safl"} <= set(found)
    psi = found["folb"]["hyperparameters"]["psi"]
    assert {"type", "default", "low", "high", "log", "choices", "when"} <= set(psi)
    assert psi["searched"]
    assert not found["safl_extended"]["hyperparameters"]["nu"]["searched"]
    assert psi["when"] == {"variant": "heterogeneity"}
    assert all({"params", "source"} <= set(p) for a in found.values() for p in a["published"])
    assert found["fedprox"]["published"]


def test_run_prints_one_document_and_records_it(tmp_path: Path) -> None:
    args = "--algorithm fedprox --set mu=0.5 --set local_steps=3 --set rounds=4 --set clients=5"
    done = document(suite_here("run", *args.split(), "--seed", 7, "--json", cwd=tmp_path))
    assert (done["algorithm"], done["seed"], done["rounds"]) == ("fedprox", 7, 4)
    assert done["params"] == {"lr": 0.1, "mu": 0.5}
    assert [entry["round"] for entry in done["history"]] == [0, 1, 2, 3, 4]
    assert {"test_accuracy", "test_loss", "val_accuracy", "train_loss"} <= set(done["history"][-1])
    assert document(suite_here("replay", done["run_id"], "--json", cwd=tmp_path))["identical"]


def test_paper_protocol_has_no_validation(tmp_path: Path) -> None:
    args = "--set val_fraction=0 --set dtype=float64 --set rounds=2 --no-record --json"
    done = document(suite_here("run", *args.split(), cwd=tmp_path))
    assert not any(key.startswith("val_") for key in done["history"][-1])
    assert not (tmp_path / "runs").exists()


def test_a_run_that_diverges_is_valid_json(tmp_path: Path) -> None:
    args = ["--set", "lr=1e38", "--set", "rounds=3", "--no-record", "--json"]
    done = suite_here("run", *args, cwd=tmp_path)
    assert "NaN" not in done.stdout
    assert document(done)["status"] == "diverged"


def test_dry_run_starts_nothing(tmp_path: Path) -> None:
    plan = document(suite_here("sweep", "quickstart", "--dry-run", "--json", cwd=tmp_path))
    assert len(plan["entries"]) == 14
    assert list(tmp_path.iterdir()) == []


def test_a_smoke_test_leaves_the_name_of_its_study_free(tmp_path: Path) -> None:
    for options, name in ((), "smoke"), (("--smoke",), "smoke-smoke"), (("--name", "a"), "a"):
        plan = suite_here("sweep", "smoke", *options, "--dry-run", "--json", cwd=tmp_path)
        assert document(plan)["name"] == name


def test_the_version_is_the_installed_package_s(tmp_path: Path) -> None:
    version = importlib.metadata.version("suite-fl")
    assert suite_here("--version", cwd=tmp_path).stdout == f"suite {version}\n"


def test_reports_need_no_torch_and_trials_no_suite() -> None:
    import subprocess

    code = "import sys, {}; bad = {{{}}} & set(sys.modules); sys.exit(str(bad) if bad else 0)"
    for module, banned in (
        ("reports.wording.formats", "'torch', 'ray'"),
        (
            "trials.run.trial",
            "'suite', 'mlflow', 'optuna', 'ray', 'torch', 'networkx', 'scipy', 'numba'",
        ),
    ):
        subprocess.run([sys.executable, "-c", code.format(module, banned)], check=True)
