"""Measure what driving a sweep costs, against the same trials run in another way.

    python benchmarks/sweeps.py overhead --study smoke       against a plain Tune function trainable
    python benchmarks/sweeps.py packs --study perceptrons    with packs and without, in turns
    python benchmarks/sweeps.py parallel --study benchmarks/parallel.yaml    two trials at once against one
    python benchmarks/sweeps.py memory --study smoke --set max_concurrent=2     peak memory; Linux

`memory` takes all options of `suite sweep`.
"""

import contextlib
import json
import os
import subprocess
import time
from pathlib import Path
from statistics import median
from typing import Any

from measuring import SUITE, alone, descendants, parser, scratch, show
from suite.execution.cluster import connect
from suite.execution.resources import Resources
from suite.studies.study import Study, read_study
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.sweep import Sweep
from trials.run.outcome import Status

PLAIN_TRIALS = 40
"""The number of the sweep's trials that plain Tune runs: few, since it is slow and its rate is steady."""


def overhead(study: str, resources: Resources) -> dict[str, Any]:
    """Return the trials per minute of a sweep that records in MLflow, and of some of its trials run by plain Tune. Plain Tune
    runs a function trainable without actor reuse and records. Both times include the start of Ray.
    """
    name, content = read_study(study, {})
    with scratch() as folder:
        opened = Sweep(name, content, SweepPaths(folder, "bench"))
        started = time.perf_counter()
        opened.run(resources)
        ours = time.perf_counter() - started
        specs = [
            opened.search.spec(ask).model_dump()
            for trial_id, ask in opened.search.requests.items()
            if opened.state.ended[trial_id].status == Status.FINISHED
        ]
        chosen = specs[:: max(1, len(specs) // PLAIN_TRIALS)][:PLAIN_TRIALS]
        plain = _plain(chosen, resources, folder / "plain")
    rate, plain_rate = 60 * len(opened.state.ended) / ours, 60 * len(chosen) / plain
    return {
        "study": name,
        "trials": len(opened.state.ended),
        "seconds": ours,
        "trials_per_minute": rate,
        "plain_trials": len(chosen),
        "plain_seconds": plain,
        "plain_trials_per_minute": plain_rate,
        "ratio": rate / plain_rate,
    }


def _plain(specs: list[dict[str, Any]], resources: Resources, folder: Path) -> float:
    """Return the seconds that the trials take when they are run as in Tune's documentation."""
    from ray import tune

    os.environ.pop("TUNE_MAX_PENDING_TRIALS_PG", None)  # the suite sets it for its own searcher
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

    from trials.run.spec import TrialSpec
    from trials.run.trial import load_dataset, partition_data, simulate

    spec = TrialSpec(**config["trial"])
    simulation = simulate(spec, partition_data(spec, load_dataset(spec, None)))
    while not simulation.finished:
        tune.report(simulation.advance())


def packs(study: str, resources: Resources, turns: int) -> dict[str, Any]:
    """Return the medians of a sweep with packs of trials (`auto`) and without, run in turns, and the ratio of each turn.
    Trials per minute are counted from the first trial's start to the last one's end. Seconds are those of the whole sweep,
    with the start of Ray and the loading of data, which packs do not change.
    """
    name, content = read_study(study, {})
    rates: dict[str, list[float]] = {"auto": [], "1": []}
    seconds: dict[str, list[float]] = {"auto": [], "1": []}
    with scratch() as folder:
        for turn in range(turns):
            for pack in ("auto", "1") if turn % 2 else ("1", "auto"):
                changed = content.model_copy(update={"pack": pack if pack == "auto" else 1})
                started = time.perf_counter()
                ends = _ends(name, changed, SweepPaths(folder, f"{turn}-{pack}"), resources)
                seconds[pack].append(time.perf_counter() - started)
                first = min(line["at"] - line["outcome"]["seconds"] for line in ends)
                rates[pack].append(60 * len(ends) / (ends[-1]["at"] - first))
    ratios = [a / b for a, b in zip(rates["auto"], rates["1"], strict=True)]
    return {
        "study": name,
        "trials": len(ends),
        "trials_per_minute_packed": median(rates["auto"]),
        "trials_per_minute_alone": median(rates["1"]),
        "ratio": median(ratios),
        "ratios": ratios,
        "seconds_packed": median(seconds["auto"]),
        "seconds_alone": median(seconds["1"]),
    }


def parallel(study: str) -> dict[str, Any]:
    """Return the trials per minute of a sweep with one and with two single-threaded trials at once, and their ratio. They are
    counted from the first trial's end to the last one's.
    """
    name, content = read_study(study, {})
    rates = []
    with scratch() as folder:
        for concurrent in (1, 2):
            place = SweepPaths(folder, f"at-once-{concurrent}")
            ends = _ends(name, content, place, Resources(max_concurrent=concurrent))
            rates.append(60 * (len(ends) - 1) / (ends[-1]["at"] - ends[0]["at"]))
    one, two = rates
    return {
        "study": name,
        "trials": len(ends),
        "trials_per_minute_1": one,
        "trials_per_minute_2": two,
        "ratio": two / one,
    }


def _ends(name: str, study: Study, place: SweepPaths, resources: Resources) -> list[dict[str, Any]]:
    """Run a sweep; return the lines of its journal at which trials ended."""
    Sweep(name, study, place).run(resources)
    lines = [json.loads(line) for line in place.journal.read_text().splitlines()]
    return [line for line in lines if line["event"] == "end"]


def memory(study: str, options: list[str]) -> dict[str, Any]:
    """Return the peak memory of a whole sweep in bytes: driver, workers and Ray's own processes together. It is the sum of
    proportional set sizes (Linux's /proc/PID/smaps_rollup), so shared memory counts once.
    """
    peak = 0
    with scratch() as folder:
        command = (*SUITE, "sweep", study, "--storage", str(folder), *options)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=alone())
        while process.poll() is None:
            peak = max(peak, sum(_share(pid) for pid in descendants(process.pid)))
            time.sleep(0.3)
    if process.returncode:
        raise SystemExit("the measured sweep failed")
    return {"study": study, "options": options, "peak_bytes": peak}


def _share(pid: int) -> int:
    """Return the proportional set size of a process in bytes; 0 if it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def main() -> None:
    """Measure and print, as the command line says."""
    cli = parser(__doc__)
    cli.add_argument("what", choices=("overhead", "packs", "parallel", "memory"))
    cli.add_argument("--study", default="quickstart")
    cli.add_argument("--turns", type=int, default=3, help="the number of turns of `packs`")
    args, options = cli.parse_known_args()
    if args.what == "memory":
        document = memory(args.study, options)
    elif options:
        cli.error(f"unknown: {' '.join(options)}")
    elif args.what == "overhead":
        document = overhead(args.study, Resources())
    elif args.what == "packs":
        document = packs(args.study, Resources(), args.turns)
    else:
        document = parallel(args.study)
    show(document, args.json)


if __name__ == "__main__":
    main()
