"""Modules that are imported when they are first used, for what reads only names and ranges."""

from importlib import import_module
from typing import Any


class Lazy:
    """A stand-in for a module. The first use of an attribute imports the module; attributes are kept."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)
        return value

    def __reduce__(self) -> tuple[type["Lazy"], tuple[str]]:
        return Lazy, (self.__name__,)
