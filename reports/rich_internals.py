"""What the suite needs of Rich and Rich offers no public way to: all of it, each with the reason.

A version of Rich may take any of it away. `tests/test_private_names.py` says so in words.
"""

import re
from collections.abc import Mapping

from rich import control
from rich._export_format import CONSOLE_SVG_FORMAT

SVG = re.sub(r"@font-face \{\{.*?\}\}\s*|<!-- .*? -->\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""Rich's picture of a terminal without fonts from another host: a picture asks nobody for anything."""


def spell_out(table: Mapping[int, str]) -> None:
    """Have Rich write characters as the table has them in whatever it prints from now on: it drops some
    control characters itself, and marks of direction not at all.
    """
    control._CONTROL_STRIP_TRANSLATE.update(table)  # type: ignore[arg-type]
