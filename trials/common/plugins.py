"""Code of others, which a name brings in: `FILE.py:Name`, `FILE.py:Name(ARGUMENTS)`, `module:function`. It is
known by its hash before it runs, it cannot end the process without a word, and what it raises is shown with
its own frames alone.
"""

import hashlib
import importlib.util
import linecache
import os
import re
import sys
import traceback
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from importlib.util import decode_source
from itertools import accumulate
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NoReturn

from trials.common.errors import UserError
from trials.common.files import plain, resolved

_PREFIX = "suite_"
_NAME = re.compile(r"((?:.+\.py|[A-Za-z_][\w.]*):[A-Za-z_]\w*)\s*(?:\(.*\))?", re.DOTALL)


@dataclass(frozen=True)
class Code:
    """What a name brings in: the file it lies in (None: a part of Python), that file's content, and its
    SHA-256.
    """

    name: str
    file: Path | None
    sha256: str
    content: bytes = field(repr=False, compare=False)

    @property
    def key(self) -> str:
        """The same for the same bytes and function, wherever they lie."""
        return f"{self.sha256} {self.name.rpartition(':')[2]}"

    def __str__(self) -> str:
        """Path and hash, for a person to compare."""
        return f"{self.file or 'a part of Python'}, SHA-256 {self.sha256}"


Gate = Callable[[Code], object]
"""What is asked before code of others runs; it raises `UserError` where it must not."""

_gate: Gate | None = None
_admitted: dict[str, Code] = {}


@contextmanager
def guarded(gate: Gate) -> Iterator[None]:
    """Ask `gate` once about all code of others that would run. Without one, as in a script that imports
    this package, the names are the program's own.
    """
    global _gate
    before, _gate = _gate, gate
    try:
        yield
    finally:
        _gate = before
        _admitted.clear()


def named(text: str) -> bool:
    """Whether a name brings in code of others."""
    return _NAME.fullmatch(text) is not None


def code(text: str) -> Code:
    """What a name brings in, found without running any of it; raises `UserError` where there is no file."""
    if match := _NAME.fullmatch(text):
        text = match[1]
    place, _, function = text.rpartition(":")
    file: Path | None
    if place.endswith(".py"):
        file = plain(resolved(place, "file of code"), "file of code")
        text = f"{file}:{function}"
    else:
        file = _file_of(place)
    content = place.encode() if file is None else file.read_bytes()
    return Code(text, file, hashlib.sha256(content).hexdigest(), content)


def _file_of(module: str) -> Path | None:
    """A module's file; importing its packages to find it would run them."""
    path, spec = None, None
    for name in accumulate(module.split("."), "{}.{}".format):
        spec = PathFinder.find_spec(name, path)
        if spec is None:
            return None
        path = spec.submodule_search_locations
    return Path(spec.origin) if spec and spec.has_location and spec.origin else None


def admit(text: str) -> Code:
    """Have code of others asked about before it runs; raises `UserError` where it must not."""
    keep_alive()
    if text in _admitted:
        return _admitted[text]
    found = code(text)
    if _gate is not None:
        _gate(found)
        _admitted[text] = found
    return found


def run_module(name: str, path: str, content: bytes | str) -> ModuleType:
    """The module that a file of others makes, run from the content that was asked about: neither what
    the file holds by now, nor Python's compiled copy beside it, which no hash covers.
    """
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        exec(compile(content, path, "exec", dont_inherit=True), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    return module


_supplied: set[str] = set()
"""Modules that were sent to this process, which asks for their files no more."""
_ran: dict[str, str] = {}
"""The SHA-256 of what each module was run from."""


def imported(text: str, what: str) -> ModuleType:
    """The module of the file that `FILE.py:Name` is in, an absolute path; run once, and again where the file
    has changed. `what` it is said to hold. Raises `UserError` where it may not run, or cannot.
    """
    path = text.rpartition(":")[0]
    name = module_name(path)
    if name in _supplied:
        return sys.modules[name]
    plain(Path(path), f"{what} file")
    found = admit(text)
    if name not in sys.modules or _ran.get(name) != found.sha256:
        try:
            run_module(name, path, found.content)
        except (Exception, SystemExit) as error:
            why = unimportable(error)
            raise UserError(f"{what} file {path} cannot be imported: {why}") from error
        _ran[name] = found.sha256
    return sys.modules[name]


def sources(texts: Iterable[str]) -> dict[str, str]:
    """The text of each file that one of these names brings in, by its path."""
    found = [admit(text) for text in texts if named(text) and ".py:" in text]
    return {str(code.file): decode_source(code.content) for code in found}


def supply(path: str, text: str) -> None:
    """Import a file from its text, for a machine that may not have the file."""
    name = module_name(path)
    if name not in sys.modules:
        keep_alive()
        with contained():
            run_module(name, path, text)
        _supplied.add(name)


def hashes(*names: str) -> dict[str, str]:
    """The SHA-256 of the code behind those of these names that bring in any."""
    return {n: (_admitted.get(n) or code(n)).sha256 for n in names if named(n)}


def refuse_changed(
    recorded: object,
    source: str,
    else_: str = "name what is there now with --algorithm or --dataset and --set",
) -> None:
    """Raise `UserError` where code is not what its `hashes` were recorded of, or none were."""
    if not isinstance(recorded, Mapping):
        raise UserError(f"{source}: its hashes of code are {recorded!r}, which is no mapping")
    for name, before in recorded.items():
        now = code(str(name))
        if now.sha256 != before:
            raise UserError(
                f"{source}: {name} has changed since: SHA-256 was {before} and is {now.sha256}. Put the "
                f"former file back, or {else_}"
            )


def module_name(path: str) -> str:
    """The name under which a file is imported."""
    return f"{_PREFIX}{zlib.crc32(path.encode()):08x}"


def call(function: Callable[[], Any]) -> Any:
    """Call a function of others'."""
    with contained():
        return function()


def tried(what: str, function: Callable[[], Any]) -> Any:
    """Call a function of others'; raises `UserError`, which begins with `what`, for whatever it raises."""
    try:
        return call(function)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{what} raised {type(error).__name__}: {error}") from error


class ExitedError(RuntimeError):
    """Code of others tried to end the process."""


@contextmanager
def contained() -> Iterator[None]:
    """Make an error of what would end the process, or what runs it, and is no error. Ctrl-C stays."""
    try:
        yield
    except BaseException as end:
        if isinstance(end, Exception | KeyboardInterrupt):
            raise
        text = f"it raised {end!r}"
        if isinstance(end, SystemExit):
            text = f"it called sys.exit({end.code!r})"
        raise ExitedError(text).with_traceback(end.__traceback__) from None


def failure(error: BaseException) -> str | None:
    """What such a file raised, or let pass, with its own frames and no others; None where it was not on
    the way.
    """
    walked = traceback.walk_tb(error.__traceback__)
    own = [(f, line) for f, line in walked if str(f.f_globals.get("__name__")).startswith(_PREFIX)]
    if not own:
        return None
    lines = [f"{own[-1][0].f_code.co_filename} failed: {type(error).__name__}: {error}"]
    for frame, line in own:
        code = frame.f_code
        text = linecache.getline(code.co_filename, line).strip()
        lines.append(f"  File {code.co_filename}, line {line}, in {code.co_name}: {text}")
    return "\n".join(lines)


def unimportable(error: BaseException) -> str:
    """Why such a file cannot be imported, and at which of its lines."""
    if isinstance(error, SyntaxError):
        return f"SyntaxError: {error.msg}, line {error.lineno}: {(error.text or '').strip()}"
    walked = traceback.walk_tb(error.__traceback__)
    lines = [line for f, line in walked if str(f.f_globals.get("__name__")).startswith(_PREFIX)]
    return f"{error!r}{f', line {lines[-1]}' if lines else ''}"


_REAL: dict[str, Callable[..., NoReturn]] = {"_exit": os._exit, "abort": os.abort}


def keep_alive() -> None:
    """Have `os._exit` and `os.abort` raise `ExitedError` where code of others calls them in this process;
    what it forked ends as it will.
    """
    for name in _REAL:
        setattr(os, name, _instead(name, os.getpid()))


def _instead(name: str, process: int) -> Callable[..., NoReturn]:
    def end(*args: Any) -> NoReturn:
        if os.getpid() == process and _from_others(sys._getframe(1)):
            raise ExitedError(f"it called os.{name}({', '.join(map(repr, args))})")
        _REAL[name](*args)

    return end


def _from_others(frame: FrameType | None) -> bool:
    while frame is not None:
        own = str(frame.f_globals.get("__name__")).startswith(_PREFIX)
        if own or frame.f_code is call.__code__:
            return True
        frame = frame.f_back
    return False
