"""Commands that need no sweep: listings, single runs, plans, what is said where a person wrote something else than is meant."""

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

import suite as interface
from tests.support import foreign
from tests.support.commands import document, fault, suite_here
from trials.algorithms import ALGORITHMS
from trials.common.errors import UserError


@pytest.mark.parametrize(
    "kind", ["algorithms", "datasets", "models", "heterogeneity", "samplers", "studies", "papers"]
)
def test_listings(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    items = document(suite_here("list", kind, "--json", cwd=tmp_path))
    assert all(item["name"] for item in items)
    table = suite_here("list", kind, cwd=tmp_path).stdout
    assert items[0]["name"][:4] in table
    assert max(map(len, table.splitlines())) <= 80
    assert "…" not in table


def test_a_list_says_which_algorithms_of_packages_it_leaves_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "lost_fl-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lost-fl\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[suite.algorithms]\nlost = lost_fl:Lost\n")
    monkeypatch.syspath_prepend(tmp_path)
    done = suite_here("list", "algorithms", "--json", cwd=tmp_path)
    assert "lost of lost-fl (lost_fl:Lost) raised ModuleNotFoundError" in done.stderr
    assert [item["name"] for item in document(done)] == list(ALGORITHMS)


def test_run_prints_one_document_and_records_it(tmp_path: Path) -> None:
    args = "--algorithm fedprox --mu 0.5 --local-steps=3 --set rounds=4 --clients 5 --seed 7"
    done = document(suite_here("run", *args.split(), "--json", cwd=tmp_path))
    assert (done["algorithm"], done["seed"], done["rounds"]) == ("fedprox", 7, 4)
    assert done["params"] == {"lr": 0.1, "mu": 0.5}
    assert (done["settings"]["local_steps"], done["settings"]["clients"]) == (3, 5)
    assert [entry["round"] for entry in done["history"]] == [0, 1, 2, 3, 4]
    assert {"test_accuracy", "test_loss", "val_accuracy", "train_loss"} <= set(done["history"][-1])
    again = document(suite_here("replay", done["run_id"], "--json", cwd=tmp_path))
    assert next(iter(again)) == "identical"
    assert again["identical"]
    assert suite_here("replay", done["run_id"], cwd=tmp_path).stdout.startswith("identical")


def test_a_run_says_how_many_clients_and_samples_there_are(tmp_path: Path) -> None:
    done = suite_here("run", "--rounds", 1, "--clients", 4, "--no-record", cwd=tmp_path)
    assert (
        "4 clients with 1294 training samples, 143 for validation, 360 for testing" in done.stdout
    )
    assert not (tmp_path / "runs").exists()


def test_dry_run_starts_nothing(tmp_path: Path) -> None:
    plan = document(suite_here("sweep", "quickstart", "--dry-run", "--json", cwd=tmp_path))
    assert len(plan["entries"]) == 14
    shown = suite_here("sweep", "quickstart", "--dry-run", cwd=tmp_path).stdout
    assert "8 search trials and 5 final runs: 182 runs of 30 rounds" in shown
    assert list(tmp_path.iterdir()) == []


def test_the_version_is_the_installed_package_s(tmp_path: Path) -> None:
    first, second = suite_here("--version", cwd=tmp_path).stdout.splitlines()
    assert first == f"suite {importlib.metadata.version('suite-fl')}"
    assert f"ray {importlib.metadata.version('ray')}" in second


def test_names_that_nothing_has(tmp_path: Path) -> None:
    foreign.swept(tmp_path)
    storage = tmp_path / "runs"
    with pytest.raises(UserError, match=r"^unknown algorithm 'fedprx'\. Did you mean 'fedprox'\?$"):
        interface.tuned("fedprx", storage=storage)
    assert interface.tuned("fedprox", storage=storage) == []
    with pytest.raises(UserError, match=r"^unknown sweep 'nope'\. Known: s\.$"):
        interface.leaderboard("nope", storage=storage)
    exists = fault(suite_here("sweep", "smoke", "--name", "s", cwd=tmp_path, code=2))
    assert exists.startswith("sweep 's' exists in runs: continue it with --resume")


def test_reports_need_no_torch_and_trials_no_suite() -> None:
    code = "import sys, {}; bad = {{{}}} & set(sys.modules); sys.exit(str(bad) if bad else 0)"
    for module, banned in (
        ("reports.wording.tables", "'torch', 'ray'"),
        (
            "trials.run.trial",
            "'suite', 'mlflow', 'optuna', 'ray', 'torch', 'scipy', 'numba'",
        ),
    ):
        subprocess.run([sys.executable, "-c", code.format(module, banned)], check=True)
