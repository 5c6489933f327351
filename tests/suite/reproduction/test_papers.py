"""The papers' files: complete, nothing left to a default in silence; faults are named."""

import pytest

from reports.claims.metrics import metric
from reports.claims.verdicts import printed
from suite.reproduction import experiments, summary
from suite.reproduction.choices import otherwise
from suite.reproduction.experiments import Decision, parse_paper, read_paper, selected
from tests.support.papers import SMALL, toy
from trials import algorithms
from trials.common.errors import UserError
from trials.settings import Settings

EXPERIMENTS = [
    (name, table, row) for name, table, row in selected(None) if read_paper(name).tables[table]
]


@pytest.mark.parametrize("place", EXPERIMENTS, ids="/".join)
def test_every_row_can_be_planned_or_says_why_not(place):
    """Names, settings and hyperparameters are all there and allowed; numbers and claims are read."""
    name, table, row = place
    paper = read_paper(name)
    content, at = paper.tables[table], paper.tables[table].rows[row]
    made = experiments.experiment(paper, *place)
    assert (made is None) == (experiments.reason_not_run(paper, table, row) is not None)
    for number in (n for column in at.numbers.values() for n in column.values()):
        printed(number)
    if made is None:
        return
    assert at.numbers or content.claims
    for claim in content.claims:
        assert {claim.of, claim.to} <= {*made.methods, None}
        if claim.metric:
            metric(claim.metric)
    for configured in made.methods.values():
        stated = {k: d.value for k, d in configured.decisions.items()}
        for variant in configured.variants:
            spec = configured.spec(variant, 3, configured.rounds, 1)
            assert spec.settings.val_fraction == 0
            assert (spec.seed, spec.settings.partition_seed) == (3, 3)
            assert set(spec.params) == set(spec.configured().params())
            for key, value in stated.items():
                got = spec.params.get(key, getattr(spec.settings, key, None))
                assert got == value or key in variant


def test_nothing_that_decides_a_number_is_left_to_a_default():
    technical = {"val_fraction", "dtype", "execution", "chunk", "eval_every"}
    technical |= {"data_seed", "partition_seed"}
    # Into metrics of their own, which no paper prints:
    technical |= {"fine_tune", "metric"}
    # Of modules of one's own with BatchNorm, which no paper's row names:
    technical |= {"buffers"}
    # Of modules of one's own, which no paper's row has:
    technical |= {"buffers"}
    work = {"local_epochs", "local_steps"}
    assert set(experiments.DECIDED) | work | technical >= set(Settings.model_fields)


def test_the_five_papers_are_there_with_their_tables():
    assert experiments.paper_names() == ["defed", "fedagg", "fedumf", "folb", "safl"]
    known = {cls.paper for cls in algorithms.known().values()}
    assert {read_paper(name).paper for name in experiments.paper_names()} <= known
    numbers = {
        name: sum(
            len(c)
            for t in read_paper(name).tables.values()
            for r in t.rows.values()
            for c in r.numbers.values()
        )
        for name in experiments.paper_names()
    }
    assert numbers == {"defed": 10, "fedagg": 208, "fedumf": 612, "folb": 21, "safl": 105}


def test_paths():
    assert selected("folb/table1/mnist") == [("folb", "table1", "mnist")]
    assert len(selected("fedagg/table3/mnist-logreg")) == 4, "rows by their beginning"
    assert len(selected("folb/table1")) == 6
    for path, hint in (
        ("fold", "'folb'"),
        ("folb/tabel1", "'table1'"),
        ("folb/table1/mnst", "'mnist'"),
    ):
        with pytest.raises(UserError, match=hint):
            selected(path)


def test_a_file_by_hand():
    made = toy(SMALL)
    prox = made.methods["fedprox"]
    assert prox.decisions["mu"].why is None
    assert prox.decisions["momentum"].why == "not stated"
    spec = prox.spec({}, 2, 5, 5)
    assert (spec.params, spec.settings.data_seed) == ({"lr": 0.1, "mu": 0.1}, 0)
    drawn = SMALL.replace("classes: 10}", "classes: 10, drawn: true}")
    again = toy(drawn)
    assert again.methods["fedprox"].spec({}, 2, 5, 5).settings.data_seed == 2


def test_the_innermost_word_counts():
    text = SMALL.replace(
        "        numbers:",
        "        params: {lr: 0.5}\n        methods: {fedprox: {chosen: {mu: [0.7, why]}}}\n        numbers:",
    )
    made = toy(text)
    decided = made.methods["fedprox"].decisions
    assert (decided["lr"].value, decided["mu"].value, decided["mu"].why) == (0.5, 0.7, "why")
    assert made.methods["fedavg"].decisions["lr"].value == 0.5


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  momentum: [0.0, not stated]\n", "", "momentum: must be stated or chosen"),
        (", local_epochs: 1", "", "local_epochs or local_steps: must be stated or chosen"),
        ("params: {lr: 0.1}\n", "", "lr: must be stated or chosen"),
        ("{params: {mu: 0.1}}", "{}", "mu: must be stated or chosen"),
        ("{params: {mu: 0.1}}", "{params: {muu: 0.1}}", "Did you mean 'mu'"),
        ("model: logreg", "model: logrg", "Did you mean 'logreg'"),
        ("dataset: digits", "dataset: digit", "Did you mean 'digits'"),
        ("momentum: [0.0, not stated]", "momentum: [0.0]", "momentum"),
        ("momentum: [0.0, not stated]", 'momentum: [0.0, ""]', "momentum"),
        ("fedavg: 90,", "fedavgg: 90,", "Did you mean 'fedavg'"),
        ("batch_size: 10", "batch_size: 0", "greater than"),
        ("tables:", "tabels:", "Did you mean 'tables'"),
        ("data: {digits", "data: {mnist", "data.digits: is required"),
    ],
)
def test_faults_are_named(old, new, message):
    assert old in SMALL
    with pytest.raises(UserError, match=message.replace(".", r"\.")):
        parse_paper(SMALL.replace(old, new), "toy.yaml")


def test_what_is_ours_can_be_chosen_otherwise():
    text = SMALL.replace("fedprox: {params: {mu: 0.1}}", "fedprox: {chosen: {mu: [0.1, a guess]}}")
    made = toy(text)
    (other,) = otherwise([made], {"momentum": 0.5, "mu": 0.7})
    fedavg, prox = other.methods["fedavg"], other.methods["fedprox"]
    assert fedavg.decisions["momentum"].value == prox.decisions["momentum"].value == 0.5
    assert fedavg.decisions["momentum"].why == "--set; the suite's own choice: 0.0"
    assert prox.decisions["mu"].value == 0.7
    assert "mu" not in fedavg.decisions
    assert other.methods["fedavg"].decisions["lr"] == made.methods["fedavg"].decisions["lr"]
    assert otherwise([made], {}) == [made]
    for key, value, said in (
        ("lr", 0.5, "--set lr: the paper states it; --set takes aggregation, clip_norm"),
        ("momentun", 0.5, "Did you mean 'momentum'"),
        ("momentum", 2.0, "toy/one/iid, fedavg.*momentum"),
    ):
        with pytest.raises(UserError, match=said):
            otherwise([made], {key: value})


@pytest.mark.parametrize("rounds", ["abc", None, 12.7, float("inf"), 0])
def test_rounds_that_cannot_be_are_refused(rounds):
    text = SMALL.replace(", rounds: 5}", "}").replace(
        "  init: [", "  rounds: [5, a guess]\n  init: ["
    )
    made = toy(text)
    assert otherwise([made], {"rounds": 7})[0].methods["fedavg"].rounds == 7
    with pytest.raises(UserError, match="rounds"):
        otherwise([made], {"rounds": rounds})


def test_what_comes_with_another_choice_has_to_be_chosen_too():
    """FOLB's psi is there in its second variant only."""
    text = SMALL.replace(
        "fedprox: {params: {mu: 0.1}}",
        "fedprox: {algorithm: folb, params: {mu: 0.1}, chosen: {variant: [plain, a guess]}}",
    )
    made = toy(text)
    with pytest.raises(UserError, match="toy/one/iid, fedprox: psi: has to be set too"):
        otherwise([made], {"variant": "heterogeneity"})
    (both,) = otherwise([made], {"variant": "heterogeneity", "psi": 0.5})
    assert both.methods["fedprox"].decisions["psi"] == Decision(0.5, "--set")
    assert both.methods["fedprox"].spec({}, 0, 5, 5).params["psi"] == 0.5


def test_a_row_that_is_the_same_as_another_has_its_data_and_model():
    found = 0
    for name in experiments.paper_names():
        paper = read_paper(name)
        for at in (row for table in paper.tables.values() for row in table.rows.values()):
            if (same := paper.same(at)) is None:
                continue
            found += 1
            other = same[1]
            assert (at.dataset, at.model) == (other.dataset, other.model)
            assert at.heterogeneity == other.heterogeneity
    assert found == 16


def test_what_is_printed_twice_counts_once():
    """FedAgg's Table V prints three numbers of Table III's 20 clients again, and two that are new."""
    counted = list(summary._numbers(read_paper("fedagg")))
    at = "mnist-logreg-iid"
    assert [m for t, row, _, m in counted if (t, row) == ("table3", f"{at}-c20")] == [
        *("fedavg", "fedadam", "fedprox", "feddyn", "fedagg")
    ]
    again = {m for t, row, _, m in counted if (t, row) == ("table5", at)}
    assert again == {"fedadagrad", "fedyogi"}
    said = list(summary._statements(read_paper("defed")))
    assert {row for (table, row, _), _ in said if table == "regression"} == {"half"}
