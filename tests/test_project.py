"""What a project has besides its code: versions agree, and what CI, hooks and templates call exists."""

import os
import re
import subprocess
import sys
import tomllib

import pytest
import yaml

from tests.support.simulations import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
SCRIPTS = sorted((ROOT / ".ci").iterdir())
MAKE = (ROOT / "Makefile").read_text()
REFERENCE = (ROOT / "docs" / "reference.md").read_text()


def test_the_versions_agree():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    first = re.search(r"^## \[(.+?)\] - ", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first
    assert PROJECT["version"] == citation["version"] == first[1]
    assert PROJECT["license"] == citation["license"]


def test_the_changelog_has_its_form():
    text = (ROOT / "CHANGELOG.md").read_text()
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= kinds
    heads = re.findall(r"^## (.+)$", text, re.MULTILINE)
    form = r"\[\d+\.\d+\.\d+\] - (\d{4}-\d\d-\d\d|unreleased)"
    assert [head for head in heads if not re.fullmatch(form, head)] == []
    assert [head for head in heads[1:] if head.endswith("unreleased")] == []


def runs() -> list[str]:
    steps = (step for job in WORKFLOW["jobs"].values() for step in job["steps"])
    return [step["run"] for step in steps if "run" in step]


def test_the_workflow_calls_scripts_that_exist():
    assert set(runs()) == {f".ci/{script.name}" for script in SCRIPTS}
    assert all(os.access(script, os.X_OK) for script in SCRIPTS)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_the_scripts_are_bash_and_make_what_there_is(script):
    checked = subprocess.run(["bash", "-n", script], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    made = set(re.findall(r"^make ([\w-]+)", script.read_text(), re.MULTILINE))
    assert made
    assert made <= set(re.findall(r"^([\w-]+):", MAKE, re.MULTILINE))


def test_ci_runs_on_the_oldest_python_that_is_accepted_and_the_newest_that_is_said():
    pythons = WORKFLOW["jobs"]["ci"]["strategy"]["matrix"]["python"]
    assert PROJECT["requires-python"] == f">={pythons[0]}"
    assert f"{pythons[0]} to {pythons[-1]}" in REFERENCE
    assert WORKFLOW["jobs"]["newest"]["steps"][1]["with"]["python-version"] == pythons[-1]


def test_the_hooks_are_what_lint_checks():
    lint = re.search(r"^lint:.*\n((?:\t.+\n)+)", MAKE, re.MULTILINE)
    assert lint
    commands = re.findall(r"\$\(BIN\)/(.+)", lint[1])
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert [hook["entry"] for hook in local["hooks"]] == [f".venv/bin/{c}" for c in commands]


WINDOWS = "import sys; sys.platform = 'win32'; sys.argv = [{argv!r}]; import {module}"


@pytest.mark.parametrize("module", ["suite", "suite.api"])
def test_on_windows_an_import_says_one_line(module):
    done = import_there("notebook.py", module)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: suite does not run on Windows")
    assert "WSL 2" in last


@pytest.mark.parametrize("command", ["/bin/suite", "suite.exe"])
def test_on_windows_the_command_says_one_line_and_no_traceback(command):
    done = import_there(command, "suite.cli.app")
    assert done.returncode == 2
    assert done.stderr.startswith("error: suite does not run on Windows")
    assert done.stderr.count("\n") == 1


def import_there(argv: str, module: str) -> "subprocess.CompletedProcess[str]":
    code = WINDOWS.format(argv=argv, module=module)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
