"""GPUs that are asked for: what there is not is refused before any trial starts, and says what to do."""

from pathlib import Path
from typing import Any

import pytest
import torch

from suite.execution import cluster
from tests.support.commands import document, fault, study_file, suite_here
from tests.support.searches import a_trial
from trials.common.device import CONTEXT
from trials.run.spec import TrialSpec
from trials.run.trial import fit_model, load_dataset, partition_data
from trials.sizing import footprint

CPU_BUILD = f"torch {torch.__version__} is a CPU build"
cpu_build = pytest.mark.skipif(torch.version.cuda is not None, reason="needs a CPU build of torch")
GPU = ("--set", "gpus_per_trial=0.5")
STUDY = """
algorithms: [fedavg]
datasets: [digits]
models: [logreg]
heterogeneity: [iid]
trials: 1
seeds: 1
settings: {rounds: 2, clients: 2, execution: compiled}
"""


@cpu_build
@pytest.mark.usefixtures("no_ray_yet")
@pytest.mark.parametrize(
    "words",
    [
        ("sweep", "smoke", *GPU),
        ("reproduce", "folb/table1/synthetic_iid", "--seeds", 2, "--rounds", 40, *GPU),
        ("run", "--device", "cuda"),
    ],
)
def test_gpus_that_this_machine_lacks(words: tuple[Any, ...], tmp_path: Path) -> None:
    assert CPU_BUILD in fault(suite_here(*words, cwd=tmp_path, code=2))


def test_an_execution_for_cpus_in_a_study_on_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "check", lambda resources: None)
    path = study_file(tmp_path, STUDY)
    for plan in ((), ("--dry-run",)):
        done = suite_here("sweep", path, *GPU, *plan, cwd=tmp_path, code=2)
        assert "execution is compiled" in fault(done)


# Memory of a card


def trial(algorithm: str = "fedavg", **given: Any) -> TrialSpec:
    return a_trial(algorithm, **{"participation": 0.5, **given})


def needed(spec: TrialSpec) -> int:
    data = partition_data(spec, load_dataset(spec, None))
    return footprint(spec, data, fit_model(spec, data.dataset, "cuda"), "cuda").device


def test_the_estimate_of_a_gpu_counts_all_that_must_be_there() -> None:
    """digits: 1797 images of 64 pixels; 650 weights. Clients hold at most 162 samples: 6 steps of 32."""
    data = partition_data(trial(), load_dataset(trial(), None))
    assert data.sizes.max() == 162
    samples = 1797 * (64 * 4 + 8)
    of_round = 4 * (6 * 32 * (8 + 4) + 5 * 650 * 4)
    client = fit_model(trial(), data.dataset).bytes_a_client(32, torch.empty(0))
    assert needed(trial()) == CONTEXT + samples + of_round + 650 * 4 + client
    assert needed(trial(chunk=3)) - needed(trial()) == 2 * client
    assert needed(trial(chunk=99)) - needed(trial()) == 3 * client, "4 are selected"
    assert needed(trial("scaffold")) - needed(trial()) == 650 * 4, "its table may be on the host"


def test_the_plan_says_what_a_trial_needs_of_a_gpu(tmp_path: Path) -> None:
    plan = document(suite_here("sweep", "smoke", *GPU, "--dry-run", "--json", cwd=tmp_path))
    assert plan["gpu_memory_bytes_per_trial"] > CONTEXT
    plan = document(suite_here("sweep", "smoke", "--dry-run", "--json", cwd=tmp_path))
    assert plan["gpu_memory_bytes_per_trial"] == 0
