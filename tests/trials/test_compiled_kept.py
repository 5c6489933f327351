"""What is compiled is kept on disk, and gives the same bits when it comes from there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.simulations import ROOT

pytest.importorskip("numba")
SCRIPT = """
import json
from tests.support import simulations
from trials.engine import compiled
bits, stats = simulations.linear_digest(), compiled._sgd.stats
print(json.dumps([bits, stats.cache_hits.total(), stats.cache_misses.total(), len(compiled._sgd.signatures)]))
"""


def in_a_process(folder: Path) -> list[object]:
    """The bits of a run, how much came from disk and was compiled, and for how many types."""
    env = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


def test_what_comes_from_disk_gives_the_bits_of_what_was_just_compiled(tmp_path: Path) -> None:
    bits, *made = in_a_process(tmp_path)
    assert made == [0, 1, 1]
    assert in_a_process(tmp_path) == [bits, 1, 0, 1]
    for index in tmp_path.rglob("*._sgd-*.nbi"):  # as a crash of the machine cuts files off
        index.write_bytes(b"")
    assert in_a_process(tmp_path)[0] == bits
