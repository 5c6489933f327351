"""What of Rich is used that it does not promise: whether this version has it."""

from importlib.metadata import version

import pytest

from tests.support.others import has

USED = {
    "rich.control._CONTROL_STRIP_TRANSLATE": "names of others could write over a terminal",
    "rich._export_format.CONSOLE_SVG_FORMAT": "pictures of leaderboards would ask another host for fonts",
}
"""Each name, and what a version of Rich without it would break."""


@pytest.mark.parametrize("name", USED)
def test_this_version_has(name: str) -> None:
    assert has(name), f"Rich {version('rich')} has no {name} any more: {USED[name]}"
