"""Text from anywhere as a person may be shown it."""

import re

_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What moves a cursor, and what turns the order of letters around; tabs and ends of lines stay."""


def visible(text: str) -> str:
    """Text without control characters and without marks that change its direction, by which a name can
    look like another.
    """
    return _UNSEEN.sub("", text)
