"""`suite tuned`: list, show, export and import tuned configurations."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from suite.console import RUNS, Json, Storage, Tracking, emit
from trials.errors import UserError

app = typer.Typer(no_args_is_help=True, help="Tuned configurations: list, show, export, import.")


Name = Annotated[str | None, typer.Option(help="Only this one.")]


@app.command("list")
def tuned_list(
    algorithm: Name = None,
    dataset: Name = None,
    model: Name = None,
    heterogeneity: Name = None,
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """List tuned configurations, best first."""
    found = _tuned(storage, tracking_uri, algorithm, dataset, model, heterogeneity)
    if as_json:
        emit([item.model_dump(mode="json") for item in found])
        return
    shown = Table()
    for column in ("algorithm", "dataset", "heterogeneity", "model", "test", "params", "from"):
        shown.add_column(column)
    for item in found:
        scores = [
            v for k, v in item.scores.items() if k.startswith("test_") and isinstance(v, float)
        ]
        shown.add_row(
            *(item.algorithm, item.dataset, item.heterogeneity, item.model),
            f"{scores[0]:.4f}" if scores else "",
            " ".join(
                f"{k}={v:.3g}" if isinstance(v, float) else f"{k}={v}"
                for k, v in item.params.items()
            ),
            str(item.provenance.get("sweep", "a file")),
        )
    Console().print(shown)


@app.command("show")
def tuned_show(
    algorithm: Name = None,
    dataset: Name = None,
    model: Name = None,
    heterogeneity: Name = None,
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Print the best matching configuration as YAML, ready to paste."""
    found = _tuned(storage, tracking_uri, algorithm, dataset, model, heterogeneity)
    if not found:
        raise UserError("no tuned configuration matches; see `suite tuned list`")
    emit(found[0].model_dump(mode="json")) if as_json else sys.stdout.write(found[0].text())


@app.command("export")
def tuned_export(
    folder: Annotated[
        Path, typer.Argument(help="Where to write dataset/heterogeneity/model/algorithm.yaml.")
    ],
    algorithm: Name = None,
    dataset: Name = None,
    model: Name = None,
    heterogeneity: Name = None,
    storage: Storage = RUNS,
    tracking_uri: Tracking = None,
    as_json: Json = False,
) -> None:
    """Write tuned configurations as files; of several for one cell, the best."""
    found = _tuned(storage, tracking_uri, algorithm, dataset, model, heterogeneity)
    written = []
    for item in found:
        path = folder / item.path
        if path not in written:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(item.text())
            written.append(path)
    emit([str(path) for path in written]) if as_json else Console().print(*written, sep="\n")


@app.command("import")
def tuned_import(
    source: Annotated[Path, typer.Argument(help="A YAML file, or a folder of them.")],
    storage: Storage = RUNS,
    as_json: Json = False,
) -> None:
    """Check configurations and keep them beside the store, for `suite run --tuned`."""
    from suite import tuned

    if not source.exists():
        raise UserError(f"{source} does not exist")
    paths = sorted(source.rglob("*.yaml")) if source.is_dir() else [source]
    items = [tuned.read(path) for path in paths]
    kept = []
    for item in items:
        path = storage / "imported" / item.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(item.text())
        kept.append(str(path))
    emit(kept) if as_json else Console().print(
        f"imported {len(kept)} configurations into {storage}"
    )


def _tuned(storage: Path, tracking_uri: str | None, *cell: str | None) -> list[Any]:
    from suite.recording import open_existing
    from suite.results import list_tuned, select_tuned

    has_store = tracking_uri is not None or (storage / "mlflow.db").exists()
    store = (
        open_existing(tracking_uri, storage)
        if has_store or not (storage / "imported").exists()
        else None
    )
    return select_tuned(list_tuned(store, storage), *cell)
