"""What is compiled is kept on disk, and gives the same bits when it comes from there."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support.simulations import ROOT, finish, partitioned, settings, simulation
from trials.algorithms import ALGORITHMS

numba = pytest.importorskip("numba")
KERNELS = ["_outputs", "_gradients", "_add", "_shift", "_sgd"]
SCRIPT = """
import hashlib, json
import numpy as np
from trials.engine import compiled
draw, bits = np.random.default_rng(0), hashlib.sha256()
for inputs, outputs, batch, pull, shifted in ((64, 10, 10, 0.0, 0), (17, 7, 5, 0.01, 0), (64, 10, 3, 0.01, 1)):
    k, d, f = 3, outputs * (inputs + 1), np.float32
    x, y = draw.normal(size=(50, inputs)).astype(f), draw.integers(0, outputs, 50)
    w = draw.normal(size=(k, d)).astype(f)
    samples, weight = draw.integers(0, 50, (k, 4, batch)), np.full((k, 4, batch), 1 / batch, f)
    steps = compiled.Steps(samples, weight, np.zeros(k, int), np.full(k, 4), np.full((1, 1), 0.1, f))
    shift = draw.normal(size=(k * shifted, d * shifted)).astype(f)
    rule = compiled.Rule(np.ones(k, f), np.full(k, pull, f), shift, 0.0, np.empty((0, 0), f))
    loss = compiled.sgd(w, compiled.CompiledSamples(x, y, compiled.SOFTMAX), steps, rule)
    bits.update(w.tobytes() + np.float64(loss).tobytes())
kernels = [getattr(compiled, name) for name in KERNELS]
found = [(k.stats.cache_hits.total(), k.stats.cache_misses.total()) for k in kernels]
print(json.dumps([bits.hexdigest(), found, [len(k.signatures) for k in kernels]]))
""".replace("KERNELS", str(KERNELS))


def in_a_process(folder: Path) -> tuple[str, list[list[int]], list[int]]:
    """The bits of three descents, what came from disk and what was compiled, and the types of each kernel."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    bits, found, types = json.loads(done.stdout)
    return bits, found, types


def test_what_comes_from_disk_gives_the_bits_of_what_was_just_compiled(tmp_path: Path) -> None:
    compiled, made, types = in_a_process(tmp_path)
    assert made == [[0, 1]] * len(KERNELS)
    assert types == [1] * len(KERNELS), "else some are not there before the loop that calls them"
    loaded, read, _ = in_a_process(tmp_path)
    assert read == [[1, 0]] * len(KERNELS)
    assert loaded == compiled
    later = pickle.dumps(numba.__version__) + b"ctrials.compiled\nGone\n."
    for broken in (
        b"",
        later,
    ):  # a crash of the machine cuts files off; an update takes classes away
        for index in tmp_path.rglob("*._add-*.nbi"):
            index.write_bytes(broken)
        again, mended, _ = in_a_process(tmp_path)
        assert again == compiled
        assert [misses for _, misses in mended] == [1] * len(KERNELS), "all of it is of one process"


def test_a_disk_that_is_full_keeps_nothing_and_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trials.engine import compiled

    def kept(*_: object) -> None:
        raise OSError("No space left on device")

    @numba.njit
    def twice(x: float) -> float:
        return 2 * x

    twice.enable_caching()
    monkeypatch.setattr(twice._cache, "save_overload", kept)
    with pytest.raises(OSError, match="No space"):
        twice(1.0)
    assert twice(1.0) == 2.0, "which `_ready` relies on"
    assert compiled._ready(np.dtype("f4"), np.dtype("i8")) is None


def test_marks_of_epochs_ask_for_no_loop_of_another_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Strided ends of steps are another type: seconds to compile, outside of the lock and not ahead."""
    from trials.engine import compiled

    sgd, ends = compiled.sgd, []

    def noted(w: object, of: object, steps: compiled.Steps, rule: object) -> float:
        ends.extend([steps.first, steps.last])
        return sgd(w, of, steps, rule)

    monkeypatch.setattr(compiled, "sgd", noted)
    common = settings(rounds=1, local_steps=None, local_epochs=3, batch_size=4)
    run = finish(simulation(ALGORITHMS["fedagg"](), partitioned([9, 6, 8]), common))
    assert run.fed.execution == "compiled"
    assert len(ends) > 6
    assert all(end.flags.c_contiguous for end in ends)
