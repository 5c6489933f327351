"""Whatever a study or a configuration says: exit code 0 or 2, no traceback, one message, nothing written beside the storage."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.studies.study import Study
from tests.support.commands import suite_here, whole
from tests.support.small import SMALL, TUNED
from trials.settings import Settings

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1200)]
often = settings(max_examples=300)

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(0, 40),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["full", "grid", "asha", "natural", "iid+system(steps=1..4)", "own"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS = ["lr", "mu", "batch_size", "fedavg.lr", "low", "high", "choices", "default", "best"]


def mappings(keys: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(keys), VALUES, max_size=3)


STUDIES = st.builds(
    lambda changes, inner, search: {
        **SMALL,
        **changes,
        "settings": {**SMALL["settings"], **inner},
        **({"search": search} if search else {}),
    },
    mappings(sorted(Study.model_fields)),
    mappings(sorted(Settings.model_fields)),
    st.dictionaries(st.sampled_from(KEYS), st.one_of(VALUES, mappings(KEYS)), max_size=2),
)
CONFIGURATIONS = st.builds(
    lambda changes, inner: {**TUNED, **changes, "settings": {**TUNED["settings"], **inner}},
    mappings([*TUNED, "scores", "budget", "provenance"]),
    mappings(sorted(Settings.model_fields)),
)


def holds(command: str, files: dict[str, bytes]) -> None:
    """Run a command beside these files, and check how it ends."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        before = whole(folder)
        done = suite_here(*command.split(), cwd=folder, code=None)
        after = whole(folder)
    assert done.returncode in (0, 2), done.stderr
    assert "Traceback" not in done.stderr
    if done.returncode == 2:
        assert done.stderr.strip()
        assert not done.stdout
        assert after == before
    runs = str(folder / "runs")
    assert {k: v for k, v in after.items() if not k.startswith(runs)} == {
        k: v for k, v in before.items() if not k.startswith(runs)
    }


def document(content: Any) -> bytes:
    return yaml.safe_dump(content, allow_unicode=True).encode(errors="surrogateescape")


@often
@given(STUDIES)
def test_studies(content):
    holds("sweep mine.yaml --dry-run", {"mine.yaml": document(content)})


@often
@given(CONFIGURATIONS)
def test_configurations(content):
    holds("tuned import mine.yaml", {"mine.yaml": document(content)})
