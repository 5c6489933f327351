"""A trial's checkpoint: one file, which is replaced as a whole and holds a checksum of its content.

Its name is an absolute path or a URI that pyarrow knows (`s3://`, `gs://`, `hdfs://`), so that all machines of a cluster
can reach it.
"""

import io
import os
import time
import uuid
import zlib
from collections.abc import Container
from contextlib import suppress
from pathlib import PurePosixPath
from typing import Any

from trials.common.errors import UserError
from trials.common.lazy import Lazy
from trials.common.tensors import torch

fs: Any = Lazy("pyarrow.fs")

SPARING = 20  # writing checkpoints takes at most 1/20 of the time


class StorageError(Exception):
    """A checkpoint that cannot be written or read, or is damaged: a fault of the storage, not of the trial."""


class Checkpoint:
    """The checkpoint file of one trial, at a path or URI.

    The file holds a CRC-32 (4 bytes, big-endian) and then the state, as `torch.save` writes it. It is read with
    `weights_only`, so that no code runs. `seconds` is the least time between writes.
    """

    def __init__(self, location: str, seconds: float = 60.0) -> None:
        self.location, self.seconds = location, seconds
        self._system, path = fs.FileSystem.from_uri(location)
        self._path = PurePosixPath(path)
        self._last, self._cost = time.monotonic(), 0.0

    @property
    def due(self) -> bool:
        """Return whether the next write is due. Writes are at least `seconds` apart, and take at most 1/20 of the time."""
        return time.monotonic() - self._last > max(self.seconds, SPARING * self._cost)

    def save(self, state: dict[str, Any]) -> None:
        """Save the state to a new file, which then replaces the old file. Raise `StorageError` if the storage fails."""
        # In memory first, since the checksum stands before the content.
        started, buffer = time.monotonic(), io.BytesIO()
        torch.save(state, buffer)
        body = buffer.getbuffer()
        part = str(self._path.with_name(f"{self._path.name}.{uuid.uuid4().hex[:8]}.part"))
        try:
            self._system.create_dir(str(self._path.parent), recursive=True)
            with self._system.open_output_stream(part) as out:
                out.write(zlib.crc32(body).to_bytes(4, "big"))
                out.write(body)
            if isinstance(self._system, fs.LocalFileSystem):
                with open(part) as written:
                    os.fsync(written.fileno())
            self._system.move(part, str(self._path))
        except OSError as error:
            with suppress(OSError):
                self._system.delete_file(part)
            raise StorageError(f"checkpoint {self.location} cannot be written: {error}") from None
        self._last = time.monotonic()
        self._cost = self._last - started

    def load(self) -> dict[str, Any] | None:
        """Return the saved state, or None if there is no file. Raise `StorageError` if the file cannot be read or is
        damaged. A damaged file gets the ending `.damaged`.
        """
        try:
            with self._system.open_input_stream(str(self._path)) as file:
                content = file.read()
            body = memoryview(content)[4:]
            if len(content) >= 4 and zlib.crc32(body) == int.from_bytes(content[:4], "big"):
                return dict(torch.load(io.BytesIO(body), weights_only=True, map_location="cpu"))
            aside = self._path.with_name(f"{self._path.name}.damaged")
            self._system.move(str(self._path), str(aside))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(f"checkpoint {self.location} cannot be read: {error}") from None
        damage = f"is damaged ({len(content)} bytes with a wrong checksum). It is now {aside.name}"
        again = "when the sweep is resumed, this trial starts from round 0"
        raise StorageError(f"checkpoint {self.location} {damage}; {again}")

    def delete(self) -> None:
        """Delete the checkpoint file. Ignore a missing file and errors of the storage."""
        with suppress(OSError):
            self._system.delete_file(str(self._path))


class CheckpointFolder:
    """The folder of a sweep's checkpoints, at a path or URI. Raise `UserError` if pyarrow cannot open its file system."""

    def __init__(self, location: str) -> None:
        try:
            self._system, self._path = fs.FileSystem.from_uri(location)
        except (OSError, ValueError, TypeError) as error:
            raise UserError(f"checkpoints in {location}: {error}") from None
        self.location = location

    def make(self) -> None:
        """Create the folder, and write and delete a test file there. Raise `UserError` if this fails."""
        probe = str(PurePosixPath(self._path, ".suite-sweep"))
        try:
            self._system.create_dir(self._path, recursive=True)
            self._system.open_output_stream(probe).close()
            self._system.delete_file(probe)
        except OSError as error:
            raise UserError(f"checkpoints in {self.location} cannot be written: {error}") from None

    def clear(self, trial_ids: Container[str]) -> None:
        """Delete the checkpoints of these trials, and then the folder if it is local and empty. Ignore errors of the storage."""
        with suppress(OSError):
            for file in self._system.get_file_info(
                fs.FileSelector(self._path, allow_not_found=True)
            ):
                trial_id, mark, _ = file.base_name.partition(".pt")
                if mark and trial_id in trial_ids:
                    self._system.delete_file(file.path)
            if isinstance(self._system, fs.LocalFileSystem):
                os.rmdir(self._path)
