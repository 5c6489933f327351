"""What version 0.2 wrote is refused in one line, and nothing of it is touched."""

import shutil
from pathlib import Path

import pytest
import yaml

from suite.formats import FORMAT, FormatError, check_format
from suite.tracking.store import Store
from tests.support.commands import fault, runs_of, study_file, suite_here
from tests.support.configurations import a_tuned
from tests.support.foreign import contents, swept

READ = "was written by suite 0.2.0, which suite 0.3.0 does not read: read it with 0.2.0 (commit 4018725)"
pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.mark.parametrize("written", [None, 0, 1, "2", True, FORMAT + 1])
def test_another_format_is_refused_by_who_reads_it(written: object) -> None:
    later = written == FORMAT + 1
    reader = "by a later suite, .* with that version$" if later else "by suite 0.2.0, .*4018725"
    with pytest.raises(FormatError, match=f"^x was written {reader}"):
        check_format("x", written)
    check_format("x", FORMAT)


@pytest.mark.parametrize(
    "command",
    [
        *("sweep {study} --name s", "sweep {study} --name s --dry-run"),
        *("sweep {study} --name s --resume", "status s", "stop s", "stop s --now"),
    ],
)
def test_a_journal(tmp_path: Path, command: str) -> None:
    paths = swept(tmp_path)
    study = study_file(tmp_path)
    raw = paths.journal.read_bytes()
    format_key = b'"format":%d,' % FORMAT
    assert raw.count(format_key) == 1
    paths.journal.write_bytes(raw.replace(format_key, b""))
    before = contents(tmp_path)
    done = suite_here(*command.format(study=study).split(), cwd=tmp_path, code=2)
    assert fault(done).startswith(f"sweep s {READ}")
    assert contents(tmp_path) == before


def test_a_store(tmp_path: Path) -> None:
    """A command that names what 0.2 recorded refuses it."""
    paths = swept(tmp_path)
    store = Store(None, paths.storage)
    (old,) = runs_of(store, kind="sweep", sweep="s")
    store.client.delete_tag(old.run_id, "suite.format")
    with pytest.raises(FormatError, match=f"^run {old.run_id} was written by suite 0.2.0, "):
        store.get(old.run_id)
    shutil.rmtree(paths.folder)  # so that no journal says whose it is
    done = suite_here("sweep", study_file(tmp_path), "--name", "s", cwd=tmp_path, code=2)
    assert fault(done).startswith(f"sweep s {READ}")
    assert not paths.folder.exists()


@pytest.mark.parametrize("command", ["run old.yaml", "tuned import old.yaml"])
def test_a_tuned_file(tmp_path: Path, command: str) -> None:
    found = yaml.safe_load(a_tuned().text())
    assert found.pop("format") == FORMAT
    (tmp_path / "old.yaml").write_text(yaml.safe_dump(found))
    before = contents(tmp_path)
    said = fault(suite_here(*command.split(), cwd=tmp_path, code=2))
    assert said.splitlines()[-1].endswith(f"configuration old.yaml {READ}")
    assert contents(tmp_path) == before
