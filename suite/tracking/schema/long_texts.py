"""Texts that are longer than MLflow keeps of a tag or param: in parts, which come back as one.

`x` has the first part, `x.2`, `x.3`, ... those after it. Every part but the last has `PART` characters and
the last has fewer, so that what an earlier, longer text left behind it is not taken for more.
"""

import re
from collections.abc import Mapping

PART = 6000
"""What MLflow keeps of a param; of a tag it keeps 8000. Longer ones it cuts, and says so to nobody."""
LATER = re.compile(r"(.+)\.[1-9]\d*")
"""The name of a part after the first."""
REST = "\n\n... and so on: the whole is in this run's tags"


def parted(texts: Mapping[str, str]) -> dict[str, str]:
    """These texts by name, none as long as `PART`."""
    return {
        name if at == 0 else f"{name}.{at // PART + 1}": text[at : at + PART]
        for name, text in texts.items()
        for at in range(0, len(text) + 1, PART)
    }


def whole(parts: Mapping[str, str]) -> dict[str, str]:
    """The texts that were `parted`."""
    found = {}
    for name, first in parts.items():
        later = LATER.fullmatch(name)
        if later is not None and later[1] in parts:
            continue
        text, part, number = first, first, 1
        while len(part) == PART:
            number += 1
            part = parts.get(f"{name}.{number}", "")
            text += part
        found[name] = text
    return found


def shortened(text: str) -> str:
    """A text for people that fits into a tag, and says where it was cut."""
    return text if len(text) <= PART else text[: PART - len(REST)] + REST
