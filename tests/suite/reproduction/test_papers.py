"""The papers' files: complete, nothing left to a default in silence; faults are named."""

import pytest

from reports.claims.verdicts import metric, printed
from suite.reproduction import experiments
from suite.reproduction.experiments import parse_paper, read_paper, selected
from tests.support.papers import SMALL
from trials import algorithms
from trials.common.errors import UserError
from trials.settings import Settings


@pytest.mark.parametrize("place", selected(None), ids="/".join)
def test_every_row_can_be_planned_or_says_why_not(place):
    """Names, settings and hyperparameters are all there and allowed; numbers and claims are read."""
    name, table, row = place
    paper = read_paper(name)
    content, at = paper.tables[table], paper.tables[table].rows[row]
    made = experiments.experiment(paper, *place)
    assert (made is None) == bool(paper.reason_not_run(table, row))
    for number in (n for column in at.numbers.values() for n in column.values()):
        printed(number)
    if (same := paper.same(at)) is not None:
        for part in ("dataset", "model", "heterogeneity"):
            assert getattr(at, part) == getattr(same[1], part)
    if made is None:
        return
    assert at.numbers or content.claims
    for claim in content.claims:
        sides = {part for side in (claim.of, claim.to) if side for part in side.split(" - ")}
        assert sides <= set(made.methods)
        assert claim.metric is None or metric(claim.metric)
    for configured in made.methods.values():
        stated = {k: d.value for k, d in configured.decisions.items()}
        for variant in configured.variants:
            spec = configured.spec(variant, 3, configured.value("rounds"), 1)
            assert spec.settings.val_fraction == 0
            assert (spec.seed, spec.settings.partition_seed) == (3, 3)
            assert set(spec.params) == set(spec.configured().params())
            for key, value in stated.items():
                got = spec.params.get(key, getattr(spec.settings, key, None))
                value = tuple(value) if isinstance(value, list) else value
                assert got == value or key in variant


def test_nothing_that_decides_a_number_is_left_to_a_default():
    technical = {"val_fraction", "dtype", "execution", "chunk", "eval_every"}
    technical |= {"data_seed", "partition_seed"}
    # Into metrics of their own, which no paper prints; of modules of one's own, which no paper's row has:
    technical |= {"fine_tune", "metric", "buffers", "score_training"}
    # What the usual optimizer has not; a row with another one chooses them:
    technical |= {"betas", "keep_moments"}
    work = {"local_epochs", "local_steps"}
    assert set(experiments.DECIDED) | work | technical >= set(Settings.model_fields)


def test_the_five_papers_are_there_with_their_tables():
    names = experiments.paper_names()
    assert names == ["defed", "fedagg", "fedumf", "folb", "safl"]
    known = {cls.paper for cls in algorithms.known().values()}
    assert {read_paper(name).paper for name in names} <= known
    numbers = dict.fromkeys(names, 0)
    for name, table, row in selected(None):
        columns = read_paper(name).tables[table].rows[row].numbers.values()
        numbers[name] += sum(map(len, columns))
    assert numbers == {"defed": 10, "fedagg": 208, "fedumf": 612, "folb": 21, "safl": 138}


def test_paths(tmp_path):
    """Of what is shipped, and of a file anywhere."""
    assert selected("folb/table1/mnist") == [("folb", "table1", "mnist")]
    assert len(selected("fedagg/table3/mnist-logreg")) == 4, "rows by their beginning"
    assert len(selected("folb/table1")) == 6
    mine = tmp_path / "mine.yaml"
    mine.write_text(SMALL)
    assert selected(f"{mine}") == selected(f"{mine}/one/i") == [(str(mine), "one", "iid")]
    made = experiments.experiment(read_paper(str(mine)), str(mine), "one", "iid")
    assert made is not None
    assert made.path == "mine/one/iid"
    for path, hint in (
        ("fold", "'folb'"),
        ("none.yaml", "none.yaml"),
    ):
        with pytest.raises(UserError, match=hint):
            selected(path)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  momentum: [0.0, not stated]\n", "", "momentum"),
        (", local_epochs: 1", "", "local_epochs or local_steps"),
        ("{params: {mu: 0.1}}", "{params: {muu: 0.1}}", "Did you mean 'mu'"),
        ("momentum: [0.0, not stated]", 'momentum: [0.0, ""]', "momentum"),
        ("fedavg: 90,", "fedavgg: 90,", "Did you mean 'fedavg'"),
        ("tables:", "tabels:", "Did you mean 'tables'"),
    ],
)
def test_faults_are_named(old, new, message):
    assert old in SMALL
    with pytest.raises(UserError, match=message):
        parse_paper(SMALL.replace(old, new), "toy.yaml")
