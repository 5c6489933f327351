"""Commands that need no sweep: listings, bad input, single runs."""

import importlib.metadata
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.commands import SUITE, document, fault, study_file, suite, suite_here


def test_all_faults_are_shown_at_once(tmp_path: Path) -> None:
    path = study_file(
        tmp_path,
        "algorithms: [fedavg, foldb]\ndatasets: [digits]\nmodels: [logreg]\nheterogeneity: [iid]\n"
        "trials: -1\nsettings: {rouns: 3}\nsearch: {lr: {low: 1.0, high: 0.1}}\n",
    )
    failed = suite("sweep", path, cwd=tmp_path, code=2)
    assert fault(failed) == (
        f"{path}: 4 faults, nothing was started\n"
        "  trials = -1: must be greater than or equal to 1\n"
        "  settings.rouns = 3: unknown key 'rouns'. Did you mean 'rounds'?\n"
        "  search.lr = {'low': 1.0, 'high': 0.1}: low <= high must hold, but got low=1, high=0.1\n"
        "  algorithms[1] = 'foldb': unknown algorithm 'foldb'. Did you mean 'folb'?"
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["small.yaml"]


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_unwritable_storage(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    failed = suite("sweep", "smoke", "--storage", tmp_path / "locked", cwd=tmp_path, code=2)
    assert fault(failed) == f"storage {tmp_path}/locked/smoke cannot be written: Permission denied"


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
    args = [
        "--algorithm",
        "fedprox",
        "--set",
        "mu=0.5",
        "--set",
        "local_steps=3",
        "--set",
        "rounds=4",
    ]
    done = document(
        suite_here("run", *args, "--set", "clients=5", "--seed", 7, "--json", cwd=tmp_path)
    )
    assert (done["algorithm"], done["seed"], done["rounds"]) == ("fedprox", 7, 4)
    assert done["params"] == {"lr": 0.1, "mu": 0.5}
    assert [entry["round"] for entry in done["history"]] == [0, 1, 2, 3, 4]
    assert {"test_accuracy", "test_loss", "val_accuracy", "train_loss"} <= set(done["history"][-1])
    assert document(suite_here("replay", done["run_id"], "--json", cwd=tmp_path))["identical"]


def test_paper_protocol_has_no_validation(tmp_path: Path) -> None:
    args = [
        "--set",
        "val_fraction=0",
        "--set",
        "dtype=float64",
        "--set",
        "rounds=2",
        "--no-record",
        "--json",
    ]
    done = document(suite_here("run", *args, cwd=tmp_path))
    assert not any(key.startswith("val_") for key in done["history"][-1])
    assert not (tmp_path / "runs").exists()


def test_a_run_that_diverges_is_valid_json(tmp_path: Path) -> None:
    args = ["--set", "lr=1e38", "--set", "rounds=3", "--no-record", "--json"]
    done = suite_here("run", *args, cwd=tmp_path)
    assert "NaN" not in done.stdout
    assert document(done)["status"] == "diverged"


def test_own_data_and_an_own_algorithm(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 200)
    x = rng.normal(size=(200, 4)) + 3 * np.eye(3, 4)[y]
    arrays = {"x_train": x[:150], "y_train": y[:150], "x_test": x[150:], "y_test": y[150:]}
    np.savez(tmp_path / "mine.npz", **arrays, client_train=np.arange(150) % 6)
    (tmp_path / "mine.py").write_text(
        "from dataclasses import dataclass\n"
        "from trials.algorithm import real\n"
        "from trials.algorithms.fedavg import FedAvg\n"
        "@dataclass(frozen=True)\n"
        "class Half(FedAvg):\n"
        '    """Keeps a share of the old model."""\n'
        "    keep: float = real(0.5, low=0.0, high=1.0)\n"
        "    def aggregate(self, state, ids, start, local, fed):\n"
        "        new = super().aggregate(state, ids, start, local, fed)['w']\n"
        "        return {'w': self.keep * state['w'] + (1 - self.keep) * new}\n"
    )
    args = [
        "--dataset",
        "npz:mine.npz",
        "--heterogeneity",
        "natural",
        "--algorithm",
        "mine.py:Half",
    ]
    done = document(
        suite_here("run", *args, "--set", "keep=0.2", "--json", "--no-record", cwd=tmp_path)
    )
    assert done["params"]["keep"] == 0.2
    assert done["history"][-1]["test_accuracy"] > 0.9


def test_tuned_import_makes_a_configuration_known(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "algorithm: fedprox\ndataset: digits\nmodel: logreg\nheterogeneity: iid\n"
        "params: {lr: 0.3, mu: 0.02}\nsettings: {rounds: 3, clients: 5}\n"
    )
    suite_here("tuned", "import", "mine.yaml", cwd=tmp_path)
    (found,) = document(suite_here("tuned", "list", "--json", cwd=tmp_path))
    assert found["params"] == {"lr": 0.3, "mu": 0.02}
    shown = suite_here("tuned", "show", "--algorithm", "fedprox", cwd=tmp_path).stdout
    assert "mu: 0.02" in shown
    (tmp_path / "bad.yaml").write_text("algorithm: fedprox\nparms: {}\n")
    failed = suite_here("tuned", "import", "bad.yaml", cwd=tmp_path, code=2)
    assert fault(failed) == (
        "1 of 1 files cannot be imported; nothing was\n"
        "bad.yaml: 4 faults, nothing was started\n"
        "  dataset: is required\n"
        "  model: is required\n"
        "  heterogeneity: is required\n"
        "  parms = {}: unknown key 'parms'. Did you mean 'params'?"
    )


def test_dry_run_starts_nothing(tmp_path: Path) -> None:
    plan = document(suite_here("sweep", "quickstart", "--dry-run", "--json", cwd=tmp_path))
    assert len(plan["entries"]) == 14
    assert list(tmp_path.iterdir()) == []


def test_a_smoke_test_leaves_the_name_of_its_study_free(tmp_path: Path) -> None:
    for options, name in ((), "smoke"), (("--smoke",), "smoke-smoke"), (("--name", "a"), "a"):
        plan = suite_here("sweep", "smoke", *options, "--dry-run", "--json", cwd=tmp_path)
        assert document(plan)["name"] == name


def test_smoke_takes_the_clients_that_natural_data_have(tmp_path: Path) -> None:
    """Neither four of them nor the study's thirty can be had."""
    rng = np.random.default_rng(0)
    owner = np.arange(90) % 6
    arrays = {
        f"{k}_{part}": rng.integers(0, 3, (90, 4) if k == "x" else 90)
        for part in ("train", "test")
        for k in "xy"
    }
    np.savez(tmp_path / "own.npz", **arrays, client_train=owner)
    options = ["--smoke", "--datasets", f"npz:{tmp_path / 'own.npz'}", "--algorithms", "fedavg"]
    for levels in ("natural", "iid,natural", "iid"):
        asked = [*options, "--heterogeneity", levels, "--dry-run", "--json"]
        plan = document(suite_here("sweep", "quickstart", *asked, cwd=tmp_path))
        assert (plan["trials_per_entry"], len(plan["entries"])) == (3, len(levels.split(",")))


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


def test_documents_are_plain_json(tmp_path: Path) -> None:
    assert json.loads(suite("list", "papers", "--json", cwd=tmp_path).stdout)
    assert Path(SUITE).exists()
