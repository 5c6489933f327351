"""`suite sweep --dry-run`: what a sweep would do and take."""

from typing import TYPE_CHECKING, Any

from reports.leaderboard.wording import params_text
from suite.console import emit, out, say

if TYPE_CHECKING:
    from suite.execution.resources import Resources
    from suite.search.sweep_search import SweepSearch
    from suite.studies.study import Study
    from suite.sweeps.request import SweepRequest


def show_plan(
    request: "SweepRequest", resources: "Resources", calibrate: bool, as_json: bool
) -> None:
    """Show what a sweep would do and take."""
    from suite.execution.estimate import Estimates
    from suite.execution.resources import local_slots
    from suite.search.sweep_search import SweepSearch
    from suite.studies.entries import load_data, make_entries

    study_name, study = request.read()
    paths = request.paths
    if request.resume:
        for note in request.differences(study):
            say(note)
    elif paths.begun:
        say(
            f"Sweep {paths.name!r} exists in {paths.storage}: it needs --resume, or another --name."
        )
    paths.check(study.warm_start)
    entries = make_entries(study, f"study {study_name}")
    data = load_data(entries, paths.data_root, f"study {study_name}", study.replicates)
    estimates = Estimates(study, data, resources)
    found = []
    for number, entry in enumerate(entries, 1):
        if calibrate:
            say(f"measuring {number}/{len(entries)}: {entry.name}")
        found.append(estimates.entry(entry, calibrate))
    total = estimates.total(found, local_slots(resources))
    search = SweepSearch(entries, study)
    plan = {
        "study": study_name,
        "name": paths.name,
        "entries": [
            {
                "entry_id": of.entry.id,
                "name": of.entry.name,
                "default": of.candidates.proposer.known[0].params,
                "published": of.candidates.published,
                "modelled": of.candidates.modelled,
                "outside": of.entry.outside(),
                "estimate": estimate,
            }
            for of, estimate in zip(search.firsts, found, strict=True)
        ],
        "trials_per_entry": study.trials,
        "sampler": study.sampler,
        **_learning(study, search),
        "final_runs_per_entry": study.seeds,
        "retries": study.retries,
        **total,
    }
    if as_json:
        emit(plan)
    else:
        _print(study, plan)


def _learning(study: "Study", search: "SweepSearch") -> dict[str, Any]:
    """When the search begins to learn."""
    from suite.studies.samplers import SAMPLERS, first_modelled

    sampler = SAMPLERS.parse(study.sampler)
    return {
        "startup": sampler.startup,
        "lag": search.lag,
        "modelled_from": first_modelled(sampler, search.lag),
        "searched_by": search.searched_by,
        "warnings": search.warnings,
    }


def _print(study: "Study", plan: dict[str, Any]) -> None:
    to = out()

    def line(text: str) -> None:
        to.print(text, highlight=False, markup=False)

    for entry in plan["entries"]:
        published = f", {entry['published']} published" if entry["published"] else ""
        line(f"{entry['name']}: starts from {params_text(entry['default'])}{published}")
    line(
        f"{len(plan['entries'])} entries, each {study.trials} search trials and {study.seeds} final runs"
        f"{_besides(study)}: {plan['trials']} trials of {study.settings.rounds} rounds, "
        f"{plan['client_steps']:,} client steps if none is stopped early."
    )
    line(
        f"Search: {plan['searched_by']}. Start-up: {plan['startup'] or 'none'} (trials told before "
        f"results shape what is suggested). Lag: {plan['lag']} (trials of an entry in flight at once). "
        f"Modelled: {max(entry['modelled'] for entry in plan['entries'])} of an entry's {study.trials} trials "
        "at most."
    )
    for warning in plan["warnings"]:
        line(f"Warning: {warning}.")
    on_gpu = plan["gpu_memory_bytes_per_trial"]
    gpu = f" and {_size(on_gpu)} of a GPU at least" if on_gpu else ""
    line(
        f"{_hours(plan)}. Memory {_size(plan['memory_bytes_per_trial'])}{gpu} a trial; checkpoints "
        f"{_size(plan['checkpoint_bytes'])} at most, one for each of {plan['trials_at_once']} running "
        f"trials; records {_size(plan['record_bytes'])}. Nothing was started."
    )


def _besides(study: Any) -> str:
    """What else an entry runs, or does not."""
    from suite.studies.samplers import SAMPLERS

    count = len(study.replicates)
    factors = {"tunings": study.tunings, "partitions": study.partitions, "splits": study.splits}
    varied = " x ".join(f"{levels} {name}" for name, levels in factors.items() if levels > 1)
    times = f", {count} times over ({varied})" if count > 1 else None
    confirm = study.confirm and f", {study.confirm.best * study.confirm.seeds} that confirm"
    knee = study.traded and f", {study.seeds} of the front's knee"
    grid = ", fewer where the grid is smaller" if SAMPLERS.parse(study.sampler).grid else None
    return "".join(filter(None, (confirm, knee, grid, times)))


def _hours(total: dict[str, Any]) -> str:
    if total["cpu_hours"] is None:
        return "Hours: add --calibrate, which runs a few rounds of each entry"
    from suite.sweeps.eta import spell

    cpu, gpu, here = (3600 * total[key] for key in ("cpu_hours", "gpu_hours", "hours"))
    gpus = f", {spell(gpu)} of GPUs" if gpu else ""
    return f"About {spell(cpu)} of CPUs{gpus}: {spell(here)} here"


def _size(number: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"
