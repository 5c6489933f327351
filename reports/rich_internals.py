"""What the suite needs of Rich and Rich offers no public way to, with the reason.

A version of Rich may take it away. `tests/test_private_names.py` says so in words.
"""

from collections.abc import Mapping

from rich import control


def spell_out(table: Mapping[int, str]) -> None:
    """Have Rich write characters as the table has them in whatever it prints from now on: it drops some
    control characters itself, and marks of direction not at all.
    """
    control._CONTROL_STRIP_TRANSLATE.update(table)  # type: ignore[arg-type]
