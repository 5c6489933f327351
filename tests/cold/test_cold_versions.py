"""The oldest and the newest versions that pyproject.toml accepts, without extras: the files of constraints say which
(`make constraints` writes both).
"""

import json
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.installed import bounds, pinned

pytestmark = [pytest.mark.cold, pytest.mark.nightly]
FILES = ("constraints-oldest.txt", "constraints-newest.txt")


@pytest.mark.parametrize("file", FILES)
def test_the_suite_works(file, installed, tmp_path: Path):
    here = installed(file)
    assert here.types("python -c 'import numba' 2>/dev/null || echo none", tmp_path) == "none\n"
    run = "suite run --algorithm scaffold --dataset digits --model 'mlp(16)' --set rounds=2 --json"
    assert len(json.loads(here.types(run, tmp_path))["history"]) == 3
    here.types("suite sweep smoke --smoke", tmp_path)
    rows = json.loads(here.types("suite leaderboard --json", tmp_path))["rows"]
    assert any(row["rank"] == 1 for row in rows)


@pytest.mark.parametrize("file", FILES)
def test_a_file_of_constraints_is_within_the_bounds(file):
    versions = pinned(file)
    for bound in map(Requirement, bounds()):
        name = canonicalize_name(bound.name)
        assert bound.specifier.contains(versions[name]), f"{bound}: {file} has {versions[name]}"
