"""The format number of the suite's files, and the refusal of files in another format."""

from importlib.metadata import version

from trials.common.errors import UserError

FORMAT = 3
"""The format number in the first line of a journal, in the tags of a run and in a tuned configuration."""


class FormatError(UserError):
    """A file or a run has another format number, so nothing of it was read."""


def check_format(what: str, written: object, instead: str = "") -> None:
    """Raise `FormatError` unless the format number `written` is `FORMAT`. The message names `what` and advises `instead`."""
    if written == FORMAT:
        return
    by, reader = "suite 0.2.0", "0.2.0 (commit 4018725)"
    if isinstance(written, int) and written > FORMAT:
        by, reader = "a later suite", "that version"
    unread = f"{what} was written by {by}, which suite {version('suite-fl')} does not read"
    raise FormatError(f"{unread}: read it with {reader}" + f", or {instead}" * bool(instead))
