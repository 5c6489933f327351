"""Short names and the classes that they stand for: algorithms, data sets, partitions, ...

A `Registry` looks for classes in three places: its own entries, the entry points of installed packages, and Python files
named by path, `path/to/file.py:Name` or, with arguments, `path/to/file.py:Name(3)`.
"""

import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any, TypeVar

from trials.common import names, plugins
from trials.common.errors import UserError, unknown
from trials.common.files import resolved

T = TypeVar("T")
_SEPARATORS = re.compile(r"[+,(){}]")


@cache
def _points(group: str, path: tuple[str, ...]) -> EntryPoints:
    # Reading all packages' entry points takes 15 ms, and a sweep parses a thousand names.
    return entry_points(group=group)


class Registry(dict[str, type[T]]):
    """The classes of one kind by name, as in `ALGORITHMS.resolve("fedavg")`. The dict holds the project's own classes only.

    A third party's class must derive from `base` and define the methods `needs`. `check(cls, where)` raises `UserError`
    if the class breaks another rule.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        base: type[T],
        entries: Mapping[str, type[T]],
        needs: tuple[str, ...] = (),
        check: Callable[[type[T], str], None] = lambda cls, where: None,
    ) -> None:
        super().__init__(entries)
        self.kind, self.group, self.base, self.needs, self._check = kind, group, base, needs, check

    def known(self) -> dict[str, type[T]]:
        """Return all usable classes of the project and of installed packages, by name."""
        classes: dict[str, type[T]] = {}
        for point in self._points():
            cls = self._installed(point)
            if not isinstance(cls, UserError):
                classes[point.name] = cls
        return {**classes, **self}  # no package can replace a class of the project

    def broken(self) -> list[str]:
        """Return an error message for each unusable class in the installed packages."""
        installed = map(self._installed, self._points())
        return [str(fault) for fault in installed if isinstance(fault, UserError)]

    def resolve(self, name: str, text: str = "") -> type[T]:
        """Return the class called `name`, from the project, a file or a package. Raise `UserError`, quoting `text`, if none exists."""
        if name in self:
            return self[name]
        if name.endswith(".py"):
            classes = [f"{name}:{class_name}" for class_name in self.defined(name)]
            which = ": name its class too: " + " or ".join(classes) if classes else " has none"
            raise UserError(f"{self.kind} {name}{which}")
        path, _, class_name = name.rpartition(":")
        if path.endswith(".py"):
            module = plugins.imported(f"{resolved(path, f'{self.kind} file')}:", self.kind)
            return self._checked(getattr(module, class_name, None), path, class_name)
        for point in self._points().select(name=name):
            cls = self._installed(point)
            if isinstance(cls, UserError):
                raise cls
            return cls
        raise unknown(self.kind, text or name, self.known())

    def read(self, text: str) -> tuple[str, T]:
        """Return a name's canonical spelling, and the object that the name stands for. Raise `UserError` for an unknown
        name, a wrong argument, or a file path that contains a separator of names, such as `+`.
        """
        bare, arguments = names.split(text)
        cls, name = self.resolve(bare, text), self.located(bare)
        if name.rpartition(":")[0] and (sign := _SEPARATORS.search(name)):
            has = f"the path in {name} has {sign[0]!r}, which separates names"
            raise UserError(f"{self.kind} {text!r}: {has}: move the file to another folder")
        value: T = names.make(self.kind, text, cls, arguments)
        return names.spell(name, value), value

    def located(self, name: str) -> str:
        """Return a name such as `FILE.py:Class` with the file's absolute path, and any other name unchanged. The file is not run."""
        path, _, class_name = name.rpartition(":")
        file = path.endswith(".py")
        return f"{resolved(path, f'{self.kind} file')}:{class_name}" if file else name

    def defined(self, path: str) -> list[str]:
        """Run a Python file, and return the names of the classes of the registry's kind that the file defines, in order."""
        module = plugins.imported(f"{resolved(path, f'{self.kind} file')}:", self.kind)
        defined = []
        for value in vars(module).values():
            imported = getattr(value, "__module__", None) != module.__name__
            if isinstance(value, type) and issubclass(value, self.base) and not imported:
                defined.append(value.__name__)
        return defined

    def _points(self) -> EntryPoints:
        return _points(self.group, tuple(sys.path))

    def _installed(self, point: EntryPoint) -> type[T] | UserError:
        """Return the class of a package's entry point, or a `UserError` that says why the class is unusable."""
        package = point.dist.name if point.dist else "a package"
        where = f"{self.kind} {point.name} of {package} ({point.value})"
        try:
            return self._checked(plugins.tried(where, point.load), where, point.attr)
        except UserError as fault:
            return fault

    def _checked(self, cls: Any, where: str, name: str) -> type[T]:
        """Return `cls` if it keeps the rules for this kind of class, else raise `UserError`. `where` names its file or package."""
        if not (isinstance(cls, type) and issubclass(cls, self.base)):
            rule = f"derives from {self.base.__module__}.{self.base.__name__}"
            raise UserError(f"{where} has no class {name!r} that {rule}, as every {self.kind} does")
        if lacks := [n for n in self.needs if getattr(cls, n) is getattr(self.base, n)]:
            raise UserError(f"{where}:{name} lacks {', '.join(lacks)}, which every {self.kind} has")
        self._check(cls, f"{where}:{name}")
        return cls
