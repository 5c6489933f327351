"""What cannot be is refused with one message, before anything starts, and leaves nothing behind."""

import re
from pathlib import Path

import pytest

from tests.support import (
    corpus,
    corpus_data,
    corpus_places,
    corpus_plugins,
)
from tests.support.commands import suite_here, whole
from tests.support.corpus import Row

TABLES = (
    corpus,
    corpus_data,
    corpus_places,
    corpus_plugins,
)
ROWS = [row for table in TABLES for row in table.ROWS]


def said_of(text: str) -> str:
    """The message of a command that was refused: what it said before, and the frames of the command
    line's own usage errors, are left out.
    """
    _, error, message = text.partition("error: ")
    words = " ".join(re.sub(r"[╭─╮│╰╯]", " ", message if error else text).split())
    return re.sub(r"^Usage: .*? Error ", "", words)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_what_cannot_be_is_refused(tmp_path: Path, row: Row):
    row.make(tmp_path)
    before = whole(tmp_path)
    done = suite_here(*row.args, cwd=tmp_path, code=2)
    assert re.fullmatch(row.says, said_of(done.stderr)), done.stderr
    assert not done.stdout
    assert whole(tmp_path) == before
