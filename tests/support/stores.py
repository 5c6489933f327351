"""A recorded sweep of four scenarios, made once."""

from pathlib import Path

import pytest

from tests.support.commands import once
from tests.support.foreign import swept


def recorded(temporary: pytest.TempPathFactory) -> Path:
    """A folder with the store `runs` of a sweep `s`: two data sets; one of three methods is a reference."""

    def make(folder: Path) -> None:
        swept(
            folder,
            algorithms=["fedavg", "fedprox", "local_only"],
            datasets=["digits", "synthetic(1,1)"],
            heterogeneity=["iid", "dirichlet(0.3)"],
            trials=2,
            seeds=2,
        )

    return once(temporary, "recorded", make)
