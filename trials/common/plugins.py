"""Third-party code that is loaded by name: `FILE.py:Name`, `FILE.py:Name(ARGUMENTS)` or `module:function`.

Records hold the SHA-256 of its file. Its exceptions are shown with the traceback frames of such files only.
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
_ran: dict[str, bytes] = {}  # the content of each file when it last ran in this process, by module
_settled: set[str] = set()  # modules not to run again: sent by a machine, or run in this command
_in_command = False


@contextmanager
def one_command() -> Iterator[None]:
    """Run each third-party file at most once within the block, even if a user edits the file meanwhile."""
    global _in_command
    before, _in_command = set(_settled), True
    try:
        yield
    finally:
        _in_command = False
        _settled.intersection_update(before)


def named(text: str) -> bool:
    """Return whether a text names third-party code, such as `FILE.py:Name` or `module:function`."""
    return _NAME.fullmatch(text) is not None


def _source(text: str) -> str:
    """Return the file or module in the name of third-party code: `FILE.py` for `FILE.py:Name(ARGUMENTS)`."""
    match = _NAME.fullmatch(text)
    return (match[1] if match else text).rpartition(":")[0]


def file_of(text: str) -> Path | None:
    """Return the file of the code that a name such as `FILE.py:make` or `module:make` stands for. The file is not run. Return None
    for a module that has no file, such as `sys`, or is not found. Raise `UserError` if the path in a name leads to no file.
    """
    source = _source(text)
    if source.endswith(".py"):
        return plain(resolved(source, "file of code"), "file of code")
    path, spec = None, None
    for name in accumulate(source.split("."), "{}.{}".format):
        if (spec := PathFinder.find_spec(name, path)) is None:
            return None
        path = spec.submodule_search_locations
    return Path(spec.origin) if spec and spec.has_location and spec.origin else None


def _sha256(text: str, content: bytes | None = None) -> str:
    """Return the SHA-256 of `content`. By default hash the file of the code named `text`, or the module's name if there is no file."""
    if content is None:
        file = file_of(text)
        content = _source(text).encode() if file is None else file.read_bytes()
    return hashlib.sha256(content).hexdigest()


def hashes(*names: str) -> dict[str, str]:
    """Return the SHA-256 of each of the algorithms, models, ... in `names` that is third-party code. Hash a file's content as it ran."""
    ran = {name: _ran.get(module_name(_source(name))) for name in filter(named, names)}
    return {name: _sha256(name, content) for name, content in ran.items()}


def refuse_changed(recorded: Mapping[str, str | None], source: str) -> None:
    """Raise `UserError` if code no longer has its recorded SHA-256. `recorded` is keyed by name; the message begins with `source`."""
    for name, former in recorded.items():
        if (current := _sha256(name)) != former:
            changed = f"{name} has changed since: SHA-256 was {former} and is {current}"
            raise UserError(f"{source}: {changed}. Put the former file back, or begin anew")


def imported(text: str, what: str) -> ModuleType:
    """Import and return the module that a name such as `FILE.py:make` refers to. Raise `UserError` if the import fails."""
    source = text.rpartition(":")[0]
    if not source.endswith(".py"):
        return tried(f"{what} {text}: {source}", partial(importlib.import_module, source))
    name = module_name(source)
    if name in _settled:
        return sys.modules[name]
    content = plain(Path(source), f"{what} file").read_bytes()
    if name not in sys.modules or _ran.get(name) != content:
        tried(f"{what} file {source}", partial(_run, source, content))
    if _in_command:
        _settled.add(name)
    return sys.modules[name]


def _run(path: str, content: bytes) -> None:
    """Run a file's content as a module. The code can import modules from the file's folder, as with `python FILE.py`."""
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
        if folder not in sys.path:  # at the end, so that it hides no module that is imported later
            sys.path.append(folder)
    _ran[name] = content


def function(text: str, what: str) -> Any:
    """Return the callable that a name such as `FILE.py:make` stands for. Raise `UserError` if it cannot be loaded."""
    source, _, name = text.rpartition(":")
    module = imported(text, what)
    value = getattr(module, name, None)
    if not callable(value):
        names = [key for key, other in vars(module).items() if callable(other) and key[0] != "_"]
        raise unknown(f"function in {source}:", name, names)
    return value


def sources(texts: Iterable[str]) -> dict[str, bytes]:
    """Return the contents of the `.py` files in names such as `FILE.py:make`, keyed by path."""
    contents = {}
    for text in texts:
        if named(text) and ".py:" in text:
            file = str(file_of(text))
            # The content that ran, since the user may have edited the file meanwhile.
            contents[file] = _ran.get(module_name(file)) or Path(file).read_bytes()
    return contents


def supply(path: str, content: bytes) -> None:
    """Run the content of a file as a module, unless the module is loaded. The file need not exist on this machine."""
    if module_name(path) not in sys.modules:
        with contained():
            _run(path, content)
        _settled.add(module_name(path))


def module_name(path: str) -> str:
    """Return the module name under which a file is imported."""
    return f"{_PREFIX}{zlib.crc32(path.encode()):08x}"


@contextmanager
def contained() -> Iterator[None]:
    """Turn `SystemExit` or `StopIteration` in the block into `RuntimeError`. They would otherwise end the process or a loop."""
    try:
        yield
    except BaseException as exc:
        if isinstance(exc, Exception | KeyboardInterrupt) and not isinstance(exc, StopIteration):
            raise
        harmless = RuntimeError(f"it raised {type(exc).__name__}({_text(exc)})")
        raise harmless.with_traceback(exc.__traceback__) from None


def tried(what: str, function: Callable[[], T]) -> T:
    """Call a third party's function and return the result. Turn an exception into a `UserError` whose message begins with `what`."""
    try:
        with contained():
            return function()
    except UserError:
        raise
    except Exception as error:
        frames = _third_party_frames(error)
        line = f", line {frames[-1].lineno}" if frames else ""
        text = shorten(_text(error), 400)
        raise UserError(f"{what} raised {type(error).__name__}: {text}{line}") from error


def hook(owner: object, name: str, kind: Any, *arguments: Any) -> Any:
    """Call the method `name` of a third party's object, and return the result. Raise `UserError` if the result is not of type `kind`."""
    with contained():
        result = getattr(owner, name)(*arguments)
    if not isinstance(result, kind):
        kinds = getattr(kind, "__name__", str(kind))
        raise UserError(f"{written(owner)}.{name}() gives {type(result).__name__}, not {kinds}")
    return result


def written(owner: object) -> str:
    """Return where an object's class is defined, as `FILE.py: Class` or `module: Class`."""
    cls = type(owner)
    file = getattr(sys.modules.get(cls.__module__), "__file__", None) or cls.__module__
    return f"{file}: {cls.__name__}"


def failure(error: BaseException) -> str | None:
    """Return an error's message with its traceback in third-party files. Return None if no such file is in the traceback."""
    if not (frames := _third_party_frames(error)):
        return None
    first = f"{frames[-1].filename} failed: {type(error).__name__}: {_text(error)}\n"
    return "".join([first, *traceback.format_list(frames)]).rstrip()


def _third_party_frames(error: BaseException) -> list[traceback.FrameSummary]:
    frames = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        if str(frame.f_globals.get("__name__")).startswith(_PREFIX):
            frames.append((frame, line))
    return list(traceback.StackSummary.extract(iter(frames)))


def _text(error: BaseException) -> str:
    """Return an exception's text, or a substitute if its `__str__` raises."""
    try:
        return str(error)
    except Exception:
        return "(its text raises, too)"
