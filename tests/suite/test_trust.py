"""Code that a file or a store names runs only once it was let; and it cannot end a command in silence."""

import hashlib
import importlib.util
import io
import json
import os
import py_compile
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from suite.formats import FORMAT
from suite.tracking.store import Store
from suite.trust import Trust
from tests.support.commands import document, fault, suite_here
from tests.support.corpus import SMALL, TUNED
from trials import algorithms
from trials.common import plugins
from trials.common.errors import UserError

OURS = '''
from dataclasses import dataclass
from pathlib import Path
from trials.algorithms.fedavg import FedAvg

Path({log!r}).touch()

@dataclass(frozen=True)
class Mine(FedAvg):
    """FedAvg."""
'''
RUN = ("--dataset", "digits", "--set", "rounds=1", "--set", "clients=4")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an algorithm that leaves a trace where it runs, and files that name it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
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
    """Be another machine: nothing was trusted, nothing is imported."""
    shutil.rmtree(folder / "state", ignore_errors=True)
    (folder / "ran").unlink(missing_ok=True)
    sys.modules.pop(plugins.module_name(f"{folder}/mine.py"), None)


def refused(folder: Path) -> str:
    path = folder / "mine.py"
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return (
        f"{path}:Mine is code that has not run here before: {path}, SHA-256 {digest}. It would run with "
        "all that you may do: read it, and add --trust"
    )


SOURCES = {
    "sweep": ("study.yaml", "algorithms[0]"),
    "run": ("run", "algorithm"),
    "tuned": ("1 of 1 files cannot be imported; nothing was\ntuned.yaml", "algorithm"),
}
"""What a command says it was that named the code, and where it is named."""


def refused_by(folder: Path, command: tuple[str, ...]) -> str:
    source, key = SOURCES[command[0]]
    name = f"{folder / 'mine.py'}:Mine"
    return f"{source}: 1 fault, nothing was started\n  {key} = '{name}': {refused(folder)}"


COMMANDS = [
    ("sweep", "study.yaml", "--dry-run"),
    ("run", "tuned.yaml", "--no-record"),
    ("run", "tuned.yaml", "--no-record"),
    ("tuned", "import", "tuned.yaml"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_code_that_a_file_names_needs_trust_once(here: Path, command: tuple[str, ...]):
    before = suite_here(*command, cwd=here, code=2)
    assert fault(before) == refused_by(here, command)
    assert not before.stdout
    assert not (here / "ran").exists()
    suite_here(*command, "--trust", cwd=here)
    assert (here / "ran").exists()
    suite_here(*command, cwd=here)
    write(here, "# another line\n")
    sys.modules.pop(plugins.module_name(f"{here}/mine.py"))
    assert fault(suite_here(*command, cwd=here, code=2)) == refused_by(here, command)


def test_compiled_code_beside_a_file_is_not_run(here: Path):
    """No hash covers it, and Python would take it for the file's without a look at the file."""
    path, other = here / "mine.py", here / "other.py"
    other.write_text(f"from pathlib import Path\nPath({str(here / 'hurt')!r}).touch()\n")
    cached = importlib.util.cache_from_source(str(path))
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(other), cached, invalidation_mode=unchecked)
    suite_here("run", "--algorithm", "mine.py:Mine", *RUN, "--no-record", cwd=here)
    assert (here / "ran").exists()
    assert not (here / "hurt").exists()


def test_what_runs_is_what_was_asked_about(here: Path):
    """Also where the file changes between question and import, and what trials elsewhere are sent."""
    path, text = here / "mine.py", (here / "mine.py").read_text()

    def swapped(code: plugins.Code) -> None:
        write(here, f"Path({str(here / 'hurt')!r}).touch()\n")

    with plugins.guarded(swapped):
        cls = algorithms.resolve(f"{path}:Mine")
        assert plugins.sources([f"{path}:Mine"]) == {str(path): text}
    assert (cls.__name__, path.read_text() != text) == ("Mine", True)
    assert not (here / "hurt").exists()


def test_a_process_that_was_sent_an_algorithm_needs_no_file(here: Path):
    path = here / "elsewhere" / "mine.py"
    plugins.supply(str(path), (here / "mine.py").read_text())
    assert algorithms.resolve(f"{path}:Mine").__name__ == "Mine"


def test_code_that_the_person_names_is_theirs(here: Path):
    suite_here("run", "--algorithm", "mine.py:Mine", *RUN, cwd=here)
    assert (here / "ran").exists()
    suite_here("run", "tuned.yaml", "--no-record", cwd=here)


def test_a_name_of_two_lines_lets_nothing_else_run(here: Path):
    """The list of what ran is a text with a line for each."""
    other = plugins.code("os:abort")
    folder = here / f"x\n{other.key} "
    folder.mkdir()
    write(folder)
    suite_here("run", "--algorithm", f"{folder}/mine.py:Mine", *RUN, "--no-record", cwd=here)
    (here / "tuned.yaml").write_text(yaml.safe_dump({**TUNED, "dataset": "os:abort"}))
    said = fault(suite_here("run", "tuned.yaml", cwd=here, code=2))
    assert said.startswith("os:abort is code that has not run here before: ")


@pytest.mark.parametrize("kind", ["a link", "a pipe", "everybody's"])
def test_a_list_that_is_not_one_s_own_is_neither_read_nor_written(here: Path, kind: str):
    listed, mine = here / "state/suite-fl/trusted", here / "mine"
    listed.parent.mkdir(parents=True)
    text = f"{plugins.code(f'{here}/mine.py:Mine').key}\n"
    mine.write_text(text)
    if kind == "a link":
        listed.symlink_to(mine)
    elif kind == "a pipe":
        os.mkfifo(listed)
    else:
        listed.write_text(text)
        listed.chmod(0o646)
    assert refused(here) in suite_here("run", "tuned.yaml", cwd=here, code=2).stderr
    suite_here("run", "tuned.yaml", "--trust", "--no-record", cwd=here)
    assert mine.read_text() == text
    assert listed.is_fifo() or listed.read_text() == text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("answer", "runs"), [("y\n", True), ("YES\n", True), ("\n", False), ("", False)]
)
def test_a_terminal_is_asked(here: Path, monkeypatch: pytest.MonkeyPatch, answer: str, runs: bool):
    shown, code = Terminal(), plugins.code(f"{here}/mine.py:Mine")
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    monkeypatch.setattr("sys.stderr", shown)
    if runs:
        Trust([])(code)
    else:
        with pytest.raises(UserError) as said:
            Trust([])(code)
        assert str(said.value) == f"{here}/mine.py:Mine was not trusted, so nothing ran"
    before, _, _ = refused(here).partition("It would run")
    assert shown.getvalue() == f"{before}It runs with all that you may do. Let it run? [y/N] "
    assert (here / "state").exists() == runs


def test_a_file_s_name_does_not_hide_what_is_asked(here: Path, monkeypatch: pytest.MonkeyPatch):
    """A terminal would take the name for words to itself."""
    path = here / "x\x1b[2K\r\u202e.py"
    path.write_text("")
    shown = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal("\n"))
    monkeypatch.setattr("sys.stderr", shown)
    with pytest.raises(UserError):
        Trust([])(plugins.code(f"{path}:Mine"))
    assert f"{here}/x\\x1b[2K\\r\\u202e.py:Mine is code that has" in shown.getvalue()
    assert shown.getvalue().isprintable()


@pytest.fixture
def theirs(here: Path) -> Path:
    """A storage from another machine: a recorded run and an imported configuration of its code."""
    suite_here("run", "tuned.yaml", "--trust", cwd=here)
    suite_here("tuned", "import", "tuned.yaml", cwd=here)
    forget(here)
    return here


def recorded(folder: Path) -> tuple[str, dict[str, str]]:
    (run,) = Store(None, folder / "runs").find(kind="run")
    return run.run_id, json.loads(run.tags["code"])


def test_commands_that_read_resolve_nothing(theirs: Path):
    (one,) = document(suite_here("tuned", "list", "--json", cwd=theirs))
    assert one["algorithm"] == f"{theirs}/mine.py:Mine"
    suite_here("tuned", "show", cwd=theirs)
    suite_here("tuned", "export", "out", cwd=theirs, code=2)
    place = ("--dataset", "digits", "--heterogeneity", "iid", "--json")
    found = document(suite_here("tuned", "recommend", *place, cwd=theirs))
    assert found["configuration"] == one
    suite_here("leaderboard", cwd=theirs, code=2)
    assert not (theirs / "ran").exists()
    assert not (theirs / "state").exists()


def test_a_recorded_run_has_the_hash_of_its_code_which_is_asked_for_and_must_be_the_same(
    theirs: Path,
):
    run_id, code = recorded(theirs)
    digest = hashlib.sha256((theirs / "mine.py").read_bytes()).hexdigest()
    assert code == {f"{theirs}/mine.py:Mine": digest}
    assert fault(suite_here("replay", run_id, cwd=theirs, code=2)) == refused(theirs)
    assert not (theirs / "ran").exists()
    suite_here("replay", run_id, "--trust", cwd=theirs)
    now = write(theirs, "# another line\n")
    said = fault(suite_here("replay", run_id, "--trust", cwd=theirs, code=2))
    assert said == (
        f"run {run_id}: {theirs}/mine.py:Mine has changed since: SHA-256 was {digest} and is {now}. Put "
        "the former file back, or name what is there now with --algorithm or --dataset and --set"
    )


def test_a_tuned_file_with_a_hash_is_not_run_with_another_file(here: Path):
    content = yaml.safe_load((here / "tuned.yaml").read_text())
    name = content["algorithm"]
    content |= {"format": FORMAT, "provenance": {"code": {name: "0" * 64}}}
    (here / "tuned.yaml").write_text(yaml.safe_dump(content))
    digest = hashlib.sha256((here / "mine.py").read_bytes()).hexdigest()
    changed = (
        f"tuned.yaml: {name} has changed since: SHA-256 was {'0' * 64} and is {digest}. Put the former file "
        "back, or name what is there now with --algorithm or --dataset and --set"
    )
    run = suite_here("run", "tuned.yaml", "--trust", cwd=here, code=2)
    assert fault(run) == changed
    many = suite_here("tuned", "import", "tuned.yaml", "--trust", cwd=here, code=2)
    assert fault(many) == f"1 of 1 files cannot be imported; nothing was\n{changed}"
    assert not (here / "ran").exists()


@pytest.mark.parametrize(
    "word", ["{}", "{}(2)", "iid+{}(2)+dropout(0.1)", "sampler={}(1)", "--heterogeneity=iid,{}"]
)
def test_code_that_the_command_line_names_within_a_word_is_the_person_s_wish(here: Path, word: str):
    code = plugins.code(f"{here}/mine.py:Mine")
    with pytest.raises(UserError, match="add --trust"):
        Trust([word.format("other.py:Mine")])(code)
    Trust([word.format(f"{here}/mine.py:Mine")])(code)


def test_a_function_of_python_s_own_is_code_too(here: Path):
    content = {**TUNED, "dataset": "os:abort"}
    (here / "tuned.yaml").write_text(yaml.safe_dump(content))
    said = fault(suite_here("run", "tuned.yaml", cwd=here, code=2))
    digest = plugins.code("os:abort").sha256
    assert (
        digest == hashlib.sha256(Path(str(plugins.code("os:abort").file)).read_bytes()).hexdigest()
    )
    assert said.endswith(
        f"SHA-256 {digest}. It would run with all that you may do: read it, and add --trust"
    )
    said = fault(suite_here("run", "tuned.yaml", "--trust", cwd=here, code=2))
    assert said == "data set os:abort raised ExitedError: it called os.abort()"


ENDS = ["sys.exit(0)", "sys.exit()", "os._exit(0)", "os.abort()", "raise SystemExit"]


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("where", ["round", "init", "import", "data", "data import"])
def test_code_of_others_cannot_end_a_command_in_silence(tmp_path: Path, ends: str, where: str):
    lines = {
        "round": f"    def round(self, state, fed):\n        {ends}\n",
        "init": f"    def init(self, fed):\n        {ends}\n",
        "import": f"{ends}\n",
        "data": f"def load():\n    {ends}\n",
        "data import": f"{ends}\n",
    }[where]
    text = "import os, sys\n" + OURS.format(log=str(tmp_path / "ran")) + lines
    (tmp_path / "mine.py").write_text(text)
    own = ("--dataset", "mine.py:load") if "data" in where else ("--algorithm", "mine.py:Mine")
    done = suite_here("run", *own, "--set", "rounds=1", "--set", "clients=4", cwd=tmp_path, code=2)
    assert f"{tmp_path}/mine.py" in fault(done)
    assert "xit" in fault(done) or "abort" in fault(done)
    assert not done.stdout


def test_what_code_of_others_forks_ends_as_it_will(tmp_path: Path):
    fork = "import os\nif not os.fork():\n    os._exit(0)\nos.wait()\n"
    (tmp_path / "mine.py").write_text(fork + OURS.format(log=str(tmp_path / "ran")))
    suite_here("run", "--algorithm", "mine.py:Mine", *RUN, "--no-record", cwd=tmp_path)
