"""The house only shrinks: each package keeps to the lines that it has come down to."""

import pytest

from tests.support.simulations import ROOT

LINES = {"suite": 18_500, "trials": 14_300, "reports": 7_100, "tests": 36_000}


@pytest.mark.parametrize("package", LINES)
def test_a_package_keeps_to_its_lines(package: str) -> None:
    files = (ROOT / package).rglob("*.py")
    assert sum(path.read_text().count("\n") for path in files) <= LINES[package]
