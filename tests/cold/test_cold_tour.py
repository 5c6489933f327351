"""What the documents say, typed in a shell of a fresh install, one fresh process a line."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from suite.cli.app import app
from tests.support.installed import ROOT, Installed

pytestmark = pytest.mark.cold

DATA = """
import numpy as np
rng = np.random.default_rng(0)
x, y = rng.normal(size=(600, 8)), rng.integers(0, 3, 600)
x[:, 0] += 2 * y
np.savez("my.npz", x_train=x[:500], y_train=y[:500], x_test=x[500:], y_test=y[500:])
"""
RUN = "suite run --algorithm fedavg --dataset digits --set rounds=2 --save model --json"
NEW = "suite new algorithm SlowMo"
BANK = ROOT / "search_spaces" / "bank" / "e3_14_linear.parquet"
TYPED = {
    # What takes minutes is typed with less to do; what needs a name gets one.
    "suite sweep mine.yaml": "{} --smoke",
    "suite replay RUN_ID": "suite replay $(cut -c1-12 run_id)",
    "suite tuned companions runs/*/trials.parquet": f"suite tuned companions {BANK}",  # many trials
    "suite tuned import theirs": "cp -r runs/quickstart/tuned theirs && suite tuned import theirs --storage elsewhere",
}
COVERED = {
    # Each is typed by the fixture `folder`, or another line types the same command.
    "suite sweep quickstart --algorithms fedavg,folb --trials 8 --name small": "suite sweep mine.yaml",
    "suite run --algorithm fedprox --mu 0.1 --heterogeneity 'dirichlet(0.3)'": RUN,
    "suite leaderboard quickstart --format latex > table.tex": "suite leaderboard quickstart",
    "suite tuned list --dataset digits": "suite tuned list",
    "suite replay 0f3c12": "suite replay RUN_ID",
    "suite new algorithm SlowMo": NEW,
}
DOWNLOADS = ("suite data prepare mnist fashion_mnist --data-root ~/data",)
"""Nothing can be downloaded here."""
SERVERS = ("suite ui", "suite ui quickstart")
LONG = "suite reproduce folb/table1"
"""A table of a paper: it needs data that are not at hand."""
ALSO = (
    "suite status",
    "suite sweep quickstart --dry-run --name other",
    "suite reproduce --list",
)
"""Of commands without an example, and of options that people type first."""


def examples() -> list[str]:
    """The lines of the README's tour and of the examples below each command's help, each command's once."""
    readme = (ROOT / "README.md").read_text()
    tour = re.findall(r"^(suite .+?)(?:  +#.*)?$", readme, re.MULTILINE)
    below = [
        re.sub(r" \(.*\)$|^Examples?: ", "", part)
        for epilog in _epilogs(get_command(app))
        for part in re.sub(r" \((?!0).*\)$|\[/?bold\]|^(Examples?|Start here): ", "", epilog).split(
            "; "
        )
    ]
    lines = dict.fromkeys([*tour, "suite sweep mine.yaml", *below])
    found = [line for line in lines if not line.startswith(LONG) and line not in COVERED]
    assert set(COVERED) <= set(lines)
    assert set(COVERED.values()) <= {*found, RUN, NEW}
    return found


def _epilogs(command: Any) -> list[str]:
    own = [command.epilog] if (command.epilog or "").startswith("Example") else []
    return own + [e for inner in getattr(command, "commands", {}).values() for e in _epilogs(inner)]


@pytest.fixture(scope="session")
def folder(fresh: Installed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tour has begun: a sweep, a recorded and saved run, data and a method of one's own."""
    here = tmp_path_factory.mktemp("tour")
    fresh.types("suite sweep quickstart", here)
    (here / "run_id").write_text(json.loads(fresh.types(RUN, here))["run_id"])
    fresh.types(NEW, here)
    fresh.types(f"python -c {shlex.quote(DATA)}", here)
    study = re.search(r"```yaml\n(.+?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert study is not None
    (here / "mine.yaml").write_text(study[1])
    return here


@pytest.mark.parametrize("line", [*examples(), *ALSO])
def test_what_the_documents_type(line, fresh: Installed, folder: Path):
    typed = TYPED.get(line, "{}").format(line)
    if line in SERVERS:
        assert "http://127.0.0.1" in fresh.serves(typed, folder)
    elif line in DOWNLOADS:
        fresh.types(typed, folder, None)
    else:
        assert fresh.types(typed, folder).strip()
