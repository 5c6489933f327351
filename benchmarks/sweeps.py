"""What driving costs: sweeps measured beside the same trials done another way.

    python benchmarks/sweeps.py overhead --study smoke       beside a plain Tune function trainable
    python benchmarks/sweeps.py packs --study perceptrons    with packs and without, taking turns
    python benchmarks/sweeps.py parallel --study benchmarks/parallel.yaml    two trials at once, and one
    python benchmarks/sweeps.py memory --study smoke --set max_concurrent=2     at the peak; Linux

Other options of `memory` are those of `suite sweep`.
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
"""How many of the sweep's trials the plain loop runs; it is slow, and its rate is steady."""


def overhead(study: str, resources: Resources) -> dict[str, Any]:
    """Trials per minute of a sweep, recording in MLflow included, and of the same trials as a plain
    Tune function trainable without actor reuse or records. Both times include Ray's start.
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

    from trials.run.spec import TrialSpec
    from trials.run.trial import load_dataset, partition_data, simulate

    spec = TrialSpec(**config["trial"])
    simulation = simulate(spec, partition_data(spec, load_dataset(spec, None)))
    while not simulation.finished:
        tune.report(simulation.advance())


def packs(study: str, resources: Resources, turns: int) -> dict[str, Any]:
    """One sweep with packs (`auto`) and without, taking turns; medians, and the ratio of each turn.

    Trials per minute are counted from the first trial's start to the last one's end; seconds are of the whole
    sweep, with what packs change nothing of: data are loaded, Ray and its workers start.
    """
    name, content = read_study(study, {})
    rates: dict[str, list[float]] = {"auto": [], "1": []}
    seconds: dict[str, list[float]] = {"auto": [], "1": []}
    with scratch() as folder:
        for turn in range(turns):
            for pack in ("auto", "1") if turn % 2 else ("1", "auto"):
                given = content.model_copy(update={"pack": pack if pack == "auto" else 1})
                started = time.perf_counter()
                ends = _ends(name, given, SweepPaths(folder, f"{turn}-{pack}"), resources)
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
    """Trials per minute of one sweep with one and with two single-threaded trials at once, from the first
    trial's end to the last one's, and their ratio.
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
    """Run a sweep; the lines of its journal by which trials ended."""
    Sweep(name, study, place).run(resources)
    lines = [json.loads(line) for line in place.journal.read_text().splitlines()]
    return [line for line in lines if line["event"] == "end"]


def memory(study: str, options: list[str]) -> dict[str, Any]:
    """Peak memory of a whole sweep, in bytes: driver, workers and Ray's own processes together.

    Proportional set sizes (Linux's /proc/PID/smaps_rollup), so that what processes share counts once.
    """
    peak = 0
    with scratch() as folder:
        command = (*SUITE, "sweep", study, "--storage", str(folder), *options)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=alone())
        while process.poll() is None:
            peak = max(peak, sum(_share(pid) for pid in descendants(process.pid)))
            time.sleep(0.3)
    if process.returncode:
        raise SystemExit("the sweep that was to be measured failed")
    return {"study": study, "options": options, "peak_bytes": peak}


def _share(pid: int) -> int:
    """A process's proportional set size in bytes; 0 when it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


def main() -> None:
    """Entry point."""
    args = parser(__doc__)
    args.add_argument("what", choices=("overhead", "packs", "parallel", "memory"))
    args.add_argument("--study", default="quickstart")
    args.add_argument("--turns", type=int, default=3, help="packs: how often each runs")
    asked, options = args.parse_known_args()
    if asked.what == "memory":
        found = memory(asked.study, options)
    elif options:
        args.error(f"unknown: {' '.join(options)}")
    elif asked.what == "overhead":
        found = overhead(asked.study, Resources())
    elif asked.what == "packs":
        found = packs(asked.study, Resources(), asked.turns)
    else:
        found = parallel(asked.study)
    show(found, asked.json)


if __name__ == "__main__":
    main()
