"""Arrays that are dear to make, kept in a file that is used only while their sources stay the same."""

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from trials.datasets.base import Array, user_cache

Arrays = dict[str, Array]


def cached(place: Path, name: str, key: str, make: Callable[[], Arrays]) -> Arrays:
    """What `make` returns, or what it returned before for the same `key`, a checksum of all that
    decides it. `name` (.npz) lies in the folder `place`, or in the user's cache where that cannot be
    written to.

    A file with another key, cut off or damaged is made anew: nothing in it is run, an npz has a
    checksum of each array, and a reader never sees half of it.
    """
    paths = [folder / name for folder in (place, user_cache())]
    for path in paths:
        found = _read(path, key)
        if found is not None:
            return found
    made = make()
    for path in paths:
        if _written(path, key, made):
            break
    return made


def packed(x: Array) -> Array:
    """Numbers (...,) in the smallest of uint8 and uint16 that holds them exactly, else as they are."""
    for kind in (np.uint8, np.uint16):
        with np.errstate(invalid="ignore"):
            small = x.astype(kind)
        if np.array_equal(small, x):
            return small
    return x


def _read(path: Path, key: str) -> Arrays | None:
    try:
        with np.load(path, allow_pickle=False) as file:
            if str(file["key"]) == key:
                return {name: file[name] for name in file.files if name != "key"}
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile):
        pass
    return None


def _written(path: Path, key: str, arrays: Arrays) -> bool:
    """Whether the file could be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            try:
                np.savez(file, allow_pickle=False, key=np.array(key), **arrays)
                file.close()
                os.replace(file.name, path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(file.name)
                raise
    except OSError:
        return False
    return True
