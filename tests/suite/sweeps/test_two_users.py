"""A storage that another user can write: what they leave in it is not obeyed. One that a command makes they
cannot enter.
"""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from suite.execution.stop_signal import Control
from suite.sweeps.journal.paths import SweepPaths
from suite.sweeps.sweep import Sweep
from suite.tracking.store import Store
from tests.support.commands import fault, suite_here
from tests.support.foreign import little, play, swept
from trials.common.errors import UserError

THEM = 54321
"""A user of this machine without an account: to the kernel a number is one."""
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as a second user")


def them(script: str, *args: object) -> "subprocess.CompletedProcess[str]":
    """Run a shell's script as the other user."""
    command = ["/bin/sh", "-c", script, "sh", *map(str, args)]
    return subprocess.run(
        command, user=THEM, group=THEM, extra_groups=[], cwd="/", capture_output=True, text=True
    )


@pytest.fixture
def shared() -> Iterator[SweepPaths]:
    """A sweep that was cut off, in a storage that both can write; pytest's own folders they cannot enter."""
    with tempfile.TemporaryDirectory() as made:
        place = SweepPaths(Path(made, "runs"), "s")
        place.folder.mkdir(parents=True)
        play(Sweep("s", little(), place, resume=False), 1)
        Path(made).chmod(0o755)
        for folder in (place.storage, place.folder):
            folder.chmod(0o777)
        yield place


@as_root
def test_words_of_another_user_are_not_obeyed(
    shared: SweepPaths, capsys: pytest.CaptureFixture[str]
):
    word = shared.folder / "control"
    done = them('printf cancel > "$1"', word)
    assert done.returncode == 0, done.stderr
    control = Control(shared.folder)
    assert not control.draining
    assert not control.ends_now
    said = f"{word} belongs to user {THEM}, so it is ignored\n"
    assert capsys.readouterr().err == said
    stopped = suite_here("stop", "s", cwd=shared.storage.parent, code=2)
    assert fault(stopped) == (
        f"runs/s/control is in the way: it belongs to user {THEM}, so it is ignored"
    )
    result = play(Sweep("s", little(), shared, resume=True))
    assert result.ending == ""
    assert word.read_text() == "cancel"


def test_a_word_is_written_through_no_link(tmp_path: Path):
    """Another user may put one in its place after it was looked at."""
    mine, control = tmp_path / "mine", Control(tmp_path)
    mine.write_text("mine")
    control.path.symlink_to(mine)
    with patch("suite.execution.stop_signal.others_hand", return_value=""):
        mine.write_text("")  # which is no word that anybody wrote
        with pytest.raises(OSError, match="symbolic links"):
            control.ask("stop")
    assert mine.read_text() == ""


@as_root
def test_a_journal_of_another_user_is_not_gone_on_with(shared: SweepPaths):
    text = shared.journal.read_text()
    done = them('printf "%s" "$2" > "$1.mine" && mv -f "$1.mine" "$1"', shared.journal, text)
    assert done.returncode == 0, done.stderr
    with pytest.raises(UserError) as said:
        Sweep("s", little(), shared, resume=True)
    assert str(said.value) == (
        f"journal {shared.journal} belongs to user {THEM}, so it is not used. If you "
        f"trust its content: take it over with chown, or chmod go-w {shared.journal}"
    )
    assert shared.journal.read_text() == text


@as_root
def test_a_journal_cannot_be_written_by_another_user(shared: SweepPaths):
    before = shared.journal.read_bytes()
    assert them('printf more >> "$1"', shared.journal).returncode
    assert shared.journal.read_bytes() == before


@as_root
def test_another_user_enters_no_storage_that_a_command_made(shared: SweepPaths):
    made = shared.storage.parent / "made"
    Store(None, made)
    assert them('ls "$1"', shared.storage).returncode == 0
    assert "Permission denied" in them('ls "$1"', made).stderr


@pytest.mark.parametrize("mode", [0o646, 0o662])
def test_what_everyone_can_write_is_not_obeyed(tmp_path: Path, mode: int):
    place = swept(tmp_path)
    control = Control(place.folder)
    control.ask("cancel")
    assert control.path.stat().st_mode & 0o777 == place.journal.stat().st_mode & 0o777 == 0o600
    assert place.storage.stat().st_mode & 0o777 == place.folder.stat().st_mode & 0o777 == 0o700
    assert control.asked == "cancel"
    for path in (control.path, place.journal):
        path.chmod(mode)
    assert control.asked == ""
    with pytest.raises(UserError, match=r"can be written by every user"):
        Sweep("s", little(), place, resume=True)
