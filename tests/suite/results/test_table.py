"""The table of a sweep: what its page says of it, what is made of it alone, and files that are none."""

import contextlib
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import suite
from suite.results.table import COLUMNS, CURVES, FILE, KEY, TrialTable, read, write
from suite.sweeps.tables import local_table, open_tables
from tests.support.commands import suite_here
from tests.support.simulations import ROOT
from tests.support.stores import recorded
from trials.common.errors import UserError


@pytest.fixture
def storage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded(tmp_path_factory) / "runs"


@pytest.fixture
def mailed(storage: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(storage / "s" / FILE, tmp_path / "mailed.parquet"))


def test_the_page_has_all_columns() -> None:
    """In their order, with a meaning."""
    text = (ROOT / "docs" / "table.md").read_text().partition("\n## Ask MLflow\n")[0]
    cells = re.findall(r"^\| (`.+?`) \| .{9,} \|$", text, re.MULTILINE)
    assert re.findall(r"`(\w+)`", " ".join(cells)) == [*COLUMNS, *CURVES]


def test_a_row_a_trial_with_its_course(storage: Path) -> None:
    trials = suite.load("s", storage=storage, curves=True)
    assert sorted(set(trials["kind"])) == ["final", "search"]
    assert len(trials) == 3 * 2 * 2 * (2 + 2)
    first = trials[trials["kind"] == "final"].iloc[0]
    assert first["test"][-1] == pytest.approx(first["test_score"], abs=0.2)
    assert list(first["round"]) == [0, 1, 2]
    assert json.loads(first["settings"])["rounds"] == 2
    pd.testing.assert_frame_equal(suite.load(storage / "s" / FILE, curves=True), trials)
    by_study = suite.load(trials["study"].iloc[0], storage=storage, curves=True)
    pd.testing.assert_frame_equal(by_study, trials)


def test_its_rows_are_those_of_the_journal(storage: Path, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    shutil.copytree(storage, folder)
    names, ended = [*COLUMNS, *CURVES], local_table(folder, "s")
    rows = ended.columns(names)
    (folder / "s" / FILE).unlink()
    again = local_table(folder, "s")
    assert again.facts.ended is None
    assert ended.facts.ended is not None
    pd.testing.assert_frame_equal(again.columns(names), rows)


def test_a_colleague_ranks_and_reports_with_the_file_alone(mailed: Path, storage: Path) -> None:
    alone = suite_here("leaderboard", mailed.name, "--json", cwd=mailed.parent)
    rows = json.loads(alone.stdout)["rows"]
    there = suite.leaderboard("s", storage=storage).as_dict()["rows"]
    assert [row["mean"] for row in rows] == [row["mean"] for row in there]
    assert suite.report(mailed, output=mailed.parent / "page").page.stat().st_size > 10_000


def test_two_sweeps_of_one_name_stand_side_by_side(mailed: Path, tmp_path: Path) -> None:
    table, theirs = read(mailed), tmp_path / "theirs.parquet"
    write(theirs, TrialTable(table.facts.model_copy(update={"id": "f" * 32}), table.whole()))
    tables = open_tables(tmp_path, names=[str(mailed), str(theirs)])
    assert [*tables.facts] == ["s", "s-ffffff"]
    assert len(tables.finals) == 2 * 24


def test_a_board_does_not_depend_on_the_order_of_rows(storage: Path, tmp_path: Path) -> None:
    table, back = read(storage / "s" / FILE), tmp_path / "back.parquet"
    rows = table.whole()
    write(back, TrialTable(table.facts, rows.take(list(range(len(rows)))[::-1])))
    assert suite.leaderboard(back) == suite.leaderboard(storage / "s" / FILE)


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"metric": "unseen"}, "unseen is not recorded"),
        ({"at": "seconds"}, r"simulated_time .*\+speed"),
        ({"where": {"dataset": "mnist"}}, "no final run has"),
        ({"where": {"datset": "digits"}}, "Did you mean 'dataset'"),
    ],
)
def test_a_board_says_so_where_names_or_metrics_are_none(
    storage: Path, asked: dict[str, object], named: str
) -> None:
    with pytest.raises(UserError, match=named):
        suite.leaderboard("s", storage=storage, **asked)
    with pytest.raises(UserError, match="unknown sweep 'x'"):
        suite.load("x", storage=storage)


def with_facts(path: Path, **facts: object) -> None:
    content = pq.read_table(path)
    metadata = json.loads(content.schema.metadata[KEY]) | facts
    replaced = content.replace_schema_metadata({KEY: json.dumps(metadata)} if facts else None)
    pq.write_table(replaced, path)


def with_cells(path: Path, name: str, values: list[object]) -> None:
    content = pq.read_table(path)
    place, cells = content.column_names.index(name), content[name].to_pylist()
    cells[: len(values)] = values
    changed = content.set_column(place, content.field(name), [cells])
    pq.write_table(changed, path)


ALTERED = (
    lambda path: pq.write_table(pa.concat_tables([pq.read_table(path)] * 2), path),
    lambda path: with_facts(path, entries=[]),
    lambda path: with_cells(path, "seed", [None]),
    lambda path: with_cells(path, "replicate", [None]),
    lambda path: with_cells(path, "params", ["[]"]),
    lambda path: with_cells(path, "metric", ["acuracy"]),
    lambda path: with_cells(path, "settings", ["{"]),
    lambda path: path.write_bytes(path.read_bytes()[:-100]),
    lambda path: path.write_text("no table"),
    lambda path: with_facts(path, format=99),
    lambda path: with_facts(path, entries=3),
    lambda path: pq.write_table(pq.read_table(path).drop_columns(["seed"]), path),
    with_facts,
)


@pytest.mark.parametrize("alter", ALTERED)
def test_what_is_no_table_is_refused(mailed: Path, alter: Callable[[Path], object]) -> None:
    alter(mailed)
    with pytest.raises(UserError, match=f"^table {mailed} .*$"):
        suite.leaderboard(mailed)


def test_a_flipped_bit_is_no_other_number(mailed: Path) -> None:
    rows, content = read(mailed).columns([*COLUMNS]), mailed.read_bytes()
    for place in range(10, len(content) // 2, len(content) // 30):
        mailed.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with contextlib.suppress(UserError):
            pd.testing.assert_frame_equal(read(mailed).columns([*COLUMNS]), rows)


def test_one_that_says_it_is_larger_than_memory_is_not_read(
    mailed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sysconf", lambda name: 10)
    with pytest.raises(UserError, match="memory"):
        read(mailed)
