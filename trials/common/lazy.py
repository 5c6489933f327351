"""Modules imported at first use, so that commands that only read names and ranges start quickly."""

from importlib import import_module
from typing import Any


class Lazy:
    """A stand-in for a module, which is imported when an attribute is first used. Attributes are cached."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)
        return value

    def __reduce__(self) -> tuple[type["Lazy"], tuple[str]]:
        return Lazy, (self.__name__,)
