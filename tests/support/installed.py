"""Environments as a stranger has them: the built wheel in a fresh one, without the checkout on its path,
and every command in a process of its own.

`uv` installs, since four environments of PyTorch, Ray and MLflow take pip minutes each.
"""

import os
import re
import signal
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).with_name("uv")
OURS = ("PYTHON", "PIP_", "RAY_", "MLFLOW_", "SUITE_", "TUNE_", "XDG_", "VIRTUAL_ENV", "COV_")
"""What of this process's environment a stranger's shell does not have, by how names begin."""


@dataclass(frozen=True)
class Installed:
    """An environment with the suite in it."""

    folder: Path

    @property
    def shell(self) -> dict[str, str]:
        """The variables of a shell in which it is activated."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        path = f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
        return {**kept, "PATH": path, "HOME": str(home), "COLUMNS": "100"}

    def types(self, line: str, cwd: Path, code: int | None = 0) -> str:
        """What a line typed in a folder prints, on standard output where there is anything; it has to end with
        this exit code (None: with any), and without a traceback.
        """
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=cwd,
            env=self.shell,
            capture_output=True,
            text=True,
            timeout=600,
            stdin=subprocess.DEVNULL,
        )
        said = f"{line}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        assert "Traceback" not in done.stdout + done.stderr, said
        assert code in (None, done.returncode), said
        return done.stdout or done.stderr

    def serves(self, line: str, cwd: Path) -> str:
        """The first line with an address that a server's command prints; Ctrl-C ends it."""
        server = subprocess.Popen(
            ["bash", "-c", f"exec {line} 2>&1"],
            cwd=cwd,
            env=self.shell,
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        assert server.stdout is not None
        seen = []
        for printed in server.stdout:
            seen.append(printed)
            if "http://" in printed:
                break
        server.send_signal(signal.SIGINT)
        rest, _ = server.communicate(timeout=60)
        assert "http://" in seen[-1], seen
        assert "Traceback" not in "".join(seen) + rest, rest
        return seen[-1]


def uv(*args: object) -> None:
    # A shop of wheels that pip was told of, such as one of PyTorch without CUDA, holds for uv too.
    env = {**os.environ, "UV_FIND_LINKS": os.environ.get("PIP_FIND_LINKS", "")}
    done = subprocess.run([UV, *map(str, args)], env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"uv {' '.join(map(str, args))}\n{done.stderr[-3000:]}"


def pinned(constraints: str) -> dict[str, str]:
    """The versions that a file of constraints pins, by package."""
    text = (ROOT / constraints).read_text()
    return dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE))


def bounds() -> list[str]:
    """What pyproject.toml says of dependencies."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
