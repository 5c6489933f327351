"""Which line of a traceback is shown for all of it."""

import pytest

from trials.outcome import reason

FRAMES = """Traceback (most recent call last):
  File "trials/running.py", line 46, in step
    return self._step(due)
           ^^^^^^^^^^^^^^^
  File "/mine/mine.py", line 12, in aggregate
    return later(w)
           ^^^^^^^^
"""


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (FRAMES + "ValueError: not so\n", "ValueError: not so"),
        (
            FRAMES
            + "numba.core.errors.TypingError: \x1b[1mFailed in nopython mode pipeline\x1b[0m\n"
            '\x1b[1mFile "mine.py", line 3:\x1b[0m\n  - Resolution failure\n'
            "\x1b[0m\x1b[1mDuring: Pass nopython_type_inference\x1b[0m\n",
            "numba.core.errors.TypingError: Failed in nopython mode pipeline",
        ),
        (
            f"{FRAMES}KeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n"
            f"\n{FRAMES}ValueError: not so\n",
            "ValueError: not so",
        ),
        ("the worker was killed\nOut of memory", "Out of memory"),
        ("", ""),
    ],
    ids=["one line", "many lines", "two exceptions", "no frames", "nothing"],
)
def test_it_names_the_exception(error: str, shown: str) -> None:
    assert reason(error) == shown
