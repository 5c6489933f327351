"""Modules that are imported when they are first used, for what reads only names and ranges."""

from importlib import import_module
from typing import Any


class Lazy:
    """Stands for a module: an attribute that is asked for imports it, and is kept.

    What replaces an attribute of the module afterwards is not seen here.
    """

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __getattr__(self, name: str) -> Any:
        found = getattr(import_module(self.__name__), name)
        setattr(self, name, found)
        return found

    def __reduce__(self) -> tuple[type["Lazy"], tuple[str]]:
        return Lazy, (self.__name__,)
