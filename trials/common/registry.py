"""What a short name stands for, one class of a kind: algorithms, data sets, partitions, ...

A `Registry` finds classes in three places: its own entries, the entry points of installed packages, and files
that a name gives the path of, `path/to/file.py:Name` or, with arguments, `path/to/file.py:Name(3)`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType
from typing import Any, Generic, TypeVar

from trials.common import names, plugins
from trials.common.errors import UserError, unknown
from trials.common.files import resolved

T = TypeVar("T")
_SEPARATORS = re.compile(r"[+,(){}]")


class Registry(Mapping[str, type[T]], Generic[T]):
    """The classes of one kind by name. As a mapping it has the project's own entries alone.

    `kind` names it in messages; `base` is what a class of others derives from, and `needs` are the methods
    that it defines itself; `check(cls, where)` raises `UserError` where it breaks another rule of the kind.
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
        self.kind, self.group, self.base, self.needs = kind, group, base, needs
        self._entries, self._check = dict(entries), check

    def __getitem__(self, name: str) -> type[T]:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def known(self) -> dict[str, type[T]]:
        """All by name: the project's own and those of installed packages, as far as they can be imported
        (`broken` has the others).
        """
        found = dict(self)
        for point in entry_points(group=self.group):
            with suppress(UserError):
                found.setdefault(point.name, self._from_package(point))
        return found

    def broken(self) -> list[str]:
        """Why those of installed packages that are not known are left out."""
        faults = []
        for point in entry_points(group=self.group):
            try:
                self._from_package(point)
            except UserError as error:
                faults.append(str(error))
        return faults

    def resolve(self, name: str, text: str = "") -> type[T]:
        """The class of a name without arguments; raises `UserError` where there is none, of the `text` that the
        name is in.
        """
        if name in self._entries:
            return self._entries[name]
        path, _, class_name = name.rpartition(":")
        if path.endswith(".py"):
            place, module = self._module(path, class_name)
            defined = ", ".join(self._defined(module))
            return self.checked(getattr(module, class_name, None), place, class_name, defined)
        if name.endswith(".py"):
            if found := [f"{name}:{each}" for each in self.defined(name)]:
                raise UserError(f"{self.kind} {name}: name its class too: {' or '.join(found)}")
            raise UserError(f"{name} has no class that derives from {self._rule}")
        for point in entry_points(group=self.group, name=name):
            return self._from_package(point)
        raise unknown(self.kind, text or name, self.known())

    def read(self, text: str) -> tuple[str, T]:
        """A name with its arguments as it is recorded, and its object. Raises `UserError` for a name or
        arguments that are none, and for a file whose path has a sign that separates names.
        """
        bare, given = names.split(text)
        cls, name = self.resolve(bare, text), self.located(bare)
        if name.rpartition(":")[0] and (sign := _SEPARATORS.search(name)):
            raise UserError(
                f"{self.kind} {text!r}: the path in {name} has {sign[0]!r}, which separates names: move the "
                "file to another folder"
            )
        made: T = names.make(self.kind, text, cls, given)
        return names.spell(name, made), made

    def parse(self, text: str) -> T:
        """The object of a name with its arguments; raises as `read` does."""
        return self.read(text)[1]

    def located(self, name: str) -> str:
        """The name, with the absolute path of a file. No code runs."""
        path, _, class_name = name.rpartition(":")
        return (
            f"{resolved(path, f'{self.kind} file')}:{class_name}" if path.endswith(".py") else name
        )

    def defined(self, path: str, name: str = "") -> list[str]:
        """The classes of this kind that a file defines, in its order; asked for because of one's `name`."""
        return self._defined(self._module(path, name)[1])

    def checked(self, cls: Any, where: str, name: str, there: str = "") -> type[T]:
        """A class of others, if it is one of this kind; raises `UserError` that names what it lacks.
        `there`: those that are where it was looked for.
        """
        if not (isinstance(cls, type) and issubclass(cls, self.base)):
            article = "an" if self.kind[0] in "aeiou" else "a"
            rule = (
                f"is {article} {self.kind}; it has {there}"
                if there
                else f"derives from {self._rule}"
            )
            raise UserError(f"{where} has no class {name!r} that {rule}")
        lacks = [need for need in self.needs if getattr(cls, need) is getattr(self.base, need)]
        if lacks:
            raise UserError(f"{where}:{name} lacks {', '.join(lacks)}, which every {self.kind} has")
        self._check(cls, f"{where}:{name}")
        return cls

    @property
    def _rule(self) -> str:
        return f"{self.base.__module__}.{self.base.__name__}"

    def _from_package(self, point: EntryPoint) -> type[T]:
        where = f"{self.kind} {point.name} of {point.dist.name if point.dist else 'a package'}"
        try:
            found = point.load()
        except (Exception, SystemExit) as error:
            raise UserError(f"{where} ({point.value}) cannot be imported: {error!r}") from error
        return self.checked(found, f"{where} ({point.value})", point.attr)

    def _module(self, path: str, name: str = "") -> tuple[str, ModuleType]:
        place = str(resolved(path, f"{self.kind} file"))
        return place, plugins.imported(f"{place}:{name}", self.kind)

    def _defined(self, module: ModuleType) -> list[str]:
        return [
            name
            for name, value in vars(module).items()
            if isinstance(value, type)
            and issubclass(value, self.base)
            and value.__module__ == module.__name__
        ]
