"""JSON that programs would read differently is refused."""

import json
import re

import pytest

from suite import json_files


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": 1, "a": 2}', "the key 'a' is there twice"),
        ('{"a": {"b": NaN}}', "NaN is no finite number"),
        ("[-Infinity]", "-Infinity is no finite number"),
        ("[1e999]", "1e999 is no finite number"),
        ("[9223372036854775808]", "9223372036854775808 is no whole number below 2^63"),
        ('["\\ud800"]', "its text is not Unicode"),
        (b'"\xff"', "its text is not Unicode"),
        ("[" * 100_000, "it is nested too deeply"),
    ],
)
def test_json_that_programs_would_read_differently_is_refused(text: str | bytes, says: str) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(says) + "$"):
        json_files.parse(text)


def test_other_json_is_read_as_it_is() -> None:
    text = '{"a": [1, -2.5, 1e-3, true, null, "\\ud83d\\ude00", 9223372036854775807], "b": {}}'
    assert json_files.parse(text) == json.loads(text)
