"""YAML of files: what was written is read back, and what programs would read differently is refused in a line."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.yaml_files import dump, parse_mapping, read_text, replacing
from trials.common.errors import UserError

SIGNS = "aé:#-'\"{}[],&*!|>%@`~0.= \n"
TEXTS = st.one_of(
    st.text(SIGNS, max_size=8), st.sampled_from(["1e-3", "-.5E+2", "null", "0x1", "~"])
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
)


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_what_is_written_is_read_back(content: dict[str, Any]) -> None:
    assert parse_mapping(dump(content), "a.yaml") == content


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("trials: 3\nseeds: 1\ntrials: 4\n", "'trials'"),
        ("a: [" + "1, " * 400_000 + "1]", "1,048,576 bytes"),
        ("a: !!python/object/apply:os.system [id]", "python/object"),
        ("a: 2026-13-45", "month"),
        ("a: " + "[" * 5000 + "]" * 5000, "recursion"),
        ("[1]", "mapping"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(text: str, named: str) -> None:
    with pytest.raises(UserError, match=rf"^a\.yaml .*{named}"):
        parse_mapping(text, "a.yaml")


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(bytes(range(256)))
    for path in (tmp_path / "a.yaml", tmp_path):
        with pytest.raises(UserError, match=f"cannot read study {path}"):
            read_text(path, "study")


def test_two_processes_may_write_one_file(tmp_path: Path) -> None:
    with replacing(tmp_path / "file") as first, replacing(tmp_path / "file") as second:
        first.write_text("first")
        second.write_text("second")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["first"]
