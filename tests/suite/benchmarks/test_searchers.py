"""Simulated searches on trials that are made up: how accuracy depends on the configuration is known."""

import json

import numpy as np
import pandas as pd
import pytest

from searchers import pairs, searchers


def trials(family: str, best: float, count: int = 40, **given: object) -> pd.DataFrame:
    """Random search trials of FedAvg: accuracy 0.9 at the best learning rate, less on both sides, and 0.5 at least."""
    rates = 1e-3 * 1e4 ** ((np.arange(count) + 0.5) / count)
    scores = np.maximum(0.5, 0.9 - np.log10(rates / best) ** 2)
    return pd.DataFrame(
        {
            "algorithm": "fedavg", "dataset": family, "model": "logreg", "heterogeneity": "iid",
            "family": family, "settings": "{}", "status": "finished", "val_score": scores,
            "configuration": [json.dumps({"lr": rate}) for rate in rates],
        }
    ).assign(**given)  # fmt: skip


MADE = pd.concat([trials("a", 2.0), trials("b", 1.9), trials("c", 0.01)], ignore_index=True)


def test_the_forest_is_near_the_truth_and_a_divergence_is_the_worst_score():
    (pair,) = pairs(trials("a", 2.0), ["fedavg"])
    found = pair.predicted([{"lr": 2.0}, {"lr": 0.002}])
    assert found == pytest.approx([0.9, 0.5], abs=0.03)
    lost = trials("a", 2.0).assign(status="diverged", val_score=np.nan)
    assert pairs(lost, ["fedavg"])[0].best == 0.0


def test_the_document_weighs_families_alike():
    document = searchers(MADE, ["fedavg"], ["tpe", "random"], 1)
    assert (document["pairs"], document["families"], document["scenarios"]) == (3, 3, 3)
    assert [row["search"] for row in document["searches"]] == ["tpe", "random"]
    means = np.mean([pair.search("random", 0) for pair in pairs(MADE, ["fedavg"])], axis=0)
    assert document["curves"]["random"] == pytest.approx(list(means))
    assert document["searches"][1]["after 8"] == pytest.approx(means[7])
