"""Parts of mappings, selected by key or by value, in the mapping's order."""

from collections.abc import Container, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def only(values: Mapping[K, V], keys: Container[K]) -> dict[K, V]:
    """Return the entries whose key is in `keys`; missing keys are ignored."""
    return {key: value for key, value in values.items() if key in keys}


def without(values: Mapping[K, V], keys: Container[K]) -> dict[K, V]:
    """Return the entries whose key is not in `keys`."""
    return {key: value for key, value in values.items() if key not in keys}


def stated(values: Mapping[K, V | None]) -> dict[K, V]:
    """Return the entries whose value is not None."""
    return {key: value for key, value in values.items() if value is not None}
