"""The only use of a private name of Rich, for which Rich has no public replacement.

A later version of Rich may remove the name; `tests/test_private_names.py` then fails with an explanation.
"""

from collections.abc import Mapping

from rich import control


def spell_out(table: Mapping[int, str]) -> None:
    """Make Rich print other texts in place of some characters. `table` has the text for each character's code point. By default
    Rich drops a few control characters and prints all others, such as marks that reverse the direction of text.
    """
    control._CONTROL_STRIP_TRANSLATE.update(table)  # type: ignore[arg-type]
