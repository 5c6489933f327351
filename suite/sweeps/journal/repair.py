"""A damaged journal made one again: lines that do not belong are set aside, and the trials that they told of run again."""

import itertools
import os

from suite.console import say
from suite.formats import FormatError
from suite.sweeps.journal.events import SweepState, read_raw
from suite.sweeps.journal.file import alone
from suite.sweeps.journal.paths import MARKER, SweepPaths
from suite.yaml_files import writable
from trials.common.errors import UserError

ASIDE = "journal-aside-{}.jsonl"


def repair(paths: SweepPaths) -> None:
    """Mend the journal of a sweep that nobody runs, and say what was done; nothing where it is sound.

    Lines are taken in their order, and those that came too early again after the others, until none can
    be added. Raises `UserError` where none says how the sweep began, or another version began it.
    """
    path = paths.journal
    if not (path.exists() and (path.with_name(MARKER).exists() or paths.begun)):
        return
    with alone(path), writable(paths.folder):
        lines = path.read_bytes().split(b"\n")[:-1]
        state, kept, left = SweepState(), list[bytes](), lines
        while more := [raw for raw in left if not _added(paths, state, raw, kept)]:
            if len(more) == len(left):
                break
            left = more
        if kept == lines:
            return
        if state.begun is None:
            raise UserError(
                f"journal {path} does not say how the sweep began: move the folder away, or choose another --name"
            )
        aside = next(
            p for n in itertools.count(1) if not (p := path.with_name(ASIDE.format(n))).exists()
        )
        if more:
            aside.write_bytes(b"".join(raw + b"\n" for raw in more))
        part = path.with_suffix(".part")
        made = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)  # as a journal is made
        with os.fdopen(made, "wb") as file:
            file.write(b"".join(raw + b"\n" for raw in kept))
            file.flush()
            os.fsync(made)
        part.replace(path)
    done = f"{len(more)} of {len(lines)} lines are set aside in {aside.name}"
    say(
        f"journal {path}: {done if more else 'lines are in their order again'}; "
        f"{len(state.ended)} trials have ended, and the others run again"
    )


def _added(paths: SweepPaths, state: SweepState, raw: bytes, kept: list[bytes]) -> bool:
    """Take a line into account if it can come next; whether it could."""
    try:
        state.add(read_raw(paths.journal, 0, raw))
    except FormatError:
        raise
    except ValueError:
        return False
    kept.append(raw)
    return True
