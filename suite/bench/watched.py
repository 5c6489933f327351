"""`suite bench watch`: what it costs a sweep to be watched, in pairs of sweeps run one after the other."""

import http
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from suite.studies.study import read_study
from suite.tracking import on_its_own
from trials.errors import UserError
from trials.machine import usable_cpus

_SUITE = (sys.executable, "-c", "from suite.cli.app import main; main()")


def watched(study: str, pairs: int) -> dict[str, Any]:
    """The seconds of sweeps of the study alone and watched, in turns, and the median of their ratios; with
    what the watching took: see `Looks`. Raises `UserError` when a sweep fails, or there is no such study.
    """
    read_study(study, {})
    folder = Path(tempfile.mkdtemp(prefix="suite-bench-"))
    found = []
    try:
        for number in range(pairs):
            order = (False, True) if number % 2 == 0 else (True, False)
            took = {seen: _sweep(study, folder / f"{number}-{seen}", seen) for seen in order}
            (alone, _), (seen, looks) = took[False], took[True]
            found.append(
                {
                    "alone": round(alone, 2),
                    "watched": round(seen, 2),
                    "ratio": round(seen / alone, 4),
                    "server_processor_seconds": round(looks.processor, 2),
                    "looks": looks.looks,
                    "answers": looks.answers,
                    "megabytes": round(looks.sent_bytes / 1e6, 2),
                }
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ratio = median(pair["ratio"] for pair in found)
    return {"study": study, "cores": usable_cpus(), "ratio": ratio, "pairs": found}


@dataclass
class Looks:
    """What a page asked a server and was told: the processor's seconds that the server took, how often the
    page looked, how often there was something new, and the bytes of those answers.
    """

    processor: float = 0.0
    looks: int = 0
    answers: int = 0
    sent_bytes: int = 0


def _sweep(study: str, storage: Path, seen: bool) -> tuple[float, Looks]:
    """Seconds of a sweep, and what a page asks meanwhile."""
    place = ("--storage", str(storage), "--name", "measured")
    quiet = subprocess.DEVNULL
    started = time.perf_counter()
    sweep = subprocess.Popen(
        (*_SUITE, "sweep", study, *place), stdout=quiet, stderr=quiet, env=on_its_own()
    )
    looks = Looks()
    page = threading.Thread(target=_page if seen else lambda *_: None, args=(storage, sweep, looks))
    page.start()
    code = sweep.wait()
    seconds = time.perf_counter() - started
    page.join()
    if code:
        raise UserError(f"the sweep of {study} to be measured failed with exit code {code}")
    return seconds, looks


def _page(storage: Path, sweep: "subprocess.Popen[bytes]", looks: Looks) -> None:
    """Ask for a sweep's page as a browser does until it is over."""
    while not (storage / "measured" / "journal.jsonl").exists() and sweep.poll() is None:
        time.sleep(0.1)
    command = (*_SUITE, "watch", "measured", "--storage", str(storage))
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=on_its_own())
    assert server.stderr is not None
    said = re.search(r"http://[^\s?]+", server.stderr.readline())
    pause, etag = 1.0, ""
    while said and sweep.poll() is None:
        looks.looks += 1
        request = urllib.request.Request(f"{said[0]}/parts", headers={"If-None-Match": etag})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                looks.answers += 1
                looks.sent_bytes += len(answer.read())
                etag = answer.headers["ETag"]
                pause = max(1.0, 50 * float(answer.headers["X-Seconds"]))
        except urllib.error.HTTPError as error:
            if error.code != http.HTTPStatus.NOT_MODIFIED:
                raise
        time.sleep(pause)
    server.terminate()
    _, _, usage = os.wait4(server.pid, 0)
    server.returncode = 0
    looks.processor = usage.ru_utime + usage.ru_stime
