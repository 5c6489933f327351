"""What a sweep leaves in the process of a script or notebook that calls it, and what its workers import."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = """
import gc, json, logging, os, signal, sys, threading
import ray.tune
import suite
from suite.sweeps.sweep import Sweep
from suite.tracking import store

def found():
    named = {n: v for n, v in os.environ.items() if n.startswith(("RAY", "TUNE", "MLFLOW_HTTP", "PYTHON"))}
    levels = [logging.getLogger(name).level for name in ("ray", "ray.tune")]
    handlers = [str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    return named, levels, handlers, sys.stdout is out, sys.path[:], os.getcwd(), gc.isenabled()

def sweep(name):
    study = json.loads(sys.argv[1])
    said.append(suite.sweep(study, name=name, max_concurrent=1).summary.trials_finished)

def broken(*given):
    raise RuntimeError("an exception in the middle of a sweep")

out = sys.stdout
said, before = [], found()
thread = threading.Thread(target=sweep, args=("aside",))
thread.start()
thread.join()
after = found()
Sweep._ended = broken
try:
    sweep("broken")
except Exception as error:
    said.append(str(error).strip().splitlines()[-1])
print(json.dumps([said, after == before, found() == before, ray.is_initialized()]))
"""
STUDY: dict[str, Any] = {
    "algorithms": ["fedavg"],
    "datasets": ["digits"],
    "models": ["logreg"],
    "heterogeneity": ["iid"],
    "trials": 2,
    "seeds": 1,
    "sampler": "random",
    "settings": {"rounds": 2, "clients": 4, "participation": 1.0, "execution": "batched"},
}
TRAP = 'open({path!r}, "a").write("{name}\\n")\nraise RuntimeError("{name} of the current folder was run")\n'
WATCHED = """
import sys, threading
from importlib.machinery import PathFinder

class Elsewhere:
    @staticmethod
    def find_spec(name, path=None, target=None):
        here = threading.current_thread()
        if here is not threading.main_thread() and PathFinder.find_spec(name, path):
            sys.stderr.write(f"IMPORTED {name} in {here.name}\\n")

sys.meta_path.insert(0, Elsewhere)
from suite.cli.app import main
main()
"""
LEAVES = (
    "mlflow.store.db.",
    "alembic.",
    "cffi",
    "pycparser",
    "pandas.core.methods",
    "ray.dashboard.optional_deps",
)
"""What nobody else imports meanwhile: MLflow's migrations, SciPy's for integrals, and what Ray asks for and
does without.
"""


@pytest.mark.slow("two clusters in a process of its own")
def test_a_process_gets_back_what_a_sweep_has_set(tmp_path: Path) -> None:
    """The first sweep is in a thread beside the main one, which alone may handle signals."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, script, json.dumps(STUDY)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    said, aside, after, running = json.loads(done.stdout.splitlines()[-1])
    assert said[0] == 2
    assert "an exception in the middle of a sweep" in said[1]
    assert (aside, after, running) == (True, True, False)


@pytest.fixture
def traps(tmp_path: Path) -> Path:
    """A folder full of files with the names of modules; the list of those that were run."""
    run = tmp_path / "run"
    for name in ("pandas", "numpy", "ray", "torch", "yaml", "psutil"):
        (tmp_path / f"{name}.py").write_text(TRAP.format(path=str(run), name=name))
    for name in ("trials", "suite", "reports"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(TRAP.format(path=str(run), name=name))
    (tmp_path / "small.yaml").write_text(json.dumps(STUDY))
    return run


@pytest.mark.slow("a cluster in a process of its own")
def test_the_main_thread_imports_all_and_nobody_what_lies_in_the_current_folder(
    traps: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Two threads that import one package at a time can each meet half of it."""
    script = tmp_path_factory.mktemp("elsewhere") / "watched.py"
    script.write_text(WATCHED)
    command = [sys.executable, script, "sweep", "small.yaml", "--set", "max_concurrent=1"]
    done = subprocess.run(command, cwd=traps.parent, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    imported = [line.split()[1] for line in done.stderr.splitlines() if line.startswith("IMPORTED")]
    assert [name for name in imported if not name.startswith(LEAVES)] == []
    assert not traps.exists()
