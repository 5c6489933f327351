"""FedAvg on real data reaches what the papers and the data sets' authors lead one to expect.

Needs the files (`SUITE_DATA`); skipped where they are absent.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from trials import datasets
from trials.run.scenario import Scenario
from trials.run.spec import canonical
from trials.run.trial import run
from trials.settings import Settings

REAL = Path(os.environ.get("SUITE_DATA", "/nowhere"))
COPY = REAL / "cifar10"


def trained(dataset: str, lr: float, **given) -> float:
    """Test accuracy of logistic regression, IID, after 30 rounds of 10 of 100 clients."""
    common = {"rounds": 30, "clients": 100, "participation": 0.1, "batch_size": 10, **given}
    spec = canonical(
        "fedavg", {"lr": lr}, Scenario(dataset, "logreg", "iid"), Settings(**common), 0
    )
    return run(spec)[0].history[-1]["test_accuracy"]


@pytest.mark.parametrize(
    ("name", "lr", "given", "least"),
    [
        # FedAgg Table III: FedAvg reaches 86 % on shards; IID is easier.
        ("mnist", 0.05, {}, 0.88),
        # Xiao et al. 2017 report 84.2 % for centralised logistic regression.
        ("fashion_mnist", 0.03, {}, 0.80),
        # DeFed: 99.85 %, and about half a percent less on Fashion-MNIST's first two classes.
        ("mnist01", 0.1, {"clients": 10, "participation": 1.0, "batch_size": 64}, 0.99),
        ("fashion_mnist01", 0.1, {"clients": 10, "participation": 1.0, "batch_size": 64}, 0.95),
    ],
)
def test_fedavg_learns(name, lr, given, least):
    if any(report.found is None for report in datasets.prepare(name, None)):
        pytest.skip(f"set SUITE_DATA to a folder that holds the files of {name}")
    assert trained(name, lr, **given) > least


def test_fedavg_meets_folbs_target_on_power_law_mnist_as_soon_as_there():
    """FOLB Table I (published): 80 % after 25 rounds, 10 of 1,000 devices a round, 1..20 local steps,
    plain averages; learning rate and batch from FedProx's code.
    """
    if any(report.found is None for report in datasets.prepare("mnist_powerlaw", None)):
        pytest.skip("set SUITE_DATA to a folder that holds the files of mnist")
    settings = Settings(
        rounds=25, participation=0.01, batch_size=10, eval_every=5, aggregation="plain"
    )
    names = ("mnist_powerlaw", "logreg", "natural+system(steps=1..20)")
    done, data = run(canonical("fedavg", {"lr": 0.03}, Scenario(*names), settings, 0))
    assert data.clients == 1000
    assert max(entry["test_accuracy"] for entry in done.history) > 0.80


def test_fedavg_learns_a_copy_of_cifar10(tmp_path):
    """Genuine images that are not the official files: one's own data. Centralised logistic regression
    on pixels reaches about 40 %.
    """
    if not (COPY / "index.npz").is_file():
        pytest.skip("set SUITE_DATA to a folder that holds cifar10/ as strips of WebP images")
    arrays = {}
    index = np.load(COPY / "index.npz")
    for split in ("train", "test"):
        from PIL import Image

        strips = [
            np.asarray(Image.open(path).convert("RGB")).reshape(-1, 32, 32, 3)
            for path in sorted((COPY / split).glob("*.webp"))
        ]
        pixels = np.concatenate(strips)[index[f"{split}_order"]].transpose(0, 3, 1, 2)
        arrays[f"x_{split}"] = (pixels / np.float32(255) - np.float32(0.473)) / np.float32(0.25)
        arrays[f"y_{split}"] = index[f"{split}_labels"]
    np.savez(tmp_path / "cifar.npz", **arrays)
    assert trained(f"npz:{tmp_path / 'cifar.npz'}", 0.003) > 0.33


def test_fedavg_learns_the_next_character_by_speaking_role():
    """Tiny Shakespeare, the LSTM of FedProx's code, 7 of 668 roles in each of 20 rounds: a fifth of a
    pass over the data, with momentum to make up for it.

    The most frequent character, the blank, is 16 %. McMahan et al. 2017 and LEAF train to about 54 %
    (published; LEAF's Shakespeare, other roles and many passes); a sixth of the way there, 22.5 %,
    takes the text before the character.
    """
    play = REAL / "shakespeare" / "tinyshakespeare.txt"
    if not play.is_file():
        pytest.skip("set SUITE_DATA to a folder that holds shakespeare/tinyshakespeare.txt")
    name = (
        f"speeches(20,10):{play}"  # a fourth of the work of 80 characters, four times the samples
    )
    common = {"rounds": 20, "participation": 0.01, "eval_every": 20, "val_fraction": 0.0}
    local = {"batch_size": 10, "momentum": 0.9, "clip_norm": 5.0}
    settings = Settings(**common, **local)
    done, data = run(
        canonical("fedavg", {"lr": 0.5}, Scenario(name, "char_lstm", "natural"), settings, 0)
    )
    assert data.clients == 668
    blank = np.bincount(data.dataset.y[data.test]).max() / len(data.test)
    assert blank == pytest.approx(0.162, abs=0.001)
    assert done.history[0]["test_accuracy"] < blank
    assert done.history[-1]["test_accuracy"] > blank + (0.54 - blank) / 6
