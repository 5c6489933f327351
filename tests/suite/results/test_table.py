"""The table of a sweep: what its page says of it, and files that are none."""

import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

import suite
from suite.results.table import COLUMNS, CURVES, FILE, KEY, TrialTable, read, write
from suite.sweeps.tables import local_table, open_tables
from tests.support.commands import fault, suite_here
from tests.support.stores import recorded
from trials.common.errors import UserError

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory) / "runs"


@pytest.fixture
def mailed(storage: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(storage / "s" / FILE, tmp_path / "mailed.parquet"))


def test_the_page_has_all_columns():
    """In their order, with a meaning."""
    text = (ROOT / "docs" / "table.md").read_text().partition("\n## Ask MLflow\n")[0]
    cells = re.findall(r"^\| (`.+?`) \| .{9,} \|$", text, re.MULTILINE)
    assert re.findall(r"`(\w+)`", " ".join(cells)) == [*COLUMNS, *CURVES]


def test_a_row_a_trial_with_its_course(storage: Path):
    trials = suite.load("s", storage=storage, curves=True)
    assert sorted(set(trials["kind"])) == ["final", "search"]
    assert len(trials) == 3 * 2 * 2 * (2 + 2)
    first = trials[trials["kind"] == "final"].iloc[0]
    assert first["test"][-1] == pytest.approx(first["test_score"], abs=0.2)
    assert list(first["round"]) == [0, 1, 2]
    assert json.loads(first["settings"])["rounds"] == 2
    pd.testing.assert_frame_equal(suite.load(storage / "s" / FILE, curves=True), trials)


def test_its_rows_are_those_of_the_journal(storage: Path, tmp_path: Path):
    folder = tmp_path / "runs"
    shutil.copytree(storage, folder)
    ended = local_table(folder, "s")
    names = [*COLUMNS, *CURVES]
    rows = ended.columns(names)
    (folder / "s" / FILE).unlink()
    again = local_table(folder, "s")
    assert again.facts.ended is None
    assert ended.facts.ended is not None
    pd.testing.assert_frame_equal(again.columns(names), rows)


def test_a_colleague_ranks_and_reports_with_the_file_alone(mailed: Path, storage: Path):
    alone = suite_here("leaderboard", mailed.name, "--json", cwd=mailed.parent)
    rows = json.loads(alone.stdout)["rows"]
    there = suite.leaderboard("s", storage=storage).as_dict()["rows"]
    assert [row["mean"] for row in rows] == [row["mean"] for row in there]
    made = suite_here("report", mailed.name, "--json", cwd=mailed.parent)
    assert Path(mailed.parent / json.loads(made.stdout)["page"]).stat().st_size > 10_000


def test_two_sweeps_of_one_name_stand_side_by_side(mailed: Path, tmp_path: Path):
    table = read(mailed)
    other = TrialTable(table.facts.model_copy(update={"id": "f" * 32}), table.whole())
    write(tmp_path / "theirs.parquet", other)
    tables = open_tables(tmp_path, files=[mailed, tmp_path / "theirs.parquet"])
    assert [source.sweep for source in tables.sources] == ["s", "s-ffffff"]
    assert len(tables.finals) == 2 * 24


def test_a_board_is_the_same_in_whatever_order_its_search_trials_are(storage: Path, tmp_path: Path):
    table = read(storage / "s" / FILE)
    rows = table.whole()
    back = tmp_path / "back.parquet"
    write(back, TrialTable(table.facts, rows.take(list(range(len(rows)))[::-1])))
    board, again = (suite.leaderboard(path) for path in (storage / "s" / FILE, back))
    assert again == board


def test_a_board_says_so_where_names_or_metrics_are_none(storage: Path):
    for wanted, named in (
        ({"metric": "unseen"}, "unseen is not recorded"),
        ({"at": "seconds"}, r"simulated_time .*\+speed"),
        ({"where": {"dataset": "mnist"}}, "no final run has"),
        ({"where": {"datset": "digits"}}, "Did you mean 'dataset'"),
    ):
        with pytest.raises(UserError, match=named):
            suite.leaderboard("s", storage=storage, **wanted)
    with pytest.raises(UserError, match="unknown sweep 'x'"):
        suite.load("x", storage=storage)
    by_study = suite.load(read(storage / "s" / FILE).facts.study_name, storage=storage)
    assert len(by_study) == len(suite.load("s", storage=storage))


def lacking(path: Path) -> None:
    pq.write_table(pq.read_table(path).drop_columns(["seed"]), path)


def with_facts(path: Path, **facts: object) -> None:
    content = pq.read_table(path)
    known = json.loads(content.schema.metadata[KEY]) | facts
    pq.write_table(
        content.replace_schema_metadata({KEY: json.dumps(known)} if facts else None), path
    )


@pytest.mark.parametrize(
    ("alter", "named"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-100]), "cannot be read: "),
        (lambda path: path.write_text("no table"), "cannot be read: "),
        (lambda path: with_facts(path, format=99), "was written by a later suite"),
        (lambda path: with_facts(path, entries=3), "TableFacts"),
        (lacking, "the column seed"),
        (with_facts, "no metadata `suite`"),
    ],
)
def test_what_is_no_table_is_refused_in_one_line(mailed: Path, alter, named: str):
    alter(mailed)
    message = fault(suite_here("leaderboard", mailed.name, cwd=mailed.parent, code=2))
    assert message.startswith(f"table {mailed.name} ")
    assert named in message
    assert "\n" not in message


def test_one_that_says_it_is_larger_than_memory_is_not_read(mailed: Path, monkeypatch):
    monkeypatch.setattr("os.sysconf", lambda name: 10)
    with pytest.raises(UserError, match="this machine's memory does not hold"):
        read(mailed)
