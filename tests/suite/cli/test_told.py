"""What is said where a person wrote something else than is meant, and commands that run when they are pasted."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from suite import console
from tests.support.commands import document, suite_here


def test_a_command_off_the_path_is_named_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = tmp_path / "suite"
    called.write_text("")
    called.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(called), "sweep"])
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert console.program() == str(called)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert console.program() == "suite"


def test_a_new_algorithm_s_next_commands_run(tmp_path: Path) -> None:
    said = suite_here("new", "algorithm", "Foo", cwd=tmp_path).stderr
    (check,) = [line for line in said.splitlines() if " check " in line]
    suite_here(*shlex.split(check)[1:], cwd=tmp_path)
    assert said.index(" check ") < said.index("pip install pytest")


def test_an_old_python_is_told_in_a_line(tmp_path: Path) -> None:
    old = tmp_path / "python3.10"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    root = Path(__file__).parents[3]
    words = ["make", "-s", "-C", str(root), "sweep", f"PYTHON={old}", f"VENV={tmp_path}/venv"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    first = done.stderr.splitlines()[0]
    assert first == "suite needs Python 3.11 or newer: make sweep PYTHON=python3.12"
    assert not (tmp_path / "venv").exists()


def test_a_setting_may_be_typed_as_an_option(tmp_path: Path) -> None:
    words = "--rounds", "2", "--algorithm", "fedprox", "--mu=0.5", "--val-fraction", "0.25"
    ran = document(suite_here("run", *words, "--json", cwd=tmp_path))
    sets = "--set", "rounds=2", "--set", "mu=0.5", "--set", "val_fraction=0.25"
    same = document(suite_here("run", "--algorithm", "fedprox", *sets, "--json", cwd=tmp_path))
    given = "params", "rounds", "settings", "partition_fingerprint"
    assert [ran[key] for key in given] == [same[key] for key in given]
    assert (ran["params"]["mu"], ran["settings"]["val_fraction"]) == (0.5, 0.25)
