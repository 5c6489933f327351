"""How a leaderboard is asked for: in formats that people read, and as JSON by the option of every command."""

import pytest

from tests.support.commands import suite_here


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("json", "'json' has an option of its own, as in every command: --json"),
        ("yaml", "'yaml' is not one of 'table', 'csv', 'md', 'latex', 'html', 'svg'"),
    ],
)
def test_a_format_that_is_none(tmp_path, form, said):
    done = suite_here("leaderboard", "--format", form, cwd=tmp_path, code=2)
    text = " ".join(done.stderr.replace("│", " ").split())
    assert f"Invalid value for '--format': {said} " in text
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []
