"""Names of files below a site: of plain characters, short enough for any disk, and no two alike."""

from types import SimpleNamespace
from typing import Any, cast

from reports.site.addresses import LENGTH, Addresses, distinct


def test_slugs_are_short_and_differ() -> None:
    names = ["y" * 3000, "y" * 3001, "Digits", "digits", "<script>", "", "../..", "\0", "日本"]
    found = distinct(names)
    assert list(found) == names
    assert len(set(found.values())) == len(names)
    assert all(len(slug) <= LENGTH + 3 for slug in found.values())
    assert all(slug.replace("-", "").isalnum() and slug.isascii() for slug in found.values())


def test_methods_of_one_name_in_several_files_have_pages_of_their_own() -> None:
    rows = [SimpleNamespace(algorithm=name) for name in ("x-2", "a.py:X", "b.py:X", "a.py:X")]
    board = SimpleNamespace(report=SimpleNamespace(board=SimpleNamespace(rows=rows)))
    to = Addresses(cast(Any, board))
    pages = [to.method(row.algorithm) for row in rows[:3]]
    assert pages == ["methods/x-2.html", "methods/x.html", "methods/x-3.html"]
