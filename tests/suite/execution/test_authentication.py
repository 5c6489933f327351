"""Who can use the cluster that a sweep starts for itself, and what it listens on."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from suite.execution import cluster
from suite.execution.cluster import Resources, ray
from tests.support.simulations import ROOT

GUIDE = ROOT / "docs" / "cluster.md"
OURS = """
import json, os, sys
from suite.execution.cluster import Resources, connect, ray
import psutil  # comes with Ray

@ray.remote
def own(path):
    open(path, "w").close()
    return os.environ.get("RAY_AUTH_TOKEN", "")

with connect(Resources()):
    token = ray.get(own.remote(sys.argv[1]))
    me = psutil.Process()
    processes = [
        {
            "name": "suite" if process == me else process.name(),
            "command": process.cmdline(),
            "listens": [c.laddr.ip for c in process.net_connections("inet") if c.status == "LISTEN"],
        }
        for process in [me, *me.children(recursive=True)]
    ]
    context = ray.get_runtime_context()
    session = os.environ["RAY_TMPDIR"]
    found = {"address": context.gcs_address, "session": session, "token": token}
    print(json.dumps(found | {"processes": processes}), file=sys.__stdout__, flush=True)
    sys.stdin.read()
"""
OTHERS = """
import sys
import ray

@ray.remote
def intrude(path):
    open(path, "w").close()

ray.init(sys.argv[1], log_to_driver=False)
ray.get(intrude.remote(sys.argv[2]), timeout=60)
"""
TOKENS = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")


def environment(home: Path, **settings: str) -> dict[str, str]:
    """This process's, with a home and settings of authentication of one's own."""
    kept = {name: value for name, value in os.environ.items() if name not in TOKENS}
    return {**kept, "HOME": str(home), **settings}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The cluster of a process whose user has a token for others, and has switched tokens off."""
    home = tmp_path_factory.mktemp("home")
    (home / ".ray").mkdir()
    (home / ".ray" / "auth_token").write_text("1" * 64)
    process = subprocess.Popen(
        [sys.executable, "-c", OURS, home / "own"],
        env=environment(home, RAY_AUTH_MODE="disabled"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    line = process.stdout.readline()
    try:
        yield {"home": home, **json.loads(line)}
    finally:
        process.stdin.close()
        process.wait(60)


@pytest.mark.slow("five processes that join a cluster")
def test_who_has_not_the_token_is_refused(ours: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    given = {
        "none": {},
        "disabled": {"RAY_AUTH_MODE": "disabled"},
        "wrong": {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64},
        "user": {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": f"{ours['home']}/.ray/auth_token",
        },
        "right": {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": ours["token"]},
    }
    others = {
        name: subprocess.Popen(
            [sys.executable, "-c", OTHERS, ours["address"], tmp_path / name],
            # Ray asks twenty times, a second apart, unless told otherwise.
            env=environment(tmp_path / "home", RAY_NUM_REDIS_GET_RETRIES="2", **settings),
            stderr=subprocess.PIPE,
            text=True,
        )
        for name, settings in given.items()
    }
    said = {name: other.communicate(timeout=120)[1] for name, other in others.items()}
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["home", "right"]
    for name, other in others.items():
        assert (other.returncode == 0) == (name == "right"), said[name]
        assert ("InvalidAuthToken" in said[name]) == (name != "right"), said[name]


def test_own_tasks_run_and_the_token_is_in_no_file_and_no_command_line(
    ours: dict[str, Any],
) -> None:
    home, token = ours["home"], ours["token"]
    assert (home / "own").exists()
    assert re.fullmatch("[0-9a-f]{64}", token)
    assert [path.name for path in (home / ".ray").iterdir()] == ["auth_token"]
    assert (home / ".ray" / "auth_token").read_text() == "1" * 64
    assert not [p for p in ours["processes"] if token in " ".join(p["command"])]
    written = [path for path in Path(ours["session"]).rglob("*") if path.is_file()]
    assert any("gcs_server" in path.name for path in written)
    assert not [path for path in written if token.encode() in path.read_bytes()]


def test_what_listens_is_what_the_guide_lists(ours: dict[str, Any]) -> None:
    section = GUIDE.read_text().partition("\n## Security\n")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `(.+?)`.* \| (.+?) \| .+ \|$", section, re.MULTILINE))
    assert rows.pop("suite ui").startswith("loopback")
    where = {
        "all interfaces": {"::", "0.0.0.0"},
        "this machine's address": {ours["address"].rpartition(":")[0]},
    }
    seen = set()
    for process in ours["processes"]:
        if process["listens"]:
            kind = next(kind for kind in rows if fnmatch(process["name"], kind))
            assert set(process["listens"]) <= where[rows[kind]], process
            seen.add(kind)
    assert seen == set(rows)


@pytest.mark.usefixtures("no_ray_yet")
@pytest.mark.parametrize("address", [None, "local"])
def test_all_that_starts_a_cluster_gives_it_a_token(
    address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_AUTH_TOKEN", "the user's")

    def init(started: str, **options: Any) -> None:
        assert started == "local"
        assert os.environ["RAY_AUTH_MODE"] == "token"
        assert os.environ["RAY_AUTH_TOKEN"] == cluster.TOKEN

    monkeypatch.setattr(ray, "init", init)
    with cluster.connect(Resources(address=address)) as made:
        assert not made.shared
