"""The files of a bundle, in a folder or a zip: bounded, and inside."""

import io
import lzma
import stat
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from trials.common.errors import UserError
from trials.common.files import plain

BYTES = 2**28
"""What a bundle may hold at most, unpacked."""
FILES = 20_000
NAME = 1000
"""The characters of the longest path of a file in a bundle."""
_UNREADABLE = (
    *(OSError, RuntimeError, NotImplementedError, EOFError, ValueError),
    *(zlib.error, lzma.LZMAError),
)
"""What archives that are damaged, encrypted or packed otherwise raise."""


def read_files(path: Path) -> dict[str, bytes]:
    """All files of a folder or a zip, by their paths in it. Raises `UserError` for paths that lead outside,
    links, more than `BYTES` or `FILES`, and what cannot be read.
    """
    try:
        if path.is_dir():
            return _all(path, _of_folder(path))
        with zipfile.ZipFile(plain(path, "bundle")) as archive:
            return _all(path, _of_zip(path, archive))
    except UserError:
        raise
    except _UNREADABLE as error:
        raise UserError(f"bundle {path} cannot be read: {error}") from None
    except zipfile.BadZipFile as error:
        raise UserError(f"bundle {path} is not a readable zip: {error}") from None


def zipped(files: Mapping[str, bytes], sign: str) -> bytes:
    """Files as a zip, whose comment is `sign`; the same bytes whenever it is made."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = sign.encode()
        for name in sorted(files):
            info = zipfile.ZipInfo(name)  # dated 1980
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, files[name])
    return packed.getvalue()


def _all(path: Path, found: Iterator[tuple[str, bytes]]) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    total = 0
    for name, content in found:
        if not name.isprintable() or len(name) > NAME:
            raise UserError(f"bundle {path}: no file of a bundle has the name {name[:80]!r}")
        if name in files:
            raise UserError(f"bundle {path}: {name!r} is there twice")
        files[name] = content
        total += len(content)
        if total > BYTES or len(files) > FILES:
            raise UserError(
                f"bundle {path} holds more than {BYTES:,} bytes or {FILES:,} files, which no bundle does"
            )
    return files


def _of_folder(path: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted(path.rglob("*")):
        if file.is_symlink():
            raise UserError(f"bundle {path}: {file.relative_to(path)} is a link")
        if not file.is_dir():
            with plain(file, "file of a bundle").open("rb") as opened:
                yield file.relative_to(path).as_posix(), opened.read(BYTES + 1)


def _of_zip(path: Path, archive: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    for info in archive.infolist():
        name = PurePosixPath(info.filename)
        odd = not name.parts or ".." in name.parts or set(info.filename) & set("\\\0")
        if odd or name.is_absolute():
            raise UserError(f"bundle {path}: {info.filename!r} leads outside of it")
        if stat.S_ISLNK(info.external_attr >> 16):
            raise UserError(f"bundle {path}: {info.filename} is a link")
        if not info.is_dir():
            with archive.open(info) as opened:
                yield info.filename, opened.read(BYTES + 1)
