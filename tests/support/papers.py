"""A paper of one table, small enough to be run."""

from pathlib import Path

import pytest

from suite.reproduction import experiments
from suite.reproduction.experiments import parse_paper

SMALL = """
paper: Toy
cites: nobody
settings: {clients: 10, participation: 0.5, batch_size: 10, local_epochs: 1, rounds: 5}
params: {lr: 0.1}
chosen:
  selection: [without_replacement, not stated]
  lr_decay: [1.0, not stated]
  optimizer: [sgd, not stated]
  momentum: [0.0, not stated]
  weight_decay: [0.0, not stated]
  clip_norm: [null, not stated]
  loss: [cross_entropy, not stated]
  init: [common, not stated]
  weights: [default, not stated]
  aggregation: [samples, not stated]
tables:
  one:
    source: Table 1
    about: a toy
    methods:
      fedavg: {}
      fedprox: {params: {mu: 0.1}}
    rows:
      iid:
        dataset: digits
        model: logreg
        heterogeneity: iid
        numbers: {test_accuracy: {fedavg: 90, fedprox: "> 80"}}
    claims:
      - {says: alike, metric: test_accuracy, of: fedprox, is: "~", to: fedavg}
"""


def only(monkeypatch: pytest.MonkeyPatch, root: Path, text: str) -> None:
    """Have this paper in place of those that are shipped; `read_paper` keeps what it has read."""
    (root / "papers").mkdir(parents=True, exist_ok=True)
    (root / "papers" / "toy.yaml").write_text(text)
    monkeypatch.setattr(experiments, "files", lambda package: root)
    experiments.read_paper.cache_clear()


def toy(text: str) -> experiments.Experiment:
    """The only row of a file like `SMALL`."""
    made = experiments.experiment(parse_paper(text, "toy.yaml"), "toy", "one", "iid")
    assert made is not None
    return made
