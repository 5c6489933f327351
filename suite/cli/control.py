"""`suite status`, `stop` and `cancel`: a sweep that another process runs; and the plan of one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from suite.cli.options import RUNS, Json, Storage
from suite.console import emit, out, say
from suite.formats import FormatError
from trials.common.errors import UserError

app = typer.Typer()
Name = Annotated[str, typer.Argument(help="The sweep's name.")]


@app.command(epilog="Example: suite status quickstart")
def status(
    name: Annotated[
        str | None, typer.Argument(help="A sweep's name, or a study's; default: all.")
    ] = None,
    storage: Storage = RUNS,
    as_json: Json = False,
) -> None:
    """How far sweeps are, also those that other processes run."""
    from suite.sweeps.status import of_study, sweeps
    from suite.sweeps.status import status as read

    own = [] if name is None else of_study(storage, name)
    if own:
        say(f"{name} is a study; its sweeps: {', '.join(own)}")
        found = [read(storage, each) for each in own]
    elif name is not None:
        found = [read(storage, name)]
    else:
        found = []
        for each in sweeps(storage):
            try:
                found.append(read(storage, each))
            except UserError as error:
                say(str(error) if isinstance(error, FormatError) else f"sweep {each}: {error}")
    if as_json:
        emit(found if name is None or own else found[0])
        return
    if not found:
        say(
            f"no sweep in {storage}: start one with `suite sweep`, or name another place with --storage"
        )
    to = out()
    for one in found:
        for line in [_standing(one), *_best(one)]:
            to.print(line, highlight=False, soft_wrap=True, markup=False)


def _standing(one: dict[str, Any]) -> str:
    """How far a sweep is, in one line."""
    from suite.sweeps.eta import spell

    counts = [f"{one[key]} {key}" for key in ("finished", "pruned", "diverged", "failed", "died")]
    shown = ", ".join(count for count in counts if not count.startswith("0 "))
    done = one["ended"] - one["superseded"]
    over = done >= one["expected"] and one["recorded"] >= one["ended"]
    state = "running" if one["running"] else "finished" if over else "not running here"
    state += f", asked to {one['asked_to']}" if one["asked_to"] else ""
    state += f", {one['superseded']} superseded" if one["superseded"] else ""
    if one["running"] and one["per_minute"] is not None:
        state += f", {one['per_minute']:.0f} trials/min, about {spell(one['seconds_left'])} left"
    return (
        f"{one['name']}: {done}/{one['expected']} trials ({shown or 'none yet'}), "
        f"{one['recorded']} recorded; {state}, last event {one['idle_seconds']:.0f} s ago"
    )


LEADERS = 3
"""Methods of a scenario that are named."""


def _best(one: dict[str, Any]) -> Iterator[str]:
    """The methods that validate best in each scenario of a sweep, in a line a scenario."""
    from trials.run.scenario import Scenario
    from trials.scoring.metrics import TASKS

    scenarios: dict[Scenario, list[dict[str, Any]]] = {}
    for entry in one["best"]:
        if entry["best"] is not None:
            scenario = Scenario(*(entry[part] for part in Scenario._fields))
            scenarios.setdefault(scenario, []).append(entry)
    for scenario, entries in scenarios.items():
        entries.sort(key=lambda entry: -TASKS[entry["metric"]].sign * entry["best"])
        names = (f"{e['algorithm'].rpartition(':')[2]} {e['best']:.4f}" for e in entries[:LEADERS])
        yield f"  {scenario}: best on validation {', '.join(names)}"


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
