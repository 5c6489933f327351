"""What it costs a sweep to be watched: pairs of sweeps, alone and watched, run one after the other.

python benchmarks/watched.py --study smoke --runs 3
"""

import http
import os
import re
import subprocess
import threading
import time
import urllib.error
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from measuring import SUITE, alone, machine, parser, scratch, show


@dataclass
class Looks:
    """What a page asked a server and was told: the processor's seconds that the server took, how often the
    page looked, how often there was something new, and the bytes of those answers.
    """

    server_processor_seconds: float = 0.0
    looks: int = 0
    with_news: int = 0
    sent_bytes: int = 0


def watched(study: str, pairs: int) -> dict[str, Any]:
    """The seconds of sweeps of the study alone and watched, in turns, and the median of their ratios; with
    what the watching took: see `Looks`.
    """
    found = []
    with scratch() as folder:
        for number in range(pairs):
            seconds, looks = {}, Looks()
            for seen in (False, True) if number % 2 == 0 else (True, False):
                storage = folder / f"{number}-{seen}"
                seconds[seen] = _sweep(study, storage, looks if seen else None)
            pair = {"alone": seconds[False], "watched": seconds[True]}
            found.append(pair | {"ratio": seconds[True] / seconds[False], **asdict(looks)})
    ratio = median(pair["ratio"] for pair in found)
    return {"machine": machine(), "study": study, "ratio": ratio, "pairs": found}


def _sweep(study: str, storage: Path, looks: Looks | None) -> float:
    """Seconds of a sweep; a page asks meanwhile where it is to be looked at."""
    place = ("--storage", str(storage), "--name", "measured")
    quiet = subprocess.DEVNULL
    started = time.perf_counter()
    sweep = subprocess.Popen(
        (*SUITE, "sweep", study, *place), stdout=quiet, stderr=quiet, env=alone()
    )
    page = threading.Thread(target=_page, args=(storage, sweep, looks))
    if looks is not None:
        page.start()
    code = sweep.wait()
    seconds = time.perf_counter() - started
    if looks is not None:
        page.join()
    if code:
        raise SystemExit(f"the sweep of {study} that was to be measured failed")
    return seconds


def _page(storage: Path, sweep: "subprocess.Popen[bytes]", looks: Looks) -> None:
    """Ask for a sweep's page as a browser does until it is over."""
    while not (storage / "measured" / "journal.jsonl").exists() and sweep.poll() is None:
        time.sleep(0.1)
    command = (*SUITE, "ui", "measured", "--storage", str(storage))
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=alone())
    assert server.stderr is not None
    said = re.search(r"(http://[^\s?]+)\?token=(\S+)", server.stderr.readline())
    pause, etag = 1.0, ""
    while said and sweep.poll() is None:
        looks.looks += 1
        headers = {"If-None-Match": etag, "Authorization": f"Bearer {said[2]}"}
        request = urllib.request.Request(f"{said[1]}/parts", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                looks.with_news += 1
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
    looks.server_processor_seconds = usage.ru_utime + usage.ru_stime


def main() -> None:
    """Entry point."""
    args = parser(__doc__)
    args.add_argument("--study", default="quickstart", help="the study to sweep")
    args.add_argument("--runs", type=int, default=3, help="pairs of sweeps, alone and watched")
    asked = args.parse_args()
    show(watched(asked.study, asked.runs), asked.json)


if __name__ == "__main__":
    main()
