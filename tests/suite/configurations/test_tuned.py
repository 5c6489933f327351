"""Tuned files and requests of single runs: read, written, refused; imports, all or none."""

from pathlib import Path
from unittest.mock import patch

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from suite.configurations import configuration as tuned
from tests.support.configurations import a_tuned
from trials.common.errors import UserError
from trials.settings import Settings

MINIMAL = "algorithm: fedprox\ndataset: digits\nmodel: logreg\nheterogeneity: labels(2)\n"
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
RATES = st.floats(0, exclude_min=True, allow_infinity=False)
TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), max_size=20)
LIKE_NUMBERS = ["1234e567", "1e5", "007", "0x1f", "1_0", "yes", "null", "1:30"]
"""As a hexadecimal hash may look like a number."""


@given(
    st.tuples(RATES, NUMBERS),
    st.lists(TEXT | st.sampled_from(LIKE_NUMBERS), max_size=3),
    st.builds(
        Settings,
        rounds=st.integers(20, 500),
        clients=st.none() | st.integers(1, 99),
        batch_size=st.integers(1, 99) | st.just("full"),
        dtype=st.sampled_from(["float32", "float64"]),
        val_fraction=st.floats(0, 0.5),
    ),
)
def test_a_file_holds_all_to_the_last_bit(values, texts, settings):
    provenance = {"study": "".join(texts), "runs": texts}
    before = a_tuned("folb", lr=values[0], score=values[1])
    before = before.model_copy(update={"settings": settings, "provenance": provenance})
    text = before.text()
    after = tuned.parse(text, "file")
    assert after == before
    for name in ("params", "scores", "settings"):
        assert repr(getattr(after, name)) == repr(getattr(before, name))
    assert text.startswith("# suite run THIS_FILE")
    assert yaml.safe_load(text)["params"] == before.params, "other programs read it too"
    assert "!!" not in text


def test_a_hand_written_file_needs_four_keys():
    item = tuned.parse(MINIMAL, "mine.yaml")
    assert (item.params, item.settings) == ({}, Settings())
    spec = item.spec(3)
    assert spec.params == {"lr": 0.1, "mu": 0.01}, "defaults for the rest"
    assert (spec.dataset, spec.heterogeneity, spec.seed) == ("digits", "labels(2)", 3)
    more = "params: {mu: 1}\nsettings: {rounds: 5, batch_size: full}\n"
    spec = tuned.parse(MINIMAL + more, "mine.yaml").spec(0)
    assert spec.params == {"lr": 0.1, "mu": 1.0}
    assert (spec.settings.rounds, spec.settings.batch_size) == (5, "full")


@pytest.mark.parametrize("text", ["a: [", "- 1", "words", "{}", "algorithm: [1]"])
def test_what_is_no_configuration(text):
    with pytest.raises(UserError, match=r"mine\.yaml"):
        tuned.parse(text, "mine.yaml")


NAMES = st.sampled_from(["npz:/../b", "../../x", "/abs", ".x.py:C", "..", "x/"]) | TEXT.filter(bool)


@given(st.tuples(NAMES, NAMES, NAMES, NAMES))
def test_a_path_stays_inside_the_folder(names):
    path = a_tuned(*names).path
    assert len(path.parts) == 4
    assert not [part for part in path.parts if part.startswith((".", "/"))], "nor is it hidden"
    others = [a_tuned(dataset=f"npz:/{name}.npz").path for name in ("a/b", "a_b", "c/b")]
    assert len({*others}) == 3, "else one overwrites another"


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_fault_at_any_write_leaves_all_as_it_was(tmp_path: Path, at: int):
    """One configuration takes the place of another, two are new."""
    worse = a_tuned(score=0.1)
    tuned.keep([worse], tmp_path / "imported")
    better = [a_tuned(score=0.9), a_tuned("folb"), a_tuned(level="labels(2)")]
    write, full = Path.write_text, [*[False] * at, True]

    def fails_once(path: Path, *text: str, **more: str) -> None:
        if full.pop(0):
            raise OSError(28, "No space left on device")
        write(path, *text, **more)

    with patch.object(Path, "write_text", fails_once), pytest.raises(UserError, match="No space"):
        tuned.keep(better, tmp_path / "imported")
    assert {path: tuned.read(path) for path in tmp_path.rglob("*.*") if path.is_file()} == {
        tmp_path / "imported" / worse.path: worse
    }
    assert len(tuned.keep(better, tmp_path / "imported")) == 3
