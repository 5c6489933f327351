"""Environment variables that are changed only for a while, since the process may be a person's notebook."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept(*beginnings: str, **defaults: str) -> Iterator[None]:
    """Set environment variables to `defaults` unless they are set. On exit restore all variables whose names start with one of `beginnings`."""
    before = {name: value for name, value in os.environ.items() if name.startswith(beginnings)}
    try:
        for name, value in defaults.items():
            os.environ.setdefault(name, value)
        yield
    finally:
        for name in [name for name in os.environ if name.startswith(beginnings)]:
            if name not in before:
                del os.environ[name]
        os.environ.update(before)
