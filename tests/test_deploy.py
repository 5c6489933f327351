"""The deployment files: what can be checked of them without a cloud, and that commands in docs exist."""

import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import ray
import yaml
from typer.main import get_command

from suite.cli.app import app
from suite.cli.options import keys_of

ROOT = Path(__file__).parents[1]
LAUNCHER = ROOT / "deploy" / "ray-cluster.yaml"
JOB = ROOT / "deploy" / "rayjob.yaml"
SCRIPT = ROOT / "deploy" / "slurm.sh"
GUIDE = ROOT / "docs" / "cluster.md"
TEXTS = [ROOT / "README.md", GUIDE, *sorted(set((ROOT / "docs").rglob("*.md")) - {GUIDE})]


def options(words: list[str]) -> set[str] | None:
    """What the command named by a line's first words accepts; None if they name none.

    In a group the second word names the command: `tuned list`.
    """
    command: Any = get_command(app)
    for word in words:
        if not hasattr(command, "commands"):
            break
        if word not in command.commands:
            return None
        command = command.commands[word]
    own = {opt for param in command.params for opt in param.opts} | {"--help"}
    keys = {key.replace("_", "-") for taker in own & {"--set", "--where"} for key in keys_of(taker)}
    return own | {f"--{key}" for key in keys}


def used(text: str) -> list[tuple[list[str], set[str]]]:
    """(its first words, its options) of each `suite ...` line of a text."""
    joined = text.replace("\\\n", " ").replace("`\n", "` ")
    lines = re.findall(r"(?:^|[\s/`'])suite ([a-z][^\n`|&#]*)", joined, re.MULTILINE)
    return [(line.split()[:2], set(re.findall(r"--[a-z-]+", line))) for line in lines]


def test_the_launcher_s_file_has_the_form_that_ray_asks_for() -> None:
    schema = Path(ray.__file__).parent / "autoscaler" / "ray-schema.json"
    content = yaml.safe_load(LAUNCHER.read_text())
    jsonschema.validate(content, json.loads(schema.read_text()))
    assert content["head_node_type"] in content["available_node_types"]
    starts = [*content["head_start_ray_commands"], *content["worker_start_ray_commands"]]
    for start in starts:
        if "ray start" in start:
            assert "RAY_AUTH_MODE=token" in start
        shlex.split(start)
    assert "dashboard-host=127.0.0.1" in " ".join(starts)


def test_the_job_for_kubernetes_names_what_it_mounts() -> None:
    content = yaml.safe_load(JOB.read_text())
    assert (content["apiVersion"], content["kind"]) == ("ray.io/v1", "RayJob")
    spec = content["spec"]
    cluster = spec["rayClusterSpec"]
    assert cluster["authOptions"] == {"mode": "token"}
    assert cluster["rayVersion"] == ray.__version__
    workers = cluster["workerGroupSpecs"]
    assert all(w["minReplicas"] <= w["replicas"] <= w["maxReplicas"] for w in workers)
    for group in [cluster["headGroupSpec"], *workers]:
        pod = group["template"]["spec"]
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in pod["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
        assert all(isinstance(value, str) for value in group["rayStartParams"].values())
    assert "--resume" in spec["entrypoint"]


def test_the_script_for_slurm_is_bash() -> None:
    done = subprocess.run(["bash", "-n", SCRIPT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text = SCRIPT.read_text()
    assert "RAY_AUTH_MODE=token" in text
    assert "umask 077" in text
    # What sbatch reads stands before the first command.
    head = text[: text.index("set -euo")]
    assert {"--nodes", "--cpus-per-task", "--time", "--signal"} <= set(
        re.findall(r"--[a-z-]+", head)
    )


@pytest.mark.parametrize(
    "path", [LAUNCHER, JOB, SCRIPT, *TEXTS], ids=lambda path: str(path.relative_to(ROOT))
)
def test_commands_exist_and_take_these_options(path: Path) -> None:
    named = set()
    for words, given in used(path.read_text()):
        known = options(words)
        if known is not None:
            named.add(words[0])
            assert given <= known, f"suite {' '.join(words)}"
    if path is GUIDE:
        assert {"sweep", "status", "stop"} <= named
