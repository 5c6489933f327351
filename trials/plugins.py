"""What is imported from a file that a person names, and how that file is told from the project's own."""

import linecache
import traceback
import zlib

_PREFIX = "suite_"


def module_name(kind: str, path: str) -> str:
    """The name under which a file is imported, once a process."""
    return f"{_PREFIX}{kind}_{zlib.crc32(path.encode()):08x}"


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
