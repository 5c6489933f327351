"""What a sweep leaves in the process of a script or notebook that calls it, and what its workers import."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import suite

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
sweep("again")
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


def test_a_process_gets_back_what_a_sweep_has_set(tmp_path: Path) -> None:
    """The first sweep is in a thread beside the main one, which alone may handle signals."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = [sys.executable, script, json.dumps(STUDY)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    said, aside, after, running = json.loads(done.stdout.splitlines()[-1])
    assert said[:2] == [2, 2]
    assert "an exception in the middle of a sweep" in said[2]
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


def test_workers_import_nothing_from_the_current_folder(traps: Path) -> None:
    suite("sweep", "small.yaml", "--set", "max_concurrent=1", cwd=traps.parent)
    assert not traps.exists()
