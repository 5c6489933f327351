"""What the suite did not write it neither removes nor overwrites: sweeps, exports, reports, caches."""

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.reproduction.costs import Costs
from suite.runs import single as runs
from suite.studies.study import Study
from suite.sweeps.ledger import Ledger
from suite.sweeps.paths import MARKER, SweepPaths
from suite.sweeps.sweep import Sweep
from suite.tracking.store import Record, Store
from tests.support.commands import SINGLY, document, records, study_file, suite_here
from tests.support.searches import a_study
from trials.checkpoint import Checkpoint
from trials.datasets.base import DatasetFamily, FileReport
from trials.datasets.cache import cached
from trials.errors import UserError
from trials.outcome import Outcome
from trials.spec import TrialSpec

ROUNDS = {"rounds": 2, "clients": 4, "participation": 1.0}


def little(**given: Any) -> Study:
    """A study whose trials take milliseconds."""
    base = {"trials": 2, "seeds": 1, "sampler": "random", "scheduler": "none", "settings": ROUNDS}
    return a_study(**{**base, **given})


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def put(path: Path, content: bytes = b"mine") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


# Sweeps through the command


@pytest.mark.parametrize("plan", [(), ("--dry-run",)])
def test_a_folder_for_checkpoints_that_holds_files_is_refused(tmp_path: Path, plan: Any) -> None:
    put(tmp_path / "ck" / "proj" / "thesis.txt")
    options = ("--name", "proj", "--checkpoints", "ck")
    done = suite_here("sweep", "smoke", *options, *plan, cwd=tmp_path, code=2)
    assert f"checkpoints in {tmp_path}/ck/proj: the folder holds files" in done.stderr
    assert contents(tmp_path) == {"ck/proj/thesis.txt": b"mine"}


def test_a_folder_in_the_storage_that_holds_files_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "runs" / "proj" / "thesis.txt")
    put(tmp_path / "runs" / "diary" / "journal.jsonl", b'{"day": 1}\n{"day": 2')
    before = contents(tmp_path)
    for name in ("proj", "diary"):
        for resume in ((), ("--resume",)):
            command = ("sweep", "smoke", "--name", name, *resume)
            done = suite_here(*command, cwd=tmp_path, code=2)
            assert f"runs/{name} holds files and no sweep made it" in done.stderr
        assert (
            f"unknown sweep in runs '{name}'"
            in suite_here("stop", name, cwd=tmp_path, code=2).stderr
        )
    assert suite_here("status", "--json", cwd=tmp_path).stdout.strip() == "[]"
    assert contents(tmp_path) == before


BAD_NAMES = [
    "..",
    ".",
    "",
    "a/b",
    "a\\b",
    "a\nb",
    "\x7f",
    " a",
    "a ",
    "\u202ea",
    "\udcff",
    "a" * 256,
]


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize(
    "command",
    [
        ("sweep", "smoke", "--name"),
        ("sweep", "smoke", "--checkpoints", "ck", "--name"),
        ("sweep", "smoke", "--checkpoints", "ck", "--resume", "--name"),
        ("sweep", "smoke", "--dry-run", "--name"),
        ("status",),
        ("stop",),
        ("cancel",),
        ("report", "--name"),
    ],
)
def test_a_name_that_is_none_of_a_folder(tmp_path: Path, name: str, command: Any) -> None:
    here = tmp_path / "here"
    for path in (tmp_path / "a.txt", here / "checkpoints" / "b.pt", here / "ck" / "c", here / "d"):
        put(path)
    put(here / "control", b"stop")
    before = contents(tmp_path)
    done = suite_here(*command, name, cwd=here, code=2)
    assert "must be the name of one folder" in done.stderr
    assert contents(tmp_path) == before
    assert not (here / "runs").exists()


def test_a_sweep_removes_its_checkpoints_and_nothing_else(tmp_path: Path) -> None:
    study = study_file(tmp_path)
    put(tmp_path / "ck" / "other.txt")
    (tmp_path / "ck" / "proj").mkdir()
    sizes = ("--algorithms", "fedavg", "--heterogeneity", "iid", "--trials", 2, "--seeds", 1)
    options = (*sizes, "--name", "proj", "--checkpoints", "ck", "--checkpoint-seconds", 0)
    seen: list[set[str]] = []
    ended = Sweep._ended

    def watched(sweep: Sweep, *given: Any) -> None:
        seen.append({path.name for path in (tmp_path / "ck" / "proj").iterdir()})
        put(tmp_path / "runs" / "proj" / "notes.txt")
        ended(sweep, *given)

    with patch.object(Sweep, "_ended", watched):
        suite_here("sweep", study, *options, *SINGLY, cwd=tmp_path)
    assert all(MARKER in names for names in seen)
    assert contents(tmp_path / "ck") == {"other.txt": b"mine"}
    assert not (tmp_path / "ck" / "proj").exists()
    put(tmp_path / "ck" / "proj" / "thesis.txt")
    again = suite_here("sweep", study, *options, "--resume", cwd=tmp_path, code=2)
    assert "the folder holds files" in again.stderr
    assert contents(tmp_path / "ck") == {"other.txt": b"mine", "proj/thesis.txt": b"mine"}
    assert (tmp_path / "runs" / "proj" / "notes.txt").read_bytes() == b"mine"


# Sweeps whose trials run in this process


_outcomes: dict[str, Outcome] = {}


def outcome(spec: TrialSpec) -> Outcome:
    """What a trial reports; each runs once."""
    key = spec.model_dump_json()
    if key not in _outcomes:
        done = runs.execute(spec, None, "cpu", lambda entry: None).outcome
        done.intermediates = {e["round"]: e["val_accuracy"] for e in done.history}
        _outcomes[key] = done
    return _outcomes[key]


def leave_behind(place: str) -> None:
    """All that a trial may: its checkpoint, one set aside, and a write cut off."""
    for path in (place, f"{place}.damaged", f"{place}.0123abcd.part"):
        Checkpoint(path).save({"round": 1})


def play(sweep: Sweep, most: int = 10**6, then: str = "cancelled") -> Any:
    """Run an opened sweep without Ray; after so many trials it is asked to end."""

    def drive(_: Sweep, resources: Any) -> None:
        folder = sweep.paths.checkpoint_folder
        for _number in range(most):
            found = sweep.search.next()
            if found is None:
                return
            ask, new = found
            sweep._asked(ask, new)
            leave_behind(f"{folder}/{ask.trial_id}.pt")
            leave_behind(f"{folder}/{ask.cell}-r0001/{ask.trial_id}.pt")
            sweep._ended(ask, outcome(sweep.search.spec(ask)))
        sweep.control.end(then)

    with patch.object(Sweep, "_drive", drive):
        return sweep.run(SimpleNamespace())  # type: ignore[arg-type]


def swept(folder: Path, **given: Any) -> SweepPaths:
    """A finished sweep in the storage `folder`/runs."""
    place = SweepPaths(folder / "runs", "s")
    play(Sweep("s", little(**given), place, resume=False))
    return place


class Memory:
    """The part of a tracking store that a sweep needs, without the seconds that MLflow takes."""

    uri = "memory"

    def __init__(self) -> None:
        self.runs: dict[str, Record] = {}

    def experiment(self, study: str) -> str:
        return study

    def create(self, experiment: str, name: str, tags: Any, *_: Any) -> str:
        run_id = f"run{len(self.runs)}-{name}"
        own = {key: str(value) for key, value in tags.items() if value is not None}
        own |= {"experiment_id": experiment, "run_status": "RUNNING"}
        self.runs[run_id] = Record(run_id, own, {}, {})
        return run_id

    def log(self, run_id: str, params: Any = None, history: Any = None, tags: Any = None) -> None:
        for entry in history or []:
            self.runs[run_id].metrics.update(entry)
        self.runs[run_id].tags.update(tags or {})

    def describe(self, run_id: str, text: str) -> None:
        pass

    def set_status(self, run_id: str, status: str) -> None:
        self.runs[run_id].tags["run_status"] = status

    def delete(self, run_id: str) -> None:
        self.runs[run_id].tags.clear()

    def find(self, **tags: str) -> list[Record]:
        return [run for run in self.runs.values() if run.tags and tags.items() <= run.tags.items()]


FOREIGN = [
    "ck/s/thesis.txt",
    "ck/s/model.pt",
    "ck/s/model.pt.damaged",
    "ck/s/0123456789ab-s0000.pt",
    "ck/s/0123456789ab-r0001/x.pt",
    "ck/notes.txt",
    "runs/notes.txt",
    "runs/s/thesis.txt",
    "runs/s/control",
    "runs/s/tuned/digits/iid/logreg/mine.yaml",
    "runs/s/tuned/digits/iid/logreg/fedavg.yaml",
    "runs/s/checkpoints/model.pt",
    "runs/s/tune/notes.txt",
    "runs/other/journal.jsonl",
]
ACTIONS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(FOREIGN)),
    st.tuples(st.sampled_from(["sweep", "resume", "extend"]), st.integers(0, 4)),
    st.tuples(st.just("refused"), st.none()),
    st.tuples(st.just("clean"), st.none()),
)


@settings(max_examples=30)
@given(st.booleans(), st.lists(ACTIONS, min_size=3, max_size=8))
def test_whatever_a_sweep_does_files_of_others_stay(elsewhere: bool, actions: list[Any]) -> None:
    store = Memory()
    with tempfile.TemporaryDirectory() as made, patch("suite.sweeps.sweep.Store", lambda *_: store):
        root = Path(made)
        place = SweepPaths(root / "runs", "s", checkpoints=str(root / "ck") if elsewhere else None)
        theirs: dict[str, bytes] = {}
        for number, (action, value) in enumerate(actions):
            if action == "put":
                if not (root / value).exists():
                    theirs[value] = f"mine {number}".encode()
                    put(root / value, theirs[value])
            else:
                with suppress(UserError):
                    act(place, action, value)
            found = contents(root)
            assert {path: found.get(path) for path in theirs} == theirs, (action, value)


def act(place: SweepPaths, action: str, value: int | None) -> None:
    """A command on a sweep, cut short after `value` trials where it has one."""
    if action == "refused":
        error = patch.object(Sweep, "_drive", side_effect=UserError("no node is large enough"))
        with error:
            Sweep("s", little(), place, resume=place.begun).run(SimpleNamespace())  # type: ignore[arg-type]
        return
    trials = 4 if action == "extend" else 2
    with suppress(UserError):  # what was extended does not shrink
        sweep = Sweep("s", little(trials=trials), place, resume=action != "sweep")
        result = play(sweep, 10**6 if value is None else value)
        if not result.ending:
            left = contents(place.storage.parent)
            ids = tuple(sweep.search.asks)
            assert not [path for path in left if Path(path).name.startswith(ids)]


def test_a_sweep_that_is_refused_before_its_first_trial_leaves_no_folder(tmp_path: Path) -> None:
    place = SweepPaths(tmp_path / "runs", "s", checkpoints=str(tmp_path / "ck"))
    with pytest.raises(UserError, match="no node"):
        act(place, "refused", None)
    assert not place.folder.exists()
    assert not (tmp_path / "ck" / "s").exists()
    play(Sweep("s", little(), place, resume=False))


def test_files_in_the_way_inside_the_sweeps_own_folder_stay(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = SweepPaths(tmp_path / "runs", "s")
    play(Sweep("s", little(), place, resume=False), 1)
    tuned = put(place.folder / "tuned" / "digits" / "iid" / "logreg" / "fedavg.yaml")
    word = put(place.folder / "control")
    stopped = suite_here("stop", "s", cwd=tmp_path, code=2)
    assert "control is in the way" in stopped.stderr
    play(Sweep("s", little(), place, resume=True))
    assert (tuned.read_bytes(), word.read_bytes()) == (b"mine", b"mine")
    assert "fedavg.yaml stays: the suite did not write it" in capsys.readouterr().err
    place.journal.write_bytes(b'{"day": 1}\n{"day')
    with pytest.raises(UserError, match="no sweep made it"):
        Sweep("s", little(), place, resume=True)
    assert place.journal.read_bytes() == b'{"day": 1}\n{"day'


def test_two_sweeps_of_one_name_do_not_share_a_folder_of_checkpoints(tmp_path: Path) -> None:
    one, two = (SweepPaths(tmp_path / root, "s", checkpoints=str(tmp_path / "ck")) for root in "ab")
    play(Sweep("s", little(), one, resume=False), 1)
    before = contents(tmp_path / "ck")
    with pytest.raises(UserError, match="another sweep of this name has the folder"):
        Sweep("s", little(), two, resume=False)
    assert contents(tmp_path / "ck") == before
    play(Sweep("s", little(), one, resume=True))
    assert not (tmp_path / "ck" / "s").exists()
    play(Sweep("s", little(), two, resume=False))


def test_a_folder_that_keeps_files_of_others_is_the_sweeps_still(tmp_path: Path) -> None:
    place = SweepPaths(tmp_path / "runs", "s", checkpoints=str(tmp_path / "ck"))
    play(Sweep("s", little(), place, resume=False), 1)
    put(tmp_path / "ck" / "s" / "notes.txt")
    play(Sweep("s", little(), place, resume=True))
    assert set(contents(tmp_path / "ck")) == {"s/notes.txt", f"s/{MARKER}"}
    play(Sweep("s", little(trials=4), place, resume=True))
    assert set(contents(tmp_path / "ck")) == {"s/notes.txt", f"s/{MARKER}"}


@pytest.mark.parametrize("stranger", [False, True])
def test_a_sweep_of_an_earlier_version_without_markers_is_resumed(
    tmp_path: Path, stranger: bool
) -> None:
    place = SweepPaths(tmp_path / "runs", "s", checkpoints=str(tmp_path / "ck"))
    play(Sweep("s", little(), place, resume=False), 1)
    begin, *others = [json.loads(line) for line in place.journal.read_text().splitlines()]
    del begin["id"]
    place.journal.write_text(
        "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in (begin, *others))
    )
    for folder in (place.folder, tmp_path / "ck" / "s"):
        (folder / MARKER).unlink()
    if stranger:
        put(tmp_path / "ck" / "s" / "model.pt")
        with pytest.raises(UserError, match="holds files and no sweep made it"):
            Sweep("s", little(), place, resume=True)
        return
    play(Sweep("s", little(), place, resume=True))
    assert not (tmp_path / "ck" / "s").exists()


def test_checkpoints_may_lie_in_the_sweeps_own_folder(tmp_path: Path) -> None:
    place = SweepPaths(tmp_path / "runs", "s", checkpoints=str(tmp_path / "runs"))
    play(Sweep("s", little(), place, resume=False), 1)
    play(Sweep("s", little(), place, resume=True))
    assert place.begun
    assert list(place.folder.glob("tuned/**/fedavg.yaml"))


def test_a_name_is_quoted_in_a_uri(tmp_path: Path) -> None:
    place = SweepPaths(tmp_path / "runs", "a #1 50%?", checkpoints=(tmp_path / "ck").as_uri())
    play(Sweep("s", little(), place, resume=False), 1)
    assert (tmp_path / "ck" / "a #1 50%?" / MARKER).exists()


def test_records_of_a_sweep_whose_folder_is_gone_stay(tmp_path: Path) -> None:
    place = swept(tmp_path)
    before = {run.run_id for run in records(tmp_path)}
    place.folder.rename(tmp_path / "aside")
    with pytest.raises(UserError, match="whose folder there is gone: choose another --name"):
        Sweep("s", little(), place, resume=False)
    assert {run.run_id for run in records(tmp_path)} == before
    assert not place.folder.exists()


# The leaderboard's rows


class CutError(BaseException):
    """A kill."""


@pytest.fixture
def two_cells(tmp_path: Path) -> SweepPaths:
    """A finished sweep whose rows in the store are told from later ones by their date."""
    place = swept(tmp_path, heterogeneity=["iid", "labels(2)"])
    store = Store(None, place.storage)
    for row in store.find(kind="leaderboard"):
        former = row.tags["tuned"].replace("date: '", "date: 'former ")
        store.log(row.run_id, tags={"tuned": former})
    return place


@pytest.mark.parametrize(
    ("where", "dates"),
    [((Ledger, "_publish"), (2, 0)), ((Store, "delete"), (0, 2)), ((Store, "set_status"), (1, 1))],
)
def test_a_harvest_cut_off_leaves_a_row_for_every_cell(
    two_cells: SweepPaths, where: Any, dates: tuple[int, int]
) -> None:
    def tuned() -> list[bool]:
        done = suite_here("tuned", "list", "--json", cwd=two_cells.storage.parent)
        return sorted(t["provenance"]["date"].startswith("former") for t in document(done))

    def cut(*given: Any) -> None:
        raise CutError

    sweep = Sweep("s", little(heterogeneity=["iid", "labels(2)"]), two_cells, resume=True)
    sweep.ledger.open()
    with patch.object(*where, cut), pytest.raises(CutError):
        sweep._harvest()
    sweep.journal.close()
    former, new = dates
    assert tuned() == [False] * new + [True] * former
    board = suite_here("leaderboard", "--json", cwd=two_cells.storage.parent)
    assert len(document(board)["rows"]) == 2
    play(Sweep("s", little(heterogeneity=["iid", "labels(2)"]), two_cells, resume=True))
    assert tuned() == [False] * 2
    assert len(Store(None, two_cells.storage).find(kind="leaderboard")) == 2


# Files that a person asks for


def wanted(folder: Path) -> dict[str, tuple[tuple[Any, ...], str]]:
    """Commands that write where they are told, and one of the files each writes."""
    return {
        "export": (("tuned", "export", "out"), "out/digits/iid/logreg/fedavg.yaml"),
        "page": (("report", "--output", "out"), "out/report.html"),
        "figure": (("report", "--output", "out"), "out/figures/*.svg"),
        "html": (("data", "describe", "digits", "--html", "a.html"), "a.html"),
        "png": (("data", "describe", "digits", "--png", "a.png"), "a.png"),
        "reproduction": (("reproduce", "folb/table1", "--output", "out"), "out/folb-table1.md"),
        "document": (("reproduce", "folb/table1", "--output", "out"), "out/folb-table1.json"),
    }


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a finished sweep; papers' tables take no time in it."""
    folder = tmp_path_factory.mktemp("finished")
    swept(folder)
    document = {"paper": "FOLB", "cites": "x", "command": "suite reproduce folb/table1", "rows": []}
    document |= {"protocol": "p", "verdicts": {}, "rules": [], "made_with": []}
    report = SimpleNamespace(document=lambda: document, interrupted=False, failed=0)
    with patch("suite.reproduction.reproduce.reproduce", return_value=report):
        yield folder


@pytest.mark.parametrize("case", wanted(Path()))
def test_what_was_written_is_written_again_and_nothing_else(
    finished: Path, tmp_path: Path, case: str
) -> None:
    command, name = wanted(tmp_path)[case]
    if case in ("export", "page", "figure"):
        command += ("--storage", finished / "runs")
    for _ in range(2):
        suite_here(*command, cwd=tmp_path)
    target = next(tmp_path.glob(name))
    target.write_bytes(b"mine, for years")
    before = contents(tmp_path)
    done = suite_here(*command, cwd=tmp_path, code=2)
    assert f"{target.relative_to(tmp_path)} is there and the suite did not write it" in done.stderr
    assert contents(tmp_path) == before


def test_an_empty_file_is_written_over(tmp_path: Path) -> None:
    """As `mktemp` makes it."""
    put(tmp_path / "a.png", b"")
    suite_here("data", "describe", "digits", "--png", "a.png", cwd=tmp_path)
    assert (tmp_path / "a.png").read_bytes()


def test_a_report_lists_its_own_figures(finished: Path, tmp_path: Path) -> None:
    mine = put(tmp_path / "out" / "figures" / "mine.svg")
    command = ("report", "--output", "out", "--storage", finished / "runs", "--json")
    assert mine.name not in suite_here(*command, cwd=tmp_path).stdout
    assert mine.read_bytes() == b"mine"


def test_a_plot_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    put(tmp_path / "a.svg")
    with patch("suite.bench.scaling.scaling", side_effect=AssertionError):
        done = suite_here("bench", "scaling", "--plot", "a.svg", cwd=tmp_path, code=2)
    assert "a.svg is there and the suite did not write it" in done.stderr


def test_a_calibration_that_is_not_ours_stays(tmp_path: Path) -> None:
    for content in (b'{"camera": [1, 2]}', b"[1]", b"no json", b"\xff"):
        path = put(tmp_path / "calibration.json", content)
        assert Costs(tmp_path).seconds == {}
        assert not Costs(tmp_path).kept
        assert path.read_bytes() == content


# Data


def test_arrays_of_others_where_a_cache_would_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = {"x": np.arange(3)}
    np.savez(tmp_path / "a.npz", x=np.arange(9))
    np.save(tmp_path / "array", np.arange(9))
    (tmp_path / "array.npy").rename(tmp_path / "b.npz")
    before = {path: path.read_bytes() for path in tmp_path.glob("*.npz")}

    def never() -> dict[str, Any]:
        raise AssertionError

    for name in ("a.npz", "b.npz"):
        makes: tuple[Callable[[], Any], ...] = (lambda: made, never)
        for make in makes:
            assert np.array_equal(cached(tmp_path, name, "key", make)["x"], made["x"])
    assert {path: path.read_bytes() for path in tmp_path.glob("*.npz")} == before


def test_a_download_leaves_what_is_there(tmp_path: Path) -> None:
    class Reckless(DatasetFamily):
        """Downloads over what is there, and removes a folder on its way."""

        def load(self, seed: int, clients: int | None, root: str | None) -> Any:
            raise NotImplementedError

        def files(self, root: Path) -> list[FileReport]:
            path = root / "raw" / "wanted.gz"
            found = "it" if path.exists() else None
            return [FileReport(path.name, path, "it", found, found == "it", "")]

        def download(self, root: Path) -> None:
            for name in ("raw/wanted.gz", "raw/unpacked", "raw/gzip/part"):
                put(root / name, b"downloaded")
            (root / "raw" / "gzip" / "part").unlink()
            for path in (root / "raw" / "gzip").iterdir():
                path.unlink()

    put(tmp_path / "raw" / "unpacked")
    put(tmp_path / "raw" / "gzip" / "notes.txt")
    Reckless().fetch(str(tmp_path))
    assert contents(tmp_path) == {
        "raw/unpacked": b"mine",
        "raw/gzip/notes.txt": b"mine",
        "raw/wanted.gz": b"downloaded",
    }
