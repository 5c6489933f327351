"""Data sets, how they are split and dealt, and the names of all of it."""

import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import fresh_process
from hypothesis import assume, given
from hypothesis import settings as profile
from hypothesis import strategies as st

from trials import algorithms, datasets, heterogeneity, models
from trials.datasets import MNIST, Dataset, Synthetic, SyntheticIID
from trials.errors import UserError
from trials.federated_data import FederatedData, deal
from trials.heterogeneity import PARTITIONS
from trials.models import Model
from trials.randomness import generator
from trials.settings import Settings
from trials.trial import TrialSpec, deal_data, load_dataset, run

REAL = Path(os.environ.get("SUITE_DATA", "/nowhere"))


@pytest.fixture(scope="module")
def digits() -> Dataset:
    return datasets.parse("digits").load(0, None, None)


def labelled(y: np.ndarray, tests: int, owner: np.ndarray | None = None) -> Dataset:
    """Samples with these labels, of which every so-many-th is test."""
    test = np.zeros(len(y), bool)
    test[np.linspace(0, len(y) - 1, tests).astype(int)] = True
    x = np.arange(len(y), dtype=np.float32)[:, None]
    return Dataset(x, y, test, int(y.max()) + 1, owner)


def holdings(data: FederatedData) -> list[np.ndarray]:
    return np.split(data.train, data.offsets[1:-1])


def well_split(data: FederatedData) -> None:
    """Assert that no id is in two places and that test is the data set's."""
    ids = np.concatenate([data.train, data.val, data.test])
    assert len(np.unique(ids)) == len(ids)
    assert data.dataset.test[data.test].all()
    assert len(data.test) == data.dataset.test.sum()
    assert data.offsets[0] == 0
    assert data.offsets[-1] == len(data.train)
    assert (data.sizes >= 1).all()


# Partitions


@st.composite
def problems(draw):
    """A data set with every label at least once per client, a number of clients, and settings."""
    clients, classes = draw(st.integers(1, 8)), draw(st.integers(1, 6))
    seed = draw(st.integers(0, 99))
    rng = np.random.default_rng(seed)
    extra = rng.integers(0, classes, draw(st.integers(0, 60)))
    y = rng.permutation(np.concatenate([np.tile(np.arange(classes), 3 * clients + 5), extra]))
    common = Settings(
        clients=clients,
        val_fraction=draw(st.sampled_from([0, 0.1, 0.25])),
        partition_seed=seed,
        data_seed=draw(st.integers(0, 9)),
    )
    return labelled(y, draw(st.integers(1, 5))), common


@given(problems(), st.sampled_from(["iid", "dirichlet(0.1)", "dirichlet(0.5)", "dirichlet(100)"]))
def test_equal_shares(problem, level):
    dataset, common = problem
    data = deal(dataset, heterogeneity.parse(level), common)
    well_split(data)
    free = int((~dataset.test).sum())
    assert len(data.val) == int(free * common.val_fraction)
    free -= len(data.val)
    if level == "iid":
        assert len(data.train) == free
        assert data.sizes.max() - data.sizes.min() <= 1
    else:
        assert (data.sizes == free // common.clients).all()


@given(problems(), st.integers(1, 6))
def test_labels_limit(problem, c):
    dataset, common = problem
    assume(c <= dataset.classes)
    level = heterogeneity.parse(f"labels({c})")
    try:
        data = deal(dataset, level, common)
    except UserError:
        train = deal(dataset, heterogeneity.parse("iid"), common).train
        assert np.bincount(dataset.y[train], minlength=dataset.classes).min() < common.clients
        return
    well_split(data)
    for k, ids in enumerate(holdings(data)):
        allowed = {(k + j) % dataset.classes for j in range(c)}
        assert set(dataset.y[ids].tolist()) == allowed


@given(st.lists(st.integers(1, 12), min_size=1, max_size=6), st.sampled_from([0, 0.1, 0.5]))
def test_natural_keeps_owners(sizes, val_fraction):
    rng = np.random.default_rng(len(sizes))
    owner = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    y = rng.integers(0, 3, len(owner) + 4)
    test = np.arange(len(y)) >= len(owner)
    x = np.zeros((len(y), 1), np.float32)
    dataset = Dataset(x, y, test, 3, np.concatenate([owner, np.full(4, -1)]))
    data = deal(dataset, heterogeneity.parse("natural"), Settings(val_fraction=val_fraction))
    well_split(data)
    assert len(data.train) + len(data.val) == len(owner)
    for k, ids in enumerate(holdings(data)):
        assert (dataset.client[ids] == k).all()
        assert len(ids) == sizes[k] - int(sizes[k] * val_fraction)


@given(problems(), st.sampled_from(["iid", "dirichlet(0.5)", "labels(1)"]))
@profile(max_examples=20)
def test_the_same_seed_deals_the_same(problem, level):
    dataset, common = problem
    try:
        a, b = (deal(dataset, heterogeneity.parse(level), common) for _ in range(2))
    except UserError:
        assume(False)
    for name in ("train", "offsets", "val", "test"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert a.fingerprint == b.fingerprint


def test_what_seeds_and_the_fingerprint_tell_apart(digits):
    def dealt(level="iid", **given):
        return deal(digits, heterogeneity.parse(level), Settings(**given))

    base = dealt()
    assert dealt().fingerprint == base.fingerprint
    others = [
        dealt(partition_seed=1),
        dealt(data_seed=1),
        dealt(clients=19),
        dealt("dirichlet(1)"),
        dealt("labels(2)"),
        dealt(val_fraction=0),
    ]
    assert len({data.fingerprint for data in [base, *others]}) == len(others) + 1
    np.testing.assert_array_equal(dealt(partition_seed=1).val, base.val)
    np.testing.assert_array_equal(np.sort(dealt(partition_seed=1).train), np.sort(base.train))
    assert dealt("iid+system(steps=1..3)").fingerprint == base.fingerprint


@pytest.mark.parametrize("name", ["x", "y", "train", "offsets", "val", "test"])
def test_the_fingerprint_sees_every_array(digits, name):
    data = deal(digits, heterogeneity.parse("iid"), Settings())
    owner = data.dataset if name in ("x", "y") else data
    changed = getattr(owner, name).copy()
    changed[len(changed) // 2] += 1
    owner = replace(owner, **{name: changed})
    other = replace(data, dataset=owner) if name in ("x", "y") else owner
    assert other.fingerprint != data.fingerprint


SCRIPT = """
from trials import datasets, heterogeneity
from trials.federated_data import deal
from trials.settings import Settings
for name, level in {pairs}:
    dataset = datasets.parse(name).load(3, 6, None)
    print(deal(dataset, heterogeneity.parse(level), Settings(clients=6)).fingerprint)
"""


def test_fingerprints_are_the_same_in_a_fresh_process():
    pairs = [("digits", "dirichlet(0.3)"), ("digits", "labels(3)"), ("synthetic(1,1)", "natural")]
    here = [
        deal(
            datasets.parse(name).load(3, 6, None), heterogeneity.parse(level), Settings(clients=6)
        ).fingerprint
        for name, level in pairs
    ]
    assert fresh_process(SCRIPT.format(pairs=pairs)).split() == here


def test_small_a_is_more_skewed(digits):
    def skew(a):
        data = deal(digits, heterogeneity.parse(f"dirichlet({a})"), Settings(clients=10))
        counts = np.array([np.bincount(digits.y[ids], minlength=10) for ids in holdings(data)])
        return (counts.max(1) / counts.sum(1)).mean()

    assert skew(100) < 0.2 < skew(1) < skew(0.5) < 0.5 < skew(0.1)


@pytest.mark.parametrize("a", [1e-1, 1e-2, 1e-3, 1e-4])
def test_a_very_skewed_dirichlet_deals_all_sizes(a):
    """Priors underflow here: what is left of a client's prior can be a subnormal number."""
    y = np.repeat(np.arange(10), 30)
    for seed in range(200):
        parts = PARTITIONS["dirichlet"](a).deal(y, 10, None, np.random.default_rng(seed))
        assert [len(part) for part in parts] == [30] * 10
        assert len(np.unique(np.concatenate(parts))) == 300


@pytest.mark.parametrize(
    ("level", "given", "says"),
    [
        ("iid", {"clients": 5000}, "cannot be dealt to 5000 clients"),
        ("dirichlet(0.3)", {"clients": 5000}, "cannot be dealt to 5000 clients"),
        ("labels(2)", {"clients": 5000}, "use fewer clients"),
        ("labels(11)", {}, "only 10 labels"),
        ("labels(0)", {}, "c >= 1 must hold"),
        ("labels(1.5)", {}, "must be a whole number"),
        ("natural", {}, "does not say which client"),
        ("dirichlet(0)", {}, "a < inf must hold"),
        ("dirichlet(nan)", {}, "a < inf must hold"),
        ("dirichlet(x)", {}, "must be a number"),
        ("dirichlet", {}, r"the form is dirichlet\(a\)"),
        ("iid(3)", {}, "the form is iid"),
        ("iid+system(steps=0..3)", {}, "1 <= LOW <= HIGH must hold"),
        ("iid+system(steps=5..2)", {}, "1 <= LOW <= HIGH must hold"),
        ("iid+system(steps=5)", {}, "must be LOW..HIGH"),
        ("iid+system(steps=1..2)+system(steps=1..2)", {}, "given twice"),
        ("dirichlet(0.3,a=0.5)", {}, "dirichlet"),
        ("iid+system(steps=1..2,steps=3..4)", {}, "system"),
    ],
)
def test_what_cannot_be_had_is_said_within_a_second(digits, level, given, says):
    started = time.perf_counter()
    with pytest.raises(UserError, match=says):
        deal(digits, heterogeneity.parse(level), Settings(**given))
    assert time.perf_counter() - started < 1


def test_natural_with_another_number_of_clients():
    dataset = SyntheticIID().load(0, 3, None)
    with pytest.raises(UserError, match="has 3 clients, not 4"):
        deal(dataset, heterogeneity.parse("natural"), Settings(clients=4))
    assert deal(dataset, heterogeneity.parse("natural"), Settings()).clients == 3


# Names


levels = st.one_of(
    st.just("iid"),
    st.just("natural"),
    st.floats(min_value=0, exclude_min=True, allow_infinity=False).map(lambda a: f"dirichlet({a})"),
    st.integers(1, 99).map(lambda c: f"labels( {c} )"),
)
systems = st.one_of(
    st.just(""),
    st.tuples(st.integers(1, 50), st.integers(0, 50)).map(
        lambda r: f" + system(steps={r[0]}..{r[0] + r[1]})"
    ),
)


@given(levels, systems)
def test_levels_are_spelled_one_way(level, system):
    parsed = heterogeneity.parse(level + system)
    again = heterogeneity.parse(parsed.name)
    assert again == parsed
    assert " " not in parsed.name
    assert len(parsed.modifiers) == bool(system)
    named = level.replace("dirichlet(", "dirichlet(a=").replace("labels(", "labels(c=")
    assert heterogeneity.parse(named + system) == parsed


@pytest.mark.parametrize(
    ("parse", "written", "canonical"),
    [
        (lambda t: heterogeneity.parse(t).name, "dirichlet(0.30)", "dirichlet(0.3)"),
        (lambda t: heterogeneity.parse(t).name, "dirichlet(a=1.0)", "dirichlet(1)"),
        (lambda t: heterogeneity.parse(t).name, "labels( 2 )", "labels(2)"),
        (
            lambda t: heterogeneity.parse(t).name,
            "dirichlet(3e-1) + system( steps = 1..20 )",
            "dirichlet(0.3)+system(steps=1..20)",
        ),
        (models.canonical, "mlp", "mlp"),
        (models.canonical, "mlp(200, 200)", "mlp"),
        (models.canonical, "mlp(64)", "mlp(64,200)"),
        (models.canonical, "mlp(width2=8)", "mlp(200,8)"),
        (models.canonical, "logreg()", "logreg"),
        (datasets.canonical, "synthetic(1.0, 0.50)", "synthetic(1,0.5)"),
        (datasets.canonical, "digits", "digits"),
        (datasets.canonical, "npz:/tmp/../tmp/a.npz", f"npz:{Path('/tmp/a.npz').resolve()}"),
    ],
)
def test_canonical_names(parse, written, canonical):
    assert parse(written) == canonical
    assert parse(canonical) == canonical


@pytest.mark.parametrize(
    ("parse", "wrong", "near"),
    [
        (datasets.parse, "fashion_minst", "fashion_mnist"),
        (datasets.parse, "sinthetic(1,1)", "synthetic"),
        (datasets.parse, "digit", "digits"),
        (models.parse, "logregg", "logreg"),
        (models.parse, "lenet", "lenet5"),
        (heterogeneity.parse, "dirichle(0.3)", "dirichlet"),
        (heterogeneity.parse, "iid+sistem(steps=1..2)", "system"),
        (algorithms.resolve, "fedprx", "fedprox"),
        (algorithms.resolve, "saflx", "safl"),
    ],
)
def test_unknown_names_suggest_the_nearest(parse, wrong, near):
    with pytest.raises(UserError, match=f"unknown .* Did you mean '{near}'"):
        parse(wrong)


@pytest.mark.parametrize(
    ("parse", "known"),
    [
        (datasets.parse, "digits, emnist_byclass"),
        (models.parse, "lenet5, .*logreg, .*mlp"),
        (algorithms.resolve, "fedavg, fedavgm, .*safl"),
    ],
)
def test_a_name_that_is_near_to_none_gets_the_list(parse, known):
    with pytest.raises(UserError, match=f"Known: .*{known}"):
        parse("qqqqqqqqqqqq")


def key(level: str) -> str:
    return TrialSpec(
        algorithm="fedavg",
        params={},
        dataset="digits",
        model="logreg",
        heterogeneity=heterogeneity.parse(level).name,
        settings=Settings(),
        seed=0,
    ).data_key


def test_data_keys_tell_levels_apart_but_not_their_systems():
    assert key("dirichlet(0.3)+system(steps=1..2)") == key("dirichlet(0.3)")
    found = [key(f"dirichlet({a})") for a in ("0.3", "0.4", "1e16", "1e18", "1e-7", "1e-9")]
    assert len(set(found)) == len(found)


# Data sets


def test_digits_are_split_by_seed_and_label(digits):
    assert digits.x.shape == (1797, 1, 8, 8)
    assert digits.x.dtype == np.float32
    assert (digits.x.min(), digits.x.max()) == (0, 1)
    assert digits.test.sum() == 360
    whole, held_out = np.bincount(digits.y), np.bincount(digits.y[digits.test])
    assert np.abs(held_out - 0.2 * whole).max() <= 1
    again, other = (datasets.parse("digits").load(seed, None, None) for seed in (0, 1))
    np.testing.assert_array_equal(again.test, digits.test)
    assert (other.test != digits.test).any()


def test_synthetic_by_hand():
    """Device 3 from its own numbers; alpha and beta are standard deviations."""
    alpha, beta, seed, k = 0.5, 2.0, 7, 3
    dataset = Synthetic(alpha, beta).load(seed, 5, None)
    size = int(np.exp(4 + 2 * generator("synthetic_sizes", seed).standard_normal(5))[k]) + 50
    mine = dataset.client == k
    assert mine.sum() == size
    rng = generator("synthetic", seed, k)
    u, b_k = alpha * rng.standard_normal(), beta * rng.standard_normal()
    v = b_k + rng.standard_normal(60)
    w, b = u + rng.standard_normal((60, 10)), u + rng.standard_normal(10)
    sigma = np.array([j**-1.2 for j in range(1, 61)])
    x = v + rng.standard_normal((size, 60)) * np.sqrt(sigma)
    np.testing.assert_allclose(dataset.x[mine], x, rtol=1e-6, atol=1e-6)
    scores = np.array([[row @ w[:, c] + b[c] for c in range(10)] for row in x])
    np.testing.assert_array_equal(dataset.y[mine], scores.argmax(1))
    assert dataset.test[mine].sum() == size // 10
    assert dataset.classes == 10


def test_synthetic_is_fixed_by_its_seed():
    a, b, other = (Synthetic(1, 1).load(seed, 4, None) for seed in (0, 0, 1))
    for name in ("x", "y", "test", "client"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert len(a.y) != len(other.y) or (a.x != other.x).any()


def test_synthetic_has_30_devices_of_at_least_50():
    dataset = Synthetic(0, 0).load(0, None, None)
    sizes = np.bincount(dataset.client)
    assert len(sizes) == 30
    assert sizes.min() >= 50
    assert np.median(sizes) == pytest.approx(50 + np.exp(4), abs=60)


def test_synthetic_keeps_its_devices_under_natural():
    common = Settings(clients=4, data_seed=2)
    spec = TrialSpec(
        algorithm="fedavg",
        params={},
        dataset="synthetic(1,1)",
        model="logreg",
        heterogeneity="natural",
        settings=common,
        seed=0,
    )
    dataset = load_dataset(spec, None)
    data = deal_data(spec, dataset)
    well_split(data)
    np.testing.assert_array_equal(dataset.x, Synthetic(1, 1).load(2, 4, None).x)
    for k, ids in enumerate(holdings(data)):
        assert (dataset.client[ids] == k).all()
        free = (dataset.client == k) & ~dataset.test
        assert len(ids) == free.sum() - int(free.sum() * 0.1)


def test_synthetic_iid_has_one_model_and_one_input_law():
    seed = 4
    dataset = SyntheticIID().load(seed, 6, None)
    rng = generator("synthetic_iid", seed)
    w, b = rng.standard_normal((60, 10)), rng.standard_normal(10)
    agree = (dataset.x.astype(float) @ w + b).argmax(1) == dataset.y
    assert agree.mean() > 0.999
    assert set(dataset.client.tolist()) == set(range(6))
    deviation = dataset.x.std(0)
    np.testing.assert_allclose(deviation**2, np.arange(1, 61) ** -1.2, rtol=0.3)
    assert np.abs(dataset.x.mean(0)).max() < 6 * len(dataset.y) ** -0.5
    own = Synthetic(0, 0).load(seed, 6, None)
    assert ((own.x.astype(float) @ w + b).argmax(1) == own.y).mean() < 0.5


@pytest.mark.parametrize("name", ["synthetic(-1,1)", "synthetic(1,-1)", "synthetic(nan,1)"])
def test_synthetic_refuses_bad_deviations(name):
    with pytest.raises(UserError, match="alpha >= 0 and beta >= 0 must hold"):
        datasets.parse(name)


# Files


def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "x_train": rng.normal(size=(30, 2, 3)),
        "y_train": np.arange(30) % 3,
        "x_test": rng.normal(size=(6, 2, 3)),
        "y_test": np.arange(6) % 3,
        "client_train": np.repeat([40, 10, 20], 10),
    }


def load(folder: Path, **given: np.ndarray | None) -> Dataset:
    """The data set of a file with these arrays instead of the usual ones."""
    kept = {name: value for name, value in {**arrays(), **given}.items() if value is not None}
    np.savez(folder / "mine.npz", **kept)
    return datasets.parse(f"npz:{folder}/mine.npz").load(0, None, None)


def test_npz(tmp_path):
    dataset = load(tmp_path)
    assert (dataset.shape, dataset.classes) == ((2, 3), 3)
    assert dataset.x.dtype == np.float32
    given = arrays()
    np.testing.assert_allclose(dataset.x[~dataset.test], given["x_train"], rtol=1e-6)
    np.testing.assert_array_equal(dataset.y[dataset.test], given["y_test"])
    data = deal(dataset, heterogeneity.parse("natural"), Settings(val_fraction=0))
    well_split(data)
    assert [sorted(ids) for ids in holdings(data)] == [
        list(range(10, 20)),
        list(range(20, 30)),
        list(range(10)),
    ]
    columns = load(tmp_path, y_train=given["y_train"][:, None], y_test=given["y_test"][:, None])
    np.testing.assert_array_equal(columns.y, dataset.y)


def test_npz_without_owners(tmp_path):
    dataset = load(tmp_path, client_train=None)
    assert deal(dataset, heterogeneity.parse("iid"), Settings(clients=4)).clients == 4
    with pytest.raises(UserError, match="does not say which client"):
        deal(dataset, heterogeneity.parse("natural"), Settings())


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"y_test": None}, "lacks y_test; it has .*x_train"),
        ({"x_train": None, "x_test": None}, "lacks x_test, x_train"),
        ({"x_train": np.zeros((29, 2, 3))}, "x_train has 29 rows, but y_train has 30"),
        ({"y_test": np.zeros(5, int)}, "x_test has 6 rows, but y_test has 5"),
        ({"client_train": np.zeros(3, int)}, "x_train has 30 rows, but client_train has 3"),
        ({"x_test": np.zeros((6, 3, 2))}, r"x_train has shape \(2, 3\), one of x_test \(3, 2\)"),
        ({"y_train": np.arange(30) % 3 - 1}, "whole numbers; labels count 0, 1"),
        ({"x_train": np.full((30, 2, 3), np.nan)}, "x_train must be finite"),
        (
            {"x_test": np.zeros((0, 2, 3)), "y_test": np.zeros(0, int)},
            "x_test must be finite numbers of shape .samples",
        ),
        ({"y_train": np.eye(3)[np.arange(30) % 3], "y_test": np.eye(3)[[0] * 6]}, "y_train|label"),
        ({"y_train": np.arange(30) % 3 + 0.5}, "y_train|label"),
        ({"y_train": np.array(["cat"] * 30)}, "y_train|label"),
        ({"y_train": np.array(1)}, "y_train|label"),
        ({"y_train": np.array([{}] * 30)}, "cannot read"),
    ],
    ids=[
        "no y_test",
        "no x",
        "rows of x_train",
        "rows of y_test",
        "rows of client_train",
        "sample shapes",
        "negative labels",
        "nan",
        "empty test",
        "one-hot labels",
        "fractional labels",
        "text labels",
        "scalar labels",
        "pickled labels",
    ],
)
def test_npz_that_does_not_fit(tmp_path, given, says):
    with pytest.raises(UserError, match=says):
        load(tmp_path, **given)


def test_npz_that_is_none(tmp_path):
    (tmp_path / "text.npz").write_text("no archive")
    np.save(tmp_path / "one.npy", np.zeros(3))
    for name in ("absent.npz", "text.npz", "one.npy", "."):
        with pytest.raises(UserError, match="cannot read data set npz:"):
            datasets.parse(f"npz:{tmp_path}/{name}").load(0, None, None)


@pytest.mark.parametrize("error", [RuntimeError("no network"), ConnectionResetError()])
def test_mnist_offline_says_what_to_do(tmp_path, monkeypatch, error):
    from trials.vision import torchvision

    def fail(self):
        raise error

    monkeypatch.setattr(torchvision.datasets.MNIST, "download", fail)
    for name, archive in (("mnist", "MNIST"), ("fashion_mnist", "FashionMNIST")):
        with pytest.raises(UserError) as raised:
            datasets.parse(name).load(0, None, str(tmp_path))
        said = str(raised.value)
        for part in ("train-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz", "--data-root"):
            assert part in said
        assert str(tmp_path / archive / "raw") in said


def needs(archive: str) -> None:
    raw = REAL / archive / "raw"
    stem = "train-images-idx3-ubyte"
    if not ((raw / stem).exists() or (raw / f"{stem}.gz").exists()):
        pytest.skip(f"set SUITE_DATA to a folder that holds {archive}/raw with the {archive} files")


@pytest.mark.parametrize(
    ("name", "archive"), [("mnist", "MNIST"), ("fashion_mnist", "FashionMNIST")]
)
def test_mnist_files(name, archive):
    needs(archive)
    before = sorted((REAL / archive / "raw").iterdir())
    dataset = datasets.parse(name).load(0, None, None)
    assert sorted((REAL / archive / "raw").iterdir()) == before
    assert dataset.x.shape == (70000, 1, 28, 28)
    assert dataset.x.dtype == np.float32
    assert (dataset.test.sum(), (~dataset.test).sum()) == (10000, 60000)
    assert not dataset.test[:60000].any()
    assert np.bincount(dataset.y).shape == (10,)
    train = dataset.x[~dataset.test]
    assert train.mean(dtype=float) == pytest.approx(0, abs=1e-3)
    assert train.std(dtype=float) == pytest.approx(1, abs=1e-3)


def test_fedavg_learns_mnist():
    needs(MNIST.archive)
    common = Settings(rounds=4, clients=20, participation=0.25, local_steps=30)
    spec = TrialSpec(
        algorithm="fedavg",
        params={"lr": 0.05},
        dataset="mnist",
        model="logreg",
        heterogeneity="iid",
        settings=common,
        seed=0,
    )
    trained, data = run(spec)
    well_split(data)
    assert trained.history[0]["test_accuracy"] < 0.3
    assert trained.history[-1]["test_accuracy"] > 0.8


# Models and the shapes they need


def test_lenet5_refuses_small_images():
    for shape in [(1, 8, 8), (1, 28, 15), (784,)]:
        with pytest.raises(UserError, match="at least 16x16, because"):
            Model(models.parse("lenet5"), shape, 10)


def test_lenet5_has_44426_weights():
    assert Model(models.parse("lenet5"), (1, 28, 28), 10).d == 44426


@pytest.mark.parametrize(
    ("name", "d"), [("logreg", 7850), ("mlp", 199210), ("mlp(3,4)", 784 * 3 + 3 + 16 + 50)]
)
def test_model_sizes(name, d):
    assert Model(models.parse(name), (1, 28, 28), 10).d == d


@pytest.mark.parametrize("name", ["logreg", "mlp(6,5)", "lenet5"])
def test_initial_weights_are_uniform_within_the_fan_in(name):
    model = Model(models.parse(name), (1, 20, 20), 7)
    w = model.initial(np.array([0, 1]), 3)
    assert w.shape == (2, model.d)
    fan_in = {"logreg": {400}, "mlp(6,5)": {400, 6, 5}, "lenet5": {25, 150, 64, 120, 84}}[name]
    found = set()
    for slot in model.layout:
        if slot.name.endswith("weight"):
            n = int(np.prod(slot.shape[1:]))
            found.add(n)
            values = w[:, slot.start : slot.stop]
            assert np.abs(values).max() <= n**-0.5
            assert values.std() == pytest.approx((3 * n) ** -0.5, rel=0.2)
    assert found == fan_in
    assert abs(np.corrcoef(w)[0, 1]) < 5 * model.d**-0.5
    logits = model.logits(torch.tensor(w), torch.zeros(2, 4, 1, 20, 20, dtype=torch.float64))
    assert logits.shape == (2, 4, 7)
