"""A trial's checkpoint: one file, replaced whole, that says by itself whether it is sound.

Named by an absolute path or by a URI that pyarrow knows (`s3://`, `gs://`, `hdfs://`): any place that
all machines of a cluster can reach.
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

SPARING = 20  # a checkpoint's cost in time is at most one part in so many


class StorageError(Exception):
    """A checkpoint that cannot be written or read, or is damaged. The trial is not to blame."""


class Checkpoint:
    """The state of one trial; at most one file, and for the moment of a write a second one.

    A file is a CRC-32 (4 bytes, big-endian) and what `torch.save` makes of the state, read with `weights_only`. It is `due`
    `seconds` after the start or the last write, and writing takes at most a twentieth of the time.
    """

    def __init__(self, place: str, seconds: float = 60.0) -> None:
        self.place, self.seconds = place, seconds
        self._system, path = fs.FileSystem.from_uri(place)
        self._path = PurePosixPath(path)
        self._last, self._cost = time.monotonic(), 0.0

    @property
    def due(self) -> bool:
        """Return whether it is time to write a checkpoint."""
        return time.monotonic() - self._last > max(self.seconds, SPARING * self._cost)

    def save(self, state: dict[str, Any]) -> None:
        """Replace the file; raise `StorageError` when the storage does not take it."""
        # In memory first: what torch writes is hashed before it goes to the storage.
        started, buffer = time.monotonic(), io.BytesIO()
        torch.save(state, buffer)
        body = buffer.getbuffer()
        fresh = str(self._path.with_name(f"{self._path.name}.{uuid.uuid4().hex[:8]}.part"))
        try:
            self._system.create_dir(str(self._path.parent), recursive=True)
            with self._system.open_output_stream(fresh) as out:
                out.write(zlib.crc32(body).to_bytes(4, "big"))
                out.write(body)
            if isinstance(self._system, fs.LocalFileSystem):
                with open(fresh) as written:
                    os.fsync(written.fileno())
            self._system.move(fresh, str(self._path))
        except OSError as error:
            with suppress(OSError):
                self._system.delete_file(fresh)
            raise StorageError(f"checkpoint {self.place} cannot be written: {error}") from None
        self._last = time.monotonic()
        self._cost = self._last - started

    def load(self) -> dict[str, Any] | None:
        """Return the state; None where there is no file. Raise `StorageError` where it cannot be read, or is damaged: set aside."""
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
            raise StorageError(f"checkpoint {self.place} cannot be read: {error}") from None
        damage = f"is damaged ({len(content)} bytes with a wrong checksum). It is now {aside.name}"
        again = "when the sweep is resumed, this trial starts from round 0"
        raise StorageError(f"checkpoint {self.place} {damage}; {again}")

    def delete(self) -> None:
        """Remove the file, if it is there and can be removed."""
        with suppress(OSError):
            self._system.delete_file(str(self._path))


class CheckpointFolder:
    """A folder of checkpoints by path or URI, perhaps with other files. Raises `UserError` where pyarrow cannot open it."""

    def __init__(self, place: str) -> None:
        try:
            self._system, self._path = fs.FileSystem.from_uri(place)
        except (OSError, ValueError, TypeError) as error:
            raise UserError(f"checkpoints in {place}: {error}") from None
        self.place = place

    def make(self) -> None:
        """Make the folder and write a test file in it. Raises `UserError` where this fails."""
        probe = str(PurePosixPath(self._path, ".suite-sweep"))
        try:
            self._system.create_dir(self._path, recursive=True)
            self._system.open_output_stream(probe).close()
            self._system.delete_file(probe)
        except OSError as error:
            raise UserError(f"checkpoints in {self.place} cannot be written: {error}") from None

    def clear(self, trial_ids: Container[str]) -> None:
        """Remove the files of these trials, then the folder if it is empty; what cannot be removed stays."""
        with suppress(OSError):
            for file in self._system.get_file_info(
                fs.FileSelector(self._path, allow_not_found=True)
            ):
                trial_id, mark, _ = file.base_name.partition(".pt")
                if mark and trial_id in trial_ids:
                    self._system.delete_file(file.path)
            if isinstance(self._system, fs.LocalFileSystem):
                os.rmdir(self._path)
