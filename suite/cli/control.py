"""`suite status`, `stop` and `cancel`: a sweep that another process runs; and the plan of one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from suite.console import RUNS, Json, Storage, emit, say

if TYPE_CHECKING:
    from suite.execution.cluster import Resources
    from suite.studies.study import Study
    from suite.sweeps.paths import Place

app = typer.Typer()
Name = Annotated[str, typer.Argument(help="The sweep's name.")]


@app.command(epilog="Example: suite status quickstart")
def status(
    name: Annotated[str | None, typer.Argument(help="The sweep's name; default: all.")] = None,
    storage: Storage = RUNS,
    as_json: Json = False,
) -> None:
    """How far sweeps are, also those that other processes run."""
    from suite.sweeps.status import status as read
    from suite.sweeps.status import sweeps

    names = sweeps(storage) if name is None else [name]
    found = [read(storage, each) for each in names]
    if as_json:
        emit(found if name is None else found[0])
        return
    for one in found:
        counts = [
            f"{one[key]} {key}" for key in ("finished", "pruned", "diverged", "failed", "died")
        ]
        shown = ", ".join(count for count in counts if not count.startswith("0 "))
        state = "running" if one["running"] else "not running here"
        state += f", asked to {one['asked_to']}" if one["asked_to"] else ""
        Console().print(
            f"{one['name']}: {one['ended']}/{one['expected']} trials ({shown or 'none yet'}), "
            f"{one['recorded']} recorded; {state}, last event {one['idle_seconds']:.0f} s ago",
            highlight=False,
            soft_wrap=True,
            markup=False,
        )


@app.command(epilog="Example: suite stop quickstart")
def stop(name: Name, storage: Storage = RUNS, as_json: Json = False) -> None:
    """Let a sweep's running trials finish, start no more. `--resume` continues it."""
    _ask("stop", name, storage, as_json)


@app.command(epilog="Example: suite cancel quickstart")
def cancel(name: Name, storage: Storage = RUNS, as_json: Json = False) -> None:
    """End a sweep now, as Ctrl-C where it runs would. `--resume` continues it."""
    _ask("cancel", name, storage, as_json)


def _ask(word: str, name: str, storage: Path, as_json: bool) -> None:
    from suite.sweeps.status import ask

    here = ask(storage, name, word)
    if as_json:
        emit({"name": name, "asked": word, "running": here})
    elif here:
        say(f"Asked sweep {name} to {word}; it answers within seconds.")
    else:
        say(
            f"No process on this machine runs sweep {name}. One on another machine, on the same "
            f"storage, will {word}; if there is none, nothing happens."
        )


def show_plan(
    study_name: str,
    study: "Study",
    place: "Place",
    resources: "Resources",
    calibrate: bool,
    as_json: bool,
) -> None:
    """Show what a sweep would do and take."""
    from suite.execution.cluster import local_slots
    from suite.execution.estimate import Estimates
    from suite.search.sweep_search import SweepSearch
    from suite.studies.cells import load_data, make_cells
    from suite.studies.modelling import LEARNING, first_modelled

    place.check(study.warm_start)
    cells = make_cells(study, f"study {study_name}")
    estimates = Estimates(
        study, load_data(cells, place.data_root, f"study {study_name}"), resources
    )
    found = []
    for number, cell in enumerate(cells, 1):
        if calibrate:
            say(f"measuring {number}/{len(cells)}: {cell.name}")
        found.append(estimates.cell(cell, calibrate))
    total = estimates.total(found, local_slots(resources))
    search = SweepSearch(cells, study)
    candidates = [of.candidates for of in search.cells.values()]
    learns = LEARNING.get(study.sampler)
    lag, startup = candidates[0].lag, learns and learns.startup
    plan: dict[str, Any] = {
        "study": study_name,
        "name": place.name,
        "cells": [
            {
                "cell": cell.id,
                "name": cell.name,
                "anchor": cell.space.anchor(),
                "published": len(cell.known),
                "modelled": configurations.modelled,
                "outside": cell.outside(),
                "estimate": estimate,
            }
            for cell, estimate, configurations in zip(cells, found, candidates, strict=True)
        ],
        "trials_per_cell": study.trials,
        "sampler": study.sampler,
        "startup": startup,
        "lag": lag,
        "modelled_from": first_modelled(study.sampler, study.scheduler, lag),
        "searched_by": search.searched_by,
        "warnings": search.warnings,
        "final_runs_per_cell": study.seeds,
        "retries": study.retries,
        **total,
    }
    if as_json:
        emit(plan)
        return
    out = Console()
    for cell in cells:
        out.print(
            f"{cell.name}: anchor {cell.space.anchor()}, {len(cell.known)} published",
            highlight=False,
            markup=False,
        )
    out.print(
        f"{len(cells)} cells, each {study.trials} search trials and {study.seeds} final runs{_besides(study)}: "
        f"{total['trials']} trials of {study.settings.rounds} rounds, "
        f"{total['client_steps']:,} client steps if none is stopped early.",
        highlight=False,
    )
    out.print(
        f"Search: {search.searched_by}. Start-up: {startup or 'none'} (trials told before results "
        f"shape what is suggested). Lag: {lag} (trials of a cell in flight at once). Modelled: "
        f"{max(one.modelled for one in candidates)} of a cell's {study.trials} trials at most.",
        highlight=False,
    )
    for warning in search.warnings:
        out.print(f"Warning: {warning}.", highlight=False, markup=False)
    members = ", two for each member" if study.scheduler == "pbt" else ""
    out.print(
        f"{_hours(total)}. Memory {_size(total['memory_bytes_per_trial'])} a trial; checkpoints "
        f"{_size(total['checkpoint_bytes'])} at most, one for each of {total['trials_at_once']} running "
        f"trials{members}; records {_size(total['record_bytes'])}. Nothing was started.",
        highlight=False,
    )


def _besides(study: Any) -> str:
    """What else a cell runs, or does not."""
    confirm = study.confirm and f", {study.confirm.best * study.confirm.seeds} that confirm"
    knee = study.traded and f", {study.seeds} of the front's knee"
    grid = study.sampler == "grid" and ", fewer where the grid is smaller"
    return "".join(filter(None, (confirm, knee, grid)))


def _hours(total: dict[str, Any]) -> str:
    if total["cpu_hours"] is None:
        return "Hours: add --calibrate, which runs a few rounds of each cell"
    gpu = f", {total['gpu_hours']:.2g} GPU hours" if total["gpu_hours"] else ""
    return f"About {total['cpu_hours']:.2g} CPU hours{gpu}: {total['hours']:.2g} hours here"


def _size(number: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"
