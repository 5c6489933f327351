"""Third-party code that a name brings in: `FILE.py:Name`, `FILE.py:Name(ARGUMENTS)`, `module:function`. Records hold the
SHA-256 of its file. Its exceptions are shown with its own frames only.
"""

import hashlib
import importlib
import re
import sys
import traceback
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.machinery import PathFinder
from itertools import accumulate
from pathlib import Path
from textwrap import shorten
from types import ModuleType
from typing import Any, TypeVar

from trials.common.errors import UserError, unknown
from trials.common.files import plain, resolved

T = TypeVar("T")
_PREFIX = "suite_"
_NAME = re.compile(r"((?:.+\.py|[A-Za-z_][\w.]*):[A-Za-z_]\w*)\s*(?:\(.*\))?(?:\?.*)?", re.DOTALL)
_ran: dict[str, bytes] = {}  # what files held when they ran in this process, by their modules
_settled: set[str] = set()  # whose files are not read again: they were sent, or ran in this command
_in_command = False


@contextmanager
def one_command() -> Iterator[None]:
    """Run each file at most once: a person may edit it while a sweep goes on."""
    global _in_command
    before, _in_command = set(_settled), True
    try:
        yield
    finally:
        _in_command = False
        _settled.intersection_update(before)


def named(text: str) -> bool:
    """Return whether a name brings in third-party code."""
    return _NAME.fullmatch(text) is not None


def _place(text: str) -> str:
    """Return what stands before the last colon of a name: a file, or a module."""
    match = _NAME.fullmatch(text)
    return (match[1] if match else text).rpartition(":")[0]


def file_of(text: str) -> Path | None:
    """Return the file of the code that a name brings in; None for a module that comes with Python. Nothing runs. Raises
    `UserError` where the file is not there.
    """
    place = _place(text)
    if place.endswith(".py"):
        return plain(resolved(place, "file of code"), "file of code")
    path, spec = None, None
    for name in accumulate(place.split("."), "{}.{}".format):
        if (spec := PathFinder.find_spec(name, path)) is None:
            return None
        path = spec.submodule_search_locations
    return Path(spec.origin) if spec and spec.has_location and spec.origin else None


def _sha256(text: str, content: bytes | None = None) -> str:
    """Return the hash of a content, by default that of the name's file now. A part of Python has the hash of its name."""
    if content is None:
        file = file_of(text)
        content = _place(text).encode() if file is None else file.read_bytes()
    return hashlib.sha256(content).hexdigest()


def hashes(*names: str) -> dict[str, str]:
    """Return the SHA-256 of the code that each name brings in, without names that bring in none; of a file as it ran here."""
    ran = {name: _ran.get(module_name(_place(name))) for name in filter(named, names)}
    return {name: _sha256(name, content) for name, content in ran.items()}


def refuse_changed(recorded: Mapping[str, str | None], source: str) -> None:
    """Raise `UserError` where the code that a name brings in has another SHA-256 than `recorded`."""
    for name, before in recorded.items():
        if (now := _sha256(name)) != before:
            changed = f"{name} has changed since: SHA-256 was {before} and is {now}"
            raise UserError(f"{source}: {changed}. Put the former file back, or begin anew")


def imported(text: str, what: str) -> ModuleType:
    """Return the module that a name brings in; a file that has changed since runs again. Raises `UserError` where
    importing fails.
    """
    place = text.rpartition(":")[0]
    if not place.endswith(".py"):
        return tried(f"{what} {text}: {place}", partial(importlib.import_module, place))
    name = module_name(place)
    if name in _settled:
        return sys.modules[name]
    content = plain(Path(place), f"{what} file").read_bytes()
    if name not in sys.modules or _ran.get(name) != content:
        tried(f"{what} file {place}", partial(_run, place, content))
    if _in_command:
        _settled.add(name)
    return sys.modules[name]


def _run(path: str, content: bytes) -> None:
    """Make a module of a file's content, which is what is hashed; modules beside it are found as with `python FILE.py`."""
    name, folder = module_name(path), str(Path(path).parent)
    module = sys.modules[name] = ModuleType(name)
    module.__file__ = path
    sys.path.insert(0, folder)
    try:
        exec(compile(content, path, "exec", dont_inherit=True), module.__dict__)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(folder)
        if folder not in sys.path:  # last, so that it hides nothing that others import later
            sys.path.append(folder)
    _ran[name] = content


def function(text: str, what: str) -> Any:
    """Return the callable that a name stands for. Raises `UserError` where there is none."""
    place, _, name = text.rpartition(":")
    module = imported(text, what)
    value = getattr(module, name, None)
    if not callable(value):
        names = [key for key, other in vars(module).items() if callable(other) and key[0] != "_"]
        raise unknown(f"function in {place}:", name, names)
    return value


def sources(texts: Iterable[str]) -> dict[str, bytes]:
    """Return the content of each file that one of these names brings in, by its path."""
    contents = {}
    for text in texts:
        if named(text) and ".py:" in text:
            file = str(file_of(text))
            # As it ran: the person may have edited it since.
            contents[file] = _ran.get(module_name(file)) or Path(file).read_bytes()
    return contents


def supply(path: str, content: bytes) -> None:
    """Import a file from its content, for a machine that may not have the file."""
    if module_name(path) not in sys.modules:
        with contained():
            _run(path, content)
        _settled.add(module_name(path))


def module_name(path: str) -> str:
    """Return the name under which a file is imported."""
    return f"{_PREFIX}{zlib.crc32(path.encode()):08x}"


@contextmanager
def contained() -> Iterator[None]:
    """Turn exceptions that would end the process or its loop (`SystemExit`, `StopIteration`) into `RuntimeError`s, except Ctrl-C's."""
    try:
        yield
    except BaseException as end:
        if isinstance(end, Exception | KeyboardInterrupt) and not isinstance(end, StopIteration):
            raise
        exited = RuntimeError(f"it raised {type(end).__name__}({_text(end)})")
        raise exited.with_traceback(end.__traceback__) from None


def tried(what: str, function: Callable[[], T]) -> T:
    """Return what a third party's function returns. Any exception becomes a `UserError` that begins with `what`."""
    try:
        with contained():
            return function()
    except UserError:
        raise
    except Exception as error:
        frames = _own_frames(error)
        line = f", line {frames[-1].lineno}" if frames else ""
        text = shorten(_text(error), 400)
        raise UserError(f"{what} raised {type(error).__name__}: {text}{line}") from error


def hook(owner: object, name: str, kind: Any, *arguments: Any) -> Any:
    """Return what a method of a third party's class returns. Raises `UserError`, naming its file, unless it is a `kind`."""
    with contained():
        answer = getattr(owner, name)(*arguments)
    if not isinstance(answer, kind):
        kinds = getattr(kind, "__name__", str(kind))
        raise UserError(f"{written(owner)}.{name}() gives {type(answer).__name__}, not {kinds}")
    return answer


def written(owner: object) -> str:
    """Return where the class of an object is written, its file or else its module, and its name."""
    cls = type(owner)
    file = getattr(sys.modules.get(cls.__module__), "__file__", None) or cls.__module__
    return f"{file}: {cls.__name__}"


def failure(error: BaseException) -> str | None:
    """Return an error's message with the frames of files that a name brought in, and no others; None where it passed none."""
    if not (frames := _own_frames(error)):
        return None
    first = f"{frames[-1].filename} failed: {type(error).__name__}: {_text(error)}\n"
    return "".join([first, *traceback.format_list(frames)]).rstrip()


def _own_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Return a traceback's frames in files that a name brought in."""
    frames = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__")).startswith(_PREFIX):
            frames.append((frame, line))
    return list(traceback.StackSummary.extract(iter(frames)))


def _text(error: BaseException) -> str:
    """Return an exception's text. A third party's `__str__` may itself raise."""
    try:
        return str(error)
    except Exception:
        return "(its text raises, too)"
