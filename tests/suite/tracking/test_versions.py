"""Which commit a run records."""

import subprocess
from pathlib import Path

import pytest

from suite.tracking.schema.tags import _commit, versions

ROOT = Path(__file__).resolve().parents[3]


def git(folder: Path, *words: str) -> str:
    by = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    done = subprocess.run(
        ["git", "-C", folder, *by, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_the_commit_is_the_suite_s_own(tmp_path, monkeypatch):
    """Not that of the repository that an environment lies in, nor that of whose hook runs the command."""
    own, theirs = tmp_path / "theirs" / "suite", tmp_path / "theirs"
    own.mkdir(parents=True)
    for folder in (theirs, own):
        git(folder, "init", "-q")
        (folder / "pyproject.toml").touch()
        git(folder, "add", "pyproject.toml")
        git(folder, "commit", "-qm", folder.name)
    installed = theirs / ".venv/lib/python3/site-packages"
    installed.mkdir(parents=True)
    monkeypatch.setenv("GIT_DIR", str(theirs / ".git"))
    assert _commit(installed) is None
    found = _commit(own)
    monkeypatch.delenv("GIT_DIR")
    assert found == git(own, "rev-parse", "HEAD")
    assert found != git(theirs, "rev-parse", "HEAD")


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="the tests lie in no repository")
def test_a_checkout_of_the_suite_records_its_commit():
    assert versions()["git_commit"] == git(ROOT, "rev-parse", "HEAD")
