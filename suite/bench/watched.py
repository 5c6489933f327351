"""`suite bench watch`: what it costs a sweep to be watched, in pairs of sweeps run one after the other."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from statistics import median
from typing import Any

from trials.errors import UserError

_SUITE = (sys.executable, "-c", "from suite.cli.app import main; main()")


def watched(study: str, pairs: int) -> dict[str, Any]:
    """The seconds of sweeps of the study alone and watched, in turns, and the median of their ratios; with
    the processor's seconds that the watching server took. Raises `UserError` when a sweep fails.
    """
    folder = Path(tempfile.mkdtemp(prefix="suite-bench-"))
    found = []
    try:
        for number in range(pairs):
            order = (False, True) if number % 2 == 0 else (True, False)
            took = {seen: _sweep(study, folder / f"{number}-{seen}", seen) for seen in order}
            (alone, _), (seen, processor) = took[False], took[True]
            found.append(
                {
                    "alone": round(alone, 2),
                    "watched": round(seen, 2),
                    "ratio": round(seen / alone, 4),
                    "server_processor_seconds": round(processor, 2),
                }
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ratio = median(pair["ratio"] for pair in found)
    return {"study": study, "cores": os.cpu_count(), "ratio": ratio, "pairs": found}


def _sweep(study: str, storage: Path, seen: bool) -> tuple[float, float]:
    """Seconds of a sweep, and the processor's of the server that a page asks meanwhile."""
    place = ("--storage", str(storage), "--name", "measured")
    quiet = subprocess.DEVNULL
    started = time.perf_counter()
    sweep = subprocess.Popen((*_SUITE, "sweep", study, *place), stdout=quiet, stderr=quiet)
    processor: list[float] = []

    def watch() -> None:
        processor.append(_page(storage, sweep))

    page = threading.Thread(target=watch if seen else lambda: None)
    page.start()
    code = sweep.wait()
    seconds = time.perf_counter() - started
    page.join()
    if code:
        raise UserError(f"the sweep of {study} to be measured failed with exit code {code}")
    return seconds, sum(processor)


def _page(storage: Path, sweep: "subprocess.Popen[bytes]") -> float:
    """Ask for a sweep's page as a browser does until it is over; the processor's seconds of the server."""
    while not (storage / "measured" / "journal.jsonl").exists() and sweep.poll() is None:
        time.sleep(0.1)
    command = (*_SUITE, "watch", "measured", "--storage", str(storage))
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    said = re.search(r"http://\S+", server.stderr.readline())
    pause = 1.0
    while said and sweep.poll() is None:
        with urllib.request.urlopen(f"{said[0]}/parts", timeout=60) as answer:
            pause = max(1.0, 50 * float(answer.headers["X-Seconds"]))
        time.sleep(pause)
    server.terminate()
    _, _, usage = os.wait4(server.pid, 0)
    server.returncode = 0
    return usage.ru_utime + usage.ru_stime
