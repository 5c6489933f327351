"""Two threads that import one package at a time can each meet half of it, so the main thread imports all:
seen in fresh processes, since this one has everything imported.
"""

import subprocess
import sys
from pathlib import Path

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


def test_the_main_thread_imports_all(tmp_path: Path):
    typed = ["sweep", "quickstart", "--smoke", "--algorithms", "fedavg,scaffold"]
    command = [sys.executable, "-c", WATCHED, *typed]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    found = [line.split()[1] for line in done.stderr.splitlines() if line.startswith("IMPORTED")]
    assert [name for name in found if not name.startswith(LEAVES)] == []
