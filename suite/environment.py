"""Variables of the environment, changed for a while only: the process may be a person's notebook."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept(*beginnings: str) -> Iterator[None]:
    """In the end the variables whose names begin so are as they were, whatever set them."""
    before = {name: value for name, value in os.environ.items() if name.startswith(beginnings)}
    try:
        yield
    finally:
        for name in [name for name in os.environ if name.startswith(beginnings)]:
            if name not in before:
                del os.environ[name]
        os.environ.update(before)


def default(**values: str) -> None:
    """Set the variables that are not set."""
    for name, value in values.items():
        os.environ.setdefault(name, value)
