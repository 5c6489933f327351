"""Code that a name brings in: it runs as it is now, is recorded by its SHA-256, and goes on only unchanged."""

import hashlib
import sys
from pathlib import Path

import pytest
import yaml

from suite.formats import FORMAT
from suite.tracking.store import Store
from tests.support.commands import SINGLY, document, fault, runs_of, suite_here
from tests.support.small import SMALL, TUNED
from trials import algorithms
from trials.common import plugins

OURS = '''
from dataclasses import dataclass
from pathlib import Path
from trials.algorithms.fedavg import FedAvg

Path({log!r}).touch()

@dataclass(frozen=True)
class Mine(FedAvg):
    """FedAvg."""
'''


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A folder with an algorithm that leaves a trace where it runs, and files that name it."""
    write(tmp_path)
    name = f"{tmp_path}/mine.py:Mine"
    (tmp_path / "study.yaml").write_text(yaml.safe_dump({**SMALL, "algorithms": [name]}))
    (tmp_path / "tuned.yaml").write_text(yaml.safe_dump({**TUNED, "algorithm": name}))
    return tmp_path


def write(folder: Path, more: str = "") -> str:
    """The algorithm's file; its hash."""
    text = OURS.format(log=str(folder / "ran")) + more
    (folder / "mine.py").write_text(text)
    return hashlib.sha256(text.encode()).hexdigest()


def forget(folder: Path) -> None:
    """Be another process: nothing is imported."""
    (folder / "ran").unlink(missing_ok=True)
    sys.modules.pop(plugins.module_name(f"{folder}/mine.py"), None)


def test_a_sweep_records_what_its_study_names_and_goes_on_only_with_it(here: Path) -> None:
    name, digest = f"{here}/mine.py:Mine", write(here)
    suite_here("sweep", "study.yaml", *SINGLY, cwd=here)
    store = Store(None, here / "runs")
    for kind, tag in (("sweep", "code"), ("final", "ran")):
        assert f'{{"{name}":"{digest}"}}' in runs_of(store, kind=kind)[0].tags[tag]
    now = write(here, "# another line\n")
    resume = ("sweep", "study.yaml", "--resume", "--trials", 2, *SINGLY)
    said = fault(suite_here(*resume, cwd=here, code=2))
    assert f"{name} has changed since: SHA-256 was {digest} and is {now}" in said
    write(here)
    suite_here(*resume, cwd=here)


def test_a_file_that_changes_runs_again_but_not_within_a_command(here: Path) -> None:
    name, before = f"{here}/mine.py:Mine", write(here)
    with plugins.one_command():
        first = algorithms.resolve(name)
        now = write(here, "# another line\n")
        assert algorithms.resolve(name) is first
        assert plugins.hashes(name) == {name: before}
        assert b"#" not in plugins.sources([name])[f"{here}/mine.py"]
    assert algorithms.resolve(name) is not first
    assert plugins.hashes(name) == {name: now}


def test_a_process_that_was_sent_an_algorithm_needs_no_file(here: Path) -> None:
    path = here / "elsewhere" / "mine.py"
    plugins.supply(str(path), (here / "mine.py").read_bytes())
    assert algorithms.resolve(f"{path}:Mine").__name__ == "Mine"


def test_commands_that_read_run_nothing(here: Path) -> None:
    suite_here("run", "tuned.yaml", cwd=here)
    forget(here)
    suite_here("tuned", "import", "tuned.yaml", cwd=here)
    (one,) = document(suite_here("tuned", "list", "--json", cwd=here))
    assert one["algorithm"] == f"{here}/mine.py:Mine"
    suite_here("tuned", "show", cwd=here)
    suite_here("leaderboard", cwd=here, code=2)
    assert not (here / "ran").exists()


def test_a_tuned_file_with_a_hash_is_not_run_with_another_file(here: Path) -> None:
    content = yaml.safe_load((here / "tuned.yaml").read_text())
    name = content["algorithm"]
    content |= {"format": FORMAT, "provenance": {"code": {name: "0" * 64}}}
    (here / "tuned.yaml").write_text(yaml.safe_dump(content))
    changed = f"{name} has changed since: SHA-256 was {'0' * 64} and is {write(here)}"
    for words in (("run",), ("tuned", "import")):
        assert changed in fault(suite_here(*words, "tuned.yaml", cwd=here, code=2))
    assert not (here / "ran").exists()
