"""All uses of Rich's private names, with the reason: what Rich offers no public way to.

A version of Rich may take it away. `tests/test_private_names.py` says so in words.
"""

from collections.abc import Mapping

from rich import control


def spell_out(table: Mapping[int, str]) -> None:
    """Have Rich print these characters as the table spells them, from now on. By itself it drops only some control
    characters, and no marks of direction.
    """
    control._CONTROL_STRIP_TRANSLATE.update(table)  # type: ignore[arg-type]
