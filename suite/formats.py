"""The format of what the suite writes, and the one rule for what another version wrote."""

from importlib.metadata import version

from trials.common.errors import UserError

FORMAT = 3
"""What the first line of a journal, the tags of a run and a tuned file carry."""
BEFORE = "0.2.0"
"""The last version whose files have a smaller format, or none."""
COMMIT = "4018725"
"""Its commit."""


def _writer(found: object) -> tuple[str, str]:
    """Who wrote what has this format, and which version reads it."""
    if isinstance(found, int) and found > FORMAT:
        return "a later suite", "that version"
    return f"suite {BEFORE}", f"{BEFORE} (commit {COMMIT})"


def left_out(found: object) -> str:
    """What is said of runs with a format that was `found` and is not `FORMAT`."""
    by, reader = _writer(found)
    return f"runs of {by} are left out, which suite {version('suite-fl')} does not read: read them with {reader}"


class FormatError(UserError):
    """A file or a run is of another format; nothing of it was read."""


def check_format(what: str, found: object, instead: str = "") -> None:
    """Raise `FormatError` in one line where what was `found` in `what` is not `FORMAT`; `instead` is a
    further way out: `choose another --name`.
    """
    if found == FORMAT and not isinstance(found, bool):
        return
    by, reader = _writer(found)
    otherwise = f", or {instead}" if instead else ""
    raise FormatError(
        f"{what} was written by {by}, which suite {version('suite-fl')} does not read: "
        f"read it with {reader}{otherwise}"
    )
