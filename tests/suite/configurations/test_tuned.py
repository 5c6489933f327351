"""Tuned files and requests of single runs: read, written, refused."""

import resource
import string
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from suite.configurations import configuration as tuned
from suite.configurations.configuration import Tuned
from suite.configurations.library import list_tuned
from suite.runs.request import Request
from suite.yaml_files import assignments
from tests.support.foreign import swept
from trials.common.errors import UserError
from trials.run.scenario import Scenario
from trials.settings import Settings

MINIMAL = "algorithm: fedprox\ndataset: digits\nmodel: logreg\nheterogeneity: labels(2)\n"


def a_tuned(**given) -> Tuned:
    base = {
        "algorithm": "folb",
        "dataset": "digits",
        "model": "mlp(200,100)",
        "heterogeneity": "dirichlet(0.1)+system(steps=1..20)",
        "params": {"lr": 0.1, "mu": 0.01, "variant": "plain"},
        "settings": Settings(rounds=7, batch_size="full", execution="sequential"),
    }
    return Tuned(**{**base, **given})


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
LEAST_0 = st.floats(0, allow_nan=False, allow_infinity=False)
RATES = st.floats(0, exclude_min=True, allow_infinity=False)
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), max_size=20)


@given(RATES, LEAST_0, LEAST_0, NUMBERS)
def test_round_trip_to_the_last_bit(lr, mu, psi, score):
    before = a_tuned(
        params={"lr": lr, "mu": mu, "variant": "heterogeneity", "psi": psi},
        settings=Settings(weight_decay=abs(score), batch_size=3),
        scores={"val_accuracy": score, "test_by_seed": {1: lr, 2: mu}, "test_interval_95": [None]},
        budget={"trials": 16, "sampler": "tpe"},
    )
    after = tuned.parse(before.text(), "file")
    assert after == before
    assert {k: repr(v) for k, v in after.params.items()} == {
        k: repr(v) for k, v in before.params.items()
    }
    assert repr(after.scores) == repr(before.scores)
    assert repr(after.settings.weight_decay) == repr(before.settings.weight_decay)


@given(TEXT, TEXT)
def test_provenance_may_be_any_text(study, run_id):
    before = a_tuned(provenance={"study": study, "runs": [run_id]})
    assert tuned.parse(before.text(), "file") == before


@pytest.mark.parametrize("text", ["1234e567", "1e5", "007", "0x1f", "1_0", "yes", "null", "1:30"])
def test_text_that_looks_like_something_else_stays_text(text):
    """A hexadecimal hash may look like a number."""
    before = a_tuned(provenance={"partition_fingerprint": text})
    assert tuned.parse(before.text(), "file") == before


@given(
    st.builds(
        Settings,
        rounds=st.integers(20, 500),
        clients=st.none() | st.integers(1, 99),
        batch_size=st.integers(1, 99) | st.just("full"),
        local_steps=st.none() | st.integers(1, 9),
        init=st.sampled_from(["common", "zeros"]),
        dtype=st.sampled_from(["float32", "float64"]),
        eval_every=st.none() | st.integers(1, 20),
        val_fraction=st.floats(0, 0.5),
    )
)
def test_settings_survive(settings):
    assert tuned.parse(a_tuned(settings=settings).text(), "file").settings == settings


def test_the_file_says_how_to_run_it():
    assert a_tuned().text().startswith("# suite run THIS_FILE")


def test_a_hand_written_file_needs_four_keys():
    found = tuned.parse(MINIMAL, "mine.yaml")
    assert (found.params, found.settings) == ({}, Settings())
    spec = found.spec(3)
    assert spec.params == {"lr": 0.1, "mu": 0.01}, "defaults for the rest"
    assert (spec.dataset, spec.heterogeneity, spec.seed) == ("digits", "labels(2)", 3)


def test_a_hand_written_file_with_params_and_settings():
    text = MINIMAL + "params: {mu: 1}\nsettings: {rounds: 5, batch_size: full}\n"
    spec = tuned.parse(text, "mine.yaml").spec(0)
    assert spec.params == {"lr": 0.1, "mu": 1.0}
    assert (spec.settings.rounds, spec.settings.batch_size) == (5, "full")


@pytest.mark.parametrize("number", ["1e-4", "1.0e-4", "0.0001", "1E-4"])
def test_a_hand_written_number_may_be_scientific(number):
    """YAML 1.1 reads 1e-4, without a dot, as text; a person means the number."""
    spec = tuned.parse(MINIMAL + f"params: {{mu: {number}}}\n", "mine.yaml").spec(0)
    assert spec.params["mu"] == 1e-4


def refused(text: str) -> str:
    with pytest.raises(UserError) as caught:
        tuned.parse(text, "mine.yaml")
    assert "mine.yaml" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("text", ["a: [", "- 1", "", "words", "{}", "1: 2", "algorithm: [1]"])
def test_what_is_no_configuration(text):
    refused(text)


def test_a_missing_or_binary_file(tmp_path):
    with pytest.raises(UserError, match=r"none\.yaml"):
        tuned.read(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match=r"cannot read.*binary\.yaml"):
        tuned.read(tmp_path / "binary.yaml")


def test_path_reads_like_the_cell():
    assert a_tuned().path == Path(
        "digits/dirichlet(0.1)+system(steps=1..20)/mlp(200,100)/folb.yaml"
    )


ODD = ["npz:/a/b", "npz:/../b", "../x", "../../etc/passwd", "/abs", "a/../../b", "./x.py:C", "x/"]


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("field", ["dataset", "algorithm", "model", "heterogeneity"])
def test_path_stays_inside_the_folder(tmp_path, field, name):
    path = a_tuned(**{field: name}).path
    assert not path.is_absolute()
    assert not [part for part in path.parts if part.startswith(".")], "nor is anything hidden"
    assert (tmp_path / path).resolve().is_relative_to(tmp_path)
    assert len(path.parts) == 4
    assert path.suffix == ".yaml"


@given(st.text(string.printable, min_size=1, max_size=30))
def test_path_stays_inside_the_folder_for_any_name(name):
    path = a_tuned(dataset=name, algorithm=name).path
    assert not path.is_absolute()
    assert not {"..", "/"} & set(path.parts)


def test_different_cells_have_different_paths():
    """Else one tuned file overwrites another."""
    names = ["npz:/data/a/b.npz", "npz:/data/a_b.npz", "npz:/data_a/b.npz"]
    assert len({a_tuned(dataset=name).path for name in names}) == 3
    files = ["/old/mine.py:Mine", "/new/mine.py:Mine"]
    assert len({a_tuned(algorithm=name).path for name in files}) == 2


def request(*texts: str, **given) -> Request:
    base = {
        "algorithm": "fedprox",
        "scenario": Scenario("digits", "logreg", "iid"),
        "params": {},
        "settings": {},
        "seed": 1,
    }
    return Request(**{**base, **given}, values=assignments(texts))


def test_a_request_without_assignments_has_the_defaults():
    spec = request().spec()
    assert spec.params == {"lr": 0.1, "mu": 0.01}
    assert spec.settings == Settings()
    assert spec.seed == 1


@pytest.mark.parametrize(
    ("assignment", "value"), [("mu=1e-4", 1e-4), ("mu=0.5", 0.5), ("mu=1", 1.0), ("lr=.5", 0.5)]
)
def test_set_a_hyperparameter(assignment, value):
    spec = request(assignment).spec()
    assert spec.params[assignment[:2]] == value
    assert isinstance(spec.params[assignment[:2]], float)


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("local_epochs=3", 3),
        ("local_steps=5", 5),
        ("batch_size=full", "full"),
        ("batch_size=16", 16),
        ("participation=1.0", 1.0),
        ("momentum=0.5", 0.5),
        ("weight_decay=1e-4", 1e-4),
        ("init=zeros", "zeros"),
        ("init=own", "own"),
        ("aggregation=plain", "plain"),
        ("val_fraction=0", 0.0),
        ("dtype=float64", "float64"),
    ],
)
def test_set_a_setting(assignment, value):
    """What docs/reference.md says of `--set`."""
    found = getattr(request(assignment).spec().settings, assignment.partition("=")[0])
    assert found == value
    assert type(found) is type(value)


def test_assignments_win_over_a_configuration_and_the_last_one_wins():
    spec = request(
        "mu=0.3", "rounds=9", "mu=0.4", params={"mu": 0.1, "lr": 0.2}, settings={"rounds": 5}
    ).spec()
    assert spec.params == {"lr": 0.2, "mu": 0.4}
    assert spec.settings.rounds == 9


def test_a_request_from_a_tuned_file_is_its_spec():
    found = a_tuned()
    asked = request(
        algorithm=found.algorithm,
        scenario=found.scenario,
        params=found.params,
        settings=found.settings.model_dump(),
        seed=4,
    )
    assert asked.spec() == found.spec(4)


def test_text_is_plain_yaml():
    """Other programs read it too: no tags of Python objects."""
    content = yaml.safe_load(a_tuned(params={"lr": 0.1}).text())
    assert content["params"] == {"lr": 0.1}
    assert content["settings"]["batch_size"] == "full"
    assert "!!" not in a_tuned().text()


def test_a_tuned_file_tells_the_confirming_runs_of_one_search(tmp_path: Path):
    """Of two splits each has its own: two search trials, of which both are confirmed once."""
    place = swept(tmp_path, splits=2, confirm={"best": 2, "seeds": 1})
    (found,) = list_tuned(place.storage)
    assert (found.budget["trials"], found.budget["confirming"]) == (4, 2)


def test_a_disk_that_is_full_leaves_what_was_imported_before(tmp_path: Path):
    before, better = (a_tuned(scores={"val_accuracy": score}) for score in (0.8, 0.9))
    (path,), _ = tuned.keep([before], tmp_path / "imported")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(UserError) as refused:
            tuned.keep([better], tmp_path / "imported")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(refused.value) == f"cannot write {path}: File too large"
    assert tuned.read(path) == before
    assert list(path.parent.iterdir()) == [path]
