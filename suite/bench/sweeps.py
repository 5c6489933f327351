"""`suite bench`: what driving costs, as a ratio measured in one run, and the memory of a sweep."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from suite.execution.cluster import connect
from suite.execution.resources import Resources
from suite.studies.study import read_study
from suite.sweeps.events import Ended
from suite.sweeps.journal import peek
from suite.sweeps.paths import SweepPaths
from suite.sweeps.sweep import Sweep
from suite.tracking import on_its_own
from trials.errors import UserError
from trials.outcome import Status

PLAIN_TRIALS = 40
"""How many of the sweep's trials the plain loop runs; it is slow, and its rate is steady."""


def sweep(study: str, resources: Resources) -> dict[str, Any]:
    """Trials per minute of a sweep, recording in MLflow included, and of the same trials as a plain
    Tune function trainable without actor reuse or records. Both times include Ray's start.
    """
    name, content = read_study(study, {})
    folder = Path(tempfile.mkdtemp(prefix="suite-bench-"))
    try:
        opened = Sweep(name, content, SweepPaths(folder, "bench"), resume=False)
        started = time.perf_counter()
        opened.run(resources)
        ours = time.perf_counter() - started
        specs = [
            opened.search.spec(ask).model_dump()
            for trial_id, ask in opened.search.asks.items()
            if opened.state.ended[trial_id].status == Status.FINISHED
        ]
        chosen = specs[:: max(1, len(specs) // PLAIN_TRIALS)][:PLAIN_TRIALS]
        plain = _plain(chosen, resources, folder / "plain")
        rate, plain_rate = 60 * len(opened.state.ended) / ours, 60 * len(chosen) / plain
        return {
            "study": name,
            "trials": len(opened.state.ended),
            "seconds": round(ours, 2),
            "trials_per_minute": round(rate, 1),
            "plain_trials": len(chosen),
            "plain_seconds": round(plain, 2),
            "plain_trials_per_minute": round(plain_rate, 1),
            "ratio": round(rate / plain_rate, 2),
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def packed(study: str, resources: Resources, turns: int = 3) -> dict[str, Any]:
    """One sweep with packs (`auto`) and without, taking turns; medians, and the ratio of each turn.

    Trials per minute are counted from the first trial's start to the last one's end; seconds are of the whole
    sweep, with what packs change nothing of: data are loaded, Ray and its workers start.
    """
    name, content = read_study(study, {})
    folder = Path(tempfile.mkdtemp(prefix="suite-bench-"))
    rates: dict[str, list[float]] = {"auto": [], "1": []}
    seconds: dict[str, list[float]] = {"auto": [], "1": []}
    try:
        for turn in range(turns):
            for pack in ("auto", "1") if turn % 2 else ("1", "auto"):
                given = content.model_copy(update={"pack": pack if pack == "auto" else 1})
                started = time.perf_counter()
                place = SweepPaths(folder, f"{turn}-{pack}")
                Sweep(name, given, place, resume=False).run(resources)
                seconds[pack].append(time.perf_counter() - started)
                ends = [line for line in peek(place.journal) if line["event"] == Ended.name]
                first = min(line["at"] - line["seconds"] for line in ends)
                rates[pack].append(60 * len(ends) / (ends[-1]["at"] - first))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ratios = [a / b for a, b in zip(rates["auto"], rates["1"], strict=True)]
    return {
        "study": name,
        "trials": len(ends),
        "trials_per_minute_packed": round(median(rates["auto"]), 1),
        "trials_per_minute_alone": round(median(rates["1"]), 1),
        "ratio": round(median(ratios), 2),
        "ratios": [round(ratio, 2) for ratio in ratios],
        "seconds_packed": round(median(seconds["auto"]), 1),
        "seconds_alone": round(median(seconds["1"]), 1),
    }


def parallel(study: str) -> dict[str, Any]:
    """Trials per minute of one sweep with one and with two single-threaded trials at once, from the first
    trial's end to the last one's, and their ratio.
    """
    name, content = read_study(study, {})
    folder = Path(tempfile.mkdtemp(prefix="suite-bench-"))
    try:
        rates = []
        for concurrent in (1, 2):
            place = SweepPaths(folder, f"at-once-{concurrent}")
            Sweep(name, content, place, resume=False).run(Resources(max_concurrent=concurrent))
            lines = peek(place.journal)
            ends = [line["at"] for line in lines if line["event"] == Ended.name]
            rates.append(60 * (len(ends) - 1) / (ends[-1] - ends[0]))
        one, two = rates
        return {
            "study": name,
            "trials": len(ends),
            "trials_per_minute_1": round(one, 1),
            "trials_per_minute_2": round(two, 1),
            "ratio": round(two / one, 2),
        }
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _plain(specs: list[dict[str, Any]], resources: Resources, folder: Path) -> float:
    """Seconds for the specs as Tune's documentation would have them run."""
    from ray import tune

    os.environ.pop("TUNE_MAX_PENDING_TRIALS_PG", None)  # the suite's own setting for its searcher
    started = time.perf_counter()
    with connect(resources) as cluster:
        tune.Tuner(
            tune.with_resources(
                _train, {"cpu": resources.cpus_per_trial, "gpu": resources.gpus_per_trial}
            ),
            param_space={"trial": tune.grid_search(specs)},
            tune_config=tune.TuneConfig(
                max_concurrent_trials=cluster.slots(),
                reuse_actors=False,
                trial_dirname_creator=lambda trial: str(trial.trial_id),
            ),
            run_config=tune.RunConfig(storage_path=str(folder), verbose=0),
        ).fit()
    return time.perf_counter() - started


def _train(config: dict[str, Any]) -> None:
    from ray import tune

    from trials.spec import TrialSpec
    from trials.trial import deal_data, load_dataset, simulate

    spec = TrialSpec(**config["trial"])
    simulation = simulate(spec, deal_data(spec, load_dataset(spec, None)))
    while not simulation.finished:
        tune.report(simulation.advance())


def memory(study: str, arguments: list[str]) -> dict[str, Any]:
    """Peak memory of a whole sweep, in bytes: driver, workers and Ray's own processes together.

    Proportional set sizes (Linux's /proc/PID/smaps_rollup), so that what processes share counts once.
    """
    folder = Path(tempfile.mkdtemp(prefix="suite-bench-"))
    code = "from suite.cli.app import main; main()"
    command = [sys.executable, "-c", code, "sweep", study, "--storage", str(folder), *arguments]
    peak, said = 0, folder / "said"
    try:
        with said.open("w") as out:
            process = subprocess.Popen(command, stdout=out, stderr=out, env=on_its_own())
        while process.poll() is None:
            peak = max(peak, sum(_share(pid) for pid in _descendants(process.pid)))
            time.sleep(0.3)
        if process.returncode:
            raise UserError(f"the sweep to be measured failed:\n{said.read_text()[-1000:]}")
        return {"study": study, "arguments": arguments, "peak_bytes": peak}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _descendants(root: int) -> set[int]:
    """A process and all that it started, and they, and so on."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found, new = set(), {root}
    while new:
        found |= new
        new = {pid for pid, parent in parents.items() if parent in new}
    return found


def _share(pid: int) -> int:
    """A process's proportional set size in bytes; 0 when it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0
