"""The commands `suite list`, `data`, `new` and `check`: what there is to choose from, and code of one's own."""

import shlex
from itertools import starmap
from pathlib import Path
from typing import Any

import typer

from reports.table import Column, ColumnKind, table
from suite import api
from suite.cli.options import PLAIN, Assign, DataRoot, Json
from suite.console import emit, out, say, show_table


def list_things(
    kind: str = typer.Argument(help="What to list: see above."),
    as_json: Json = False,
) -> None:
    """List algorithms, data sets, models, studies and more.

    KIND is algorithms, datasets, models, heterogeneity, settings, samplers, studies or papers.

    Algorithms are listed with their papers and the defaults and ranges of their hyperparameters.
    """
    from suite.catalog import broken, hyperparameter, listing

    items = listing(kind)
    for fault in broken():
        say(f"left out: {fault}")
    if as_json:
        emit(items)
        return
    # Algorithms have a third column. The second one of papers lists their algorithms.
    heads, rows = [*items[0]], list[list[str]]()
    if kind == "algorithms":
        heads = ["name", "summary", "hyperparameters"]
    for item in items:
        if kind == "algorithms":
            unranked = ", unranked" if item["reference"] and item["paper"] != "reference" else ""
            ranges = "\n".join(starmap(hyperparameter, item["hyperparameters"].items()))
            summary = f"{item['summary']} ({item['paper']}{unranked})"
            rows.append([item["name"], summary, ranges])
        else:
            name, about = item.values()
            rows.append([name, ", ".join(about) if isinstance(about, list) else about])
    show_table(table(heads, ()).columns, rows)
    if kind == "heterogeneity":
        from trials.heterogeneity import grammar

        out().print(f"A level is written {grammar()}", highlight=False, markup=False)


data = typer.Typer(
    no_args_is_help=True, help="Data sets: see how they are partitioned, and prepare them."
)
NAMES = {
    "samples": "training samples",
    "labels": "labels held",
    "wasserstein": "Wasserstein distance to all",
}


@data.command(
    epilog="Example: suite data describe digits 'dirichlet(0.3)' --clients 10 --output digits.npz"
)
def describe(
    dataset: str = typer.Argument(help="As in `suite list datasets`."),
    heterogeneity: str = typer.Argument("iid", help="As in `suite list heterogeneity`."),
    assign: Assign = None,
    output: Path | None = typer.Option(None, help="An .npz file for the clients' indices."),
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Partition a data set as a run does, and summarise the clients' samples.

    --set takes the settings of a run: clients, partition_seed, data_seed, val_fraction. Each setting is also an option:
    --clients 10. The .npz file has the sample indices of each client, for other programs.
    """
    from suite.partition_statistics import described, partitioned
    from suite.partition_statistics import write as write_arrays
    from suite.yaml_files import assignments

    names, values = {"dataset": dataset, "heterogeneity": heterogeneity}, assignments(assign or ())
    spec = api.run_request(None, names, values=values).spec()
    split = partitioned(spec, data_root)
    if output is not None:
        write_arrays(split, output)
        say(f"wrote {output}")
    document = described(spec, split)
    if as_json:
        emit(document)
        return
    heads = ("min", "median", "mean", "max")
    columns = [Column("per client", ColumnKind.WORDS), *map(Column, heads)]
    title = f"{spec.dataset} · {spec.heterogeneity} · {document['clients']} clients"
    rows = []
    for name, shown in NAMES.items():
        rows.append([shown, *map("{:.4g}".format, document[name].values())])
    show_table(columns, rows, title=title)
    counts = document["totals"] | {"clients not trained on": document["clients_not_trained_on"]}
    facts = [f"{key} {count}" for key, count in counts.items() if count]
    facts += [f"partition seed {document['seed']}", f"fingerprint {document['fingerprint']}"]
    out().print(", ".join(facts), **PLAIN)


@data.command(epilog="Example: suite data prepare mnist fashion_mnist --data-root ~/data")
def prepare(
    names: list[str] = typer.Argument([], metavar="[DATASET]...", help="Data sets to download."),
    data_root: DataRoot = None,
    as_json: Json = False,
) -> None:
    """Download data sets and check their files. Without names, show which data sets are on this machine."""
    from trials import datasets

    for text in names:
        datasets.parse(text).fetch(data_root)
    items: list[dict[str, Any]] = []
    states: dict[str, str] = {}
    for text in names or [name for name, cls in datasets.DATASETS.items() if cls.published]:
        states[text] = "ready"
        for file in datasets.parse(text).files(data_root):
            items.append({"dataset": text, **file})
            # The first missing or damaged file is enough to show.
            if not file["sound"] and states[text] == "ready":
                wrong = f"wrong: {file['path']} has {file['found']}, expected {file['expected']}"
                states[text] = wrong if file["found"] else f"missing: {file['path']}"
    if as_json:
        emit(items)
        return
    show_table(table(["dataset", "state"], ()).columns, [*states.items()])


new = typer.Typer(
    no_args_is_help=True, help="Start an algorithm of your own: its file and its test."
)


@new.command("algorithm", epilog="Example: suite new algorithm SlowMo")
def new_algorithm(
    name: str = typer.Argument(help="Name of its class. SlowMo is written to slowmo.py."),
) -> None:
    """Write a working, commented algorithm and its test into the current folder."""
    from suite.authoring.new import new_algorithm

    class_name, file, test = new_algorithm(name, Path())
    methods = f"fedavg,{file}:{class_name}"
    say(f"Wrote {file} and {test}. Next:")
    for words in (
        ["check", str(file), "--reduces-to", "fedavg", "--set", "beta=0"],
        ["sweep", "quickstart", "--algorithms", methods, "--name", file.stem],
    ):
        say(f"  {shlex.join(['suite', *words])}")
    say(f"Its test runs with pytest (pip install pytest): python -m pytest {test}")


def check(
    file: str = typer.Argument(help="FILE.py, FILE.py:Class, or a name of `suite list`."),
    assign: Assign = None,
    reduces_to: str | None = typer.Option(None, help="Algorithm whose results it must equal."),
    exact: bool = typer.Option(False, "--exact", help="Equal to the bit, with --reduces-to."),
    dataset: str | None = typer.Option(None, help="Data set for a model. Default: digits."),
    as_json: Json = False,
) -> None:
    """Check your own algorithm, model, data set or other plug-in.

    An algorithm trains three models for two rounds. All settings of `execution` must give the same weights, and the algorithm
    must count bytes correctly. --set takes hyperparameters and settings. Exit code 1 if something is wrong.
    """
    say(f"reading {file}")  # before imports that take seconds
    from suite.testing.parts import findings
    from suite.yaml_files import assignments

    values = assignments(assign or ())
    results = list(findings(file, values, dataset, reduces_to=reduces_to, exact=exact))
    passed = all(finding.ok for finding in results)
    if as_json:
        emit({"passed": passed, "checks": [*map(vars, results)]})
    else:
        for finding in results:
            word, on = "ok   " if finding.ok else "wrong", finding.model and f" ({finding.model})"
            out().print(f"{word} {finding.check}{on}: {finding.detail}", **PLAIN)
    raise typer.Exit(0 if passed else 1)
