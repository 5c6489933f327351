"""The examples work as they are: a third party's algorithm takes part in a sweep with no edit of the
project, by path and installed; and the Python interface, which docs/python.md shows.
"""

import json
import re
import runpy
import shutil

import numpy as np
import pytest

from suite.tracking.store import Store
from tests.support import own_ray
from tests.support.commands import SINGLY, document, fault, runs_of, study_file, suite_here
from tests.support.oracle import LR, SEED, STEPS, clients, initial, local_sgd
from tests.support.simulations import ROOT, partitioned, settings, simulation
from trials import algorithms
from trials.common import plugins

EXAMPLE = ROOT / "examples" / "fedmedian.py"
SIZES = [5, 9, 3, 7]


def test_the_example_is_the_median():
    cls = algorithms.resolve(f"{EXAMPLE}:FedMedian")
    run = simulation(cls(lr=LR), partitioned(SIZES), settings(), seed=SEED)
    w = initial()
    while not run.finished:
        run.advance()
        local = [local_sgd(w, [part] * STEPS, LR) for part in clients(partitioned(SIZES))]
        w = np.median(local, axis=0)
        np.testing.assert_allclose(run.state["w"].numpy(), w, rtol=0, atol=1e-10)


@pytest.mark.slow("Ray")
def test_a_file_takes_part_in_a_sweep(tmp_path):
    mine = f"{EXAMPLE}:FedMedian"
    args = ("--algorithms", f"fedavg,{mine}", "--heterogeneity", "iid", "--trials", 2)
    suite_here("sweep", "smoke", *args, *SINGLY, cwd=tmp_path, on_ray=True)
    rows = document(suite_here("leaderboard", "--json", cwd=tmp_path))["rows"]
    (row,) = (row for row in rows if row["algorithm"] == mine)
    assert row["rank"] in (1, 2)
    assert row["paper"] == "Yin et al. 2018"
    assert "server_lr" in row["params"]


NAMED = """
algorithms: [fedavg, {algorithm}]
datasets: ["{dataset}"]
models: [logreg]
heterogeneity: ["{level}"]
trials: 2
seeds: 1
sampler: {sampler}
settings: {{rounds: 1, clients: 5, execution: batched}}
"""
POINTS = """
[suite.algorithms]
fedmedian = ours_fl.fedmedian:FedMedian
[suite.datasets]
moons = ours_fl.own_dataset:Moons
[suite.partitions]
hubs = ours_fl.own_partition:Hubs
"""


def test_an_installed_package_takes_part_in_a_sweep(tmp_path, monkeypatch):
    site = tmp_path / "site"
    info = site / "ours_fl-1.0.dist-info"
    info.mkdir(parents=True)
    shutil.copytree(ROOT / "examples", site / "ours_fl")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ours-fl\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(site)
    for kind, name in {
        "algorithms": "fedmedian",
        "datasets": "moons(owners=10, noise=0.1)",
        "heterogeneity": "hubs(hubs, share=0.8)",
    }.items():
        listed = document(suite_here("list", kind, "--json", cwd=tmp_path))
        assert name in [item["name"] for item in listed]
    names = {"algorithm": "fedmedian", "dataset": "moons(5)", "level": "hubs(1)"}
    study = study_file(tmp_path, NAMED.format(**names, sampler="random"))
    suite_here("sweep", study, *SINGLY, cwd=tmp_path)
    rows = document(suite_here("leaderboard", "--json", cwd=tmp_path))["rows"]
    assert {row["algorithm"]: row["rank"] in (1, 2) for row in rows} == {
        "fedavg": True,
        "fedmedian": True,
    }
    assert {(row["dataset"], row["heterogeneity"]) for row in rows} == {
        ("moons(5,noise=0.1)", "hubs(1,share=0.8)")
    }


@pytest.mark.slow("Ray")
def test_files_take_part_in_a_sweep_known_by_their_hashes(tmp_path):
    moons, hubs = tmp_path / "own_dataset.py", tmp_path / "own_partition.py"
    for file in (moons, hubs):
        file.write_text((ROOT / "examples" / file.name).read_text())
    names = {"algorithm": "fedprox", "sampler": "random", "dataset": "own_dataset.py:Moons(5)"}
    level = "own_partition.py:Hubs(1)+dropout(0.1)"
    study = study_file(tmp_path, NAMED.format(**names, level=level))
    suite_here("sweep", study, *SINGLY, cwd=tmp_path, on_ray=True)
    (final, _) = runs_of(Store(None, tmp_path / "runs"), kind="final")
    data, part = f"{moons}:Moons(5)", f"{hubs}:Hubs(1,share=0.8)"
    assert (final.tags["dataset"], final.tags["heterogeneity"]) == (data, f"{part}+dropout(0.1)")
    assert json.loads(final.tags["ran"])["code"] == plugins.hashes(data, part)
    assert document(suite_here("replay", final.run_id, "--json", cwd=tmp_path))["identical"]
    hubs.write_text(hubs.read_text() + "# changed\n")
    changed = fault(suite_here("replay", final.run_id, cwd=tmp_path, code=2))
    assert f"{part} has changed since: SHA-256 was " in changed


SAMPLER = """
algorithms: [fedavg]
datasets: [digits]
models: [logreg]
heterogeneity: [iid]
trials: 7
seeds: 1
sampler: sampler.py:make
settings: {rounds: 1, clients: 4, execution: batched}
"""


def test_a_file_s_sampler_searches_and_goes_on_only_unchanged(tmp_path):
    file, study = tmp_path / "sampler.py", tmp_path / "study.yaml"
    file.write_text((ROOT / "examples" / "own_sampler.py").read_text())
    study.write_text(SAMPLER)
    name = f"{file}:make"
    plan = document(suite_here("sweep", study, "--dry-run", "--json", cwd=tmp_path))
    assert plan["sampler"] == name
    assert (plan["startup"], plan["modelled_from"]) == (1, 5)
    suite_here("sweep", study, *SINGLY, cwd=tmp_path)
    store = Store(None, tmp_path / "runs")
    (sweep,) = runs_of(store, kind="sweep")
    assert json.loads(sweep.tags["code"]) == plugins.hashes(name)
    assert len(runs_of(store, kind="search")) == 7
    row = document(suite_here("leaderboard", "--json", cwd=tmp_path))["rows"][0]
    assert row["trials"] == 7
    study.write_text(SAMPLER.replace("trials: 7", "trials: 8"))
    file.write_text(file.read_text() + "# changed\n")
    resume = ("sweep", study, "--resume", *SINGLY)
    changed = fault(suite_here(*resume, "--trials", 8, cwd=tmp_path, code=2))
    assert changed.startswith(f"sweep study: {name} has changed since: SHA-256 was ")
    assert changed.endswith("Put the former file back, or begin anew")
    file.write_text(file.read_text().removesuffix("# changed\n"))
    suite_here(*resume, "--trials", 8, cwd=tmp_path)
    assert len(runs_of(store, kind="search")) == 8


PYTHON = ROOT / "examples" / "python_interface.py"


@pytest.mark.slow("Ray, and Tune")
def test_the_python_interface_from_a_sweep_to_a_search_of_one_s_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    own_ray.started()
    found = runpy.run_path(str(PYTHON))
    assert {row.algorithm for row in found["board"].rows} == {"fedavg", "folb"}
    assert found["best"].algorithm == "folb"
    assert found["again"].spec.seed == 7
    assert not found["results"].errors
    assert "test_accuracy" in capsys.readouterr().out


def test_the_page_on_python_shows_the_example():
    _, part, code = PYTHON.read_text().partition("# Any algorithm as an ordinary trainable")
    assert f"```python\n{part}{code}```" in (ROOT / "docs" / "python.md").read_text()


def test_the_cells_of_the_notebook_run_as_a_script(tmp_path, in_this_process, monkeypatch, capsys):
    cells = json.loads((ROOT / "examples" / "notebook.ipynb").read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] for cell in code[1:]), "it is kept executed"
    shown = json.dumps([cell["outputs"] for cell in code])
    assert "<progress value" in shown
    assert not re.findall(
        r"file:|https?://(?!www\.w3\.org)|(?<![\w.<])/(?:tmp|home|root|Users)/", shown
    )
    monkeypatch.chdir(tmp_path)
    exec("\n".join("".join(cell["source"]) for cell in code), {})
    assert "Did you mean 'folb'?" in capsys.readouterr().out
    assert (tmp_path / "runs/report/notebook/report.html").is_file()


def test_a_model_by_file_is_tuned_recorded_and_replayed(tmp_path):
    file = tmp_path / "own_model.py"
    file.write_text((ROOT / "examples" / file.name).read_text())
    names = {"algorithm": "fedprox", "sampler": "random", "dataset": "digits", "level": "iid"}
    content = NAMED.format(**names).replace("logreg", '"own_model.py:make(width=8)"')
    study = study_file(tmp_path, content)
    suite_here("sweep", study, *SINGLY, cwd=tmp_path)
    (final, _) = runs_of(Store(None, tmp_path / "runs"), kind="final")
    assert final.tags["model"] == f"{file}:make(width=8)"
    assert json.loads(final.tags["ran"])["code"] == plugins.hashes(final.tags["model"])
    assert "random numbers" in final.tags["model_note"]
    assert document(suite_here("replay", final.run_id, "--json", cwd=tmp_path))["identical"]
