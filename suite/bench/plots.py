"""Pictures of what `suite bench` measured: PNG, SVG or PDF by the ending of the file's name."""

from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.figure import Figure

from reports.page.figures import SIGN, metadata
from suite.yaml_files import refuse_foreign
from trials.errors import UserError

ENDINGS = (".png", ".svg", ".pdf")
SMALL: dict[Any, Any] = {"svg.fonttype": "none", "svg.hashsalt": "suite", "font.size": 8}


def check(path: Path | None) -> None:
    """Raise `UserError` for a file that could not be written; before anything is measured."""
    if path is None:
        return
    if path.suffix not in ENDINGS:
        raise UserError(f"--plot is {str(path)!r}, but must end in {', '.join(ENDINGS)}")
    if not path.absolute().parent.is_dir():
        raise UserError(f"--plot is {str(path)!r}, but there is no such folder")
    refuse_foreign([path], SIGN)


def engine(document: dict[str, Any], path: Path) -> None:
    """Local steps per second of every system, a group of bars a workload, on a logarithmic axis."""
    found = document["workloads"]
    rates = [{one["system"]: one["steps_per_second"] for one in w["systems"]} for w in found]
    names = list(dict.fromkeys(name for workload in rates for name in workload))
    with rc_context(SMALL):
        figure = Figure(figsize=(7, 3), layout="constrained")
        axes = figure.subplots()
        for i, name in enumerate(names):
            there = [j for j, workload in enumerate(rates) if name in workload]
            at = [j + (i - (len(names) - 1) / 2) * 0.8 / len(names) for j in there]
            axes.bar(at, [rates[j][name] for j in there], 0.8 / len(names), label=name)
        axes.set_yscale("log")
        axes.set_ylabel("local steps a second, one thread")
        axes.set_xticks(range(len(found)), [workload["workload"] for workload in found])
        axes.legend(frameon=False, ncols=3)
        _save(figure, path)


def scaling(document: dict[str, Any], path: Path) -> None:
    """Time of a round along each axis, both logarithmic."""
    found = document["axes"]
    with rc_context(SMALL):
        figure = Figure(figsize=(7, 2.6), layout="constrained")
        for axes, one in zip(figure.subplots(1, len(found), sharey=True), found, strict=True):
            for line in one["lines"]:
                axes.loglog(one["points"], line["seconds_a_round"], "o-", label=line["model"])
            axes.set_xlabel(one["axis"])
            axes.minorticks_off()
            axes.grid(alpha=0.3)
            axes.legend(frameon=False)
        figure.axes[0].set_ylabel("seconds a round")
        _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, metadata=metadata(path.suffix[1:]), dpi=150)
