"""Parts of mappings, by their keys or by what they hold; each keeps the order of the mapping."""

from collections.abc import Container, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def only(values: Mapping[K, V], keys: Container[K]) -> dict[K, V]:
    """Return the entries with these keys, as far as there are such."""
    return {key: value for key, value in values.items() if key in keys}


def without(values: Mapping[K, V], keys: Container[K]) -> dict[K, V]:
    """Return the entries with other keys than these."""
    return {key: value for key, value in values.items() if key not in keys}


def stated(values: Mapping[K, V | None]) -> dict[K, V]:
    """Return the entries that are not None."""
    return {key: value for key, value in values.items() if value is not None}
