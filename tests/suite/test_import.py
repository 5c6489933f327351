"""The package as another program finds it."""

import subprocess
import sys

import suite
from tests.support.simulations import ROOT

PRINTS = "import suite; print(suite.run.__name__, suite.__version__)"


def test_a_folder_called_suite_hides_nothing(tmp_path):
    """The folder above a checkout that is called `suite`, which is no package there."""
    (tmp_path / "suite").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", PRINTS], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.split() == ["run", suite.__version__], done.stderr


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "suite", "--version"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout.startswith(f"suite {suite.__version__}\n"), done.stderr
