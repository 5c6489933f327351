"""Which code of others may run: what the person names, and what they let run before.

A study, a tuned file or a recorded run may come from anyone, and what it names runs with all that its
reader may do. So code that a file names is asked about once: on a terminal, or by `--trust`.
"""

import os
import re
import stat
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import IO

from suite.console import HARMLESS
from trials.common import plugins
from trials.common.errors import UserError
from trials.common.names import split_top

_granted = False


def grant() -> None:
    """Let all code run that the command comes by: its `--trust`."""
    global _granted
    _granted = True


class Trust:
    """The gate of one command (`trials.common.plugins.guarded`); `words` are the command line's."""

    def __init__(self, words: Iterable[str]) -> None:
        global _granted
        _granted = False
        self._words = [piece for word in words for piece in _pieces(word)]

    def __call__(self, code: plugins.Code) -> None:
        """Raise `UserError` where code must not run. What may is known again by its bytes."""
        if code.key in _remembered():
            return
        if not (_granted or self._is_named(code)):
            if not _can_ask():
                raise UserError(
                    f"{code.name} is code that has not run here before: {code}. It would run with all that "
                    "you may do: read it, and add --trust"
                )
            question = (
                f"{code.name} is code that has not run here before: {code}. It runs with all that you "
                "may do. Let it run? [y/N] "
            )
            sys.stderr.write(question.translate(HARMLESS))
            sys.stderr.flush()
            if sys.stdin.readline().strip().lower() not in ("y", "yes"):
                raise UserError(f"{code.name} was not trusted, so nothing ran")
        _remember(code)

    def _is_named(self, code: plugins.Code) -> bool:
        """Whether the command line names it, so that it is the person's own wish."""
        for word in self._words:
            whole = word.endswith(".py")  # a file, and so whatever is in it
            with suppress(UserError):
                if whole and plugins.code(f"{word}:").file == code.file:
                    return True
                if plugins.named(word) and plugins.code(word).name == code.name:
                    return True
        return False


def _can_ask() -> bool:
    """Whether there is a person to ask: on a terminal, and not in the middle of serving a page."""
    main = threading.current_thread() is threading.main_thread()
    return main and sys.stdin.isatty() and sys.stderr.isatty()


def _pieces(word: str) -> list[str]:
    """The names that a word of the command line may hold: `--algorithms=a,b.py:C`, `iid+b.py:D(2)`."""
    listed = [word, *split_top(re.sub(r"^(--set=)?(--)?[\w.-]+=", "", word), ",")]
    parts = [part for one in listed for part in split_top(one, "+")]
    return [*listed, *(part for part in parts if part not in listed)]


def _list() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "suite-fl" / "trusted"


def _remembered() -> set[str]:
    """What ran before; nothing of a list that another user could have written."""
    with suppress(OSError), _opened(os.O_RDONLY) as file:
        return {" ".join(line.split()[:2]) for line in file}
    return set()


def _remember(code: plugins.Code) -> None:
    with suppress(OSError):  # a home that cannot be written is asked again
        _list().parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _opened(os.O_RDWR | os.O_APPEND | os.O_CREAT) as file:
            file.write(f"{code.key} {code.name!r}\n")


def _opened(flags: int) -> IO[str]:
    """The list, opened: a plain file of one's own, which nobody else may write. Raises `OSError` for
    anything else, a link or a pipe that has its place among them.
    """
    made = os.open(_list(), flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    found = os.fstat(made)
    own = stat.S_ISREG(found.st_mode) and found.st_uid == os.getuid()
    if not own or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        os.close(made)
        raise PermissionError(f"{_list()} is not one's own")
    return os.fdopen(made, "r" if flags == os.O_RDONLY else "a", encoding="utf-8")
