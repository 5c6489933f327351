"""Small files in the formats of the published data sets."""

import gzip
import hashlib
import json
import pickle
import wave
from pathlib import Path

import numpy as np

from trials.datasets.base import Published


def idx_bytes(array: np.ndarray) -> bytes:
    """LeCun's format: two zero bytes, 8 for bytes, the number of dimensions, big-endian sizes."""
    head = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    return head + array.astype(np.uint8).tobytes()


def write(path: Path, data: bytes) -> str:
    """Write a file; its md5."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return hashlib.md5(data).hexdigest()


def image_set(
    seed: int, train: int, test: int, labels: np.ndarray | None = None
) -> list[np.ndarray]:
    """Training images 28x28, their labels, and the same for test; labels 0..9 in turn."""
    rng = np.random.default_rng(seed)
    arrays = []
    for n in (train, test):
        arrays.append(rng.integers(0, 256, (n, 28, 28)))
        arrays.append(np.resize(np.arange(10) if labels is None else labels, n))
    return arrays


def mnist_files(root: Path, cls: type, arrays: list[np.ndarray]) -> tuple[Published, ...]:
    """The four files, gzipped, below `root`, with the checksums of their content."""
    files = []
    for published, array in zip(cls.published, arrays, strict=True):
        data = idx_bytes(array)
        write(root / f"{published.path}.gz", gzip.compress(data, mtime=0))
        files.append(Published(published.path, hashlib.md5(data).hexdigest(), published.url))
    return tuple(files)


def cifar_batch(seed: int, n: int, key: str, classes: int) -> tuple[bytes, np.ndarray, np.ndarray]:
    """A pickled batch as its authors wrote them, its images (n, 3072) and labels."""
    rng = np.random.default_rng(seed)
    data = rng.integers(0, 256, (n, 3072)).astype(np.uint8)
    labels = rng.integers(0, classes, n)
    return pickle.dumps({"data": data, key: labels.tolist()}, protocol=2), data, labels


def leaf_json(root: Path, name: str, part: str, users: dict[str, tuple[list, list]]) -> Path:
    """A LEAF file with these users' (x, y)."""
    content = {
        "users": list(users),
        "num_samples": [len(y) for _, y in users.values()],
        "user_data": {user: {"x": x, "y": y} for user, (x, y) in users.items()},
    }
    path = root / name / part / "all_data_0.json"
    write(path, json.dumps(content).encode())
    return path


def wav(path: Path, sound: np.ndarray, rate: int = 16000, channels: int = 1) -> None:
    """16-bit PCM of sound in [-1, 1)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((sound * 32768).astype("<i2").tobytes())
