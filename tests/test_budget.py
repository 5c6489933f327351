"""The house only shrinks: each package keeps to the lines that it has come down to."""

import pytest

from tests.support.simulations import ROOT

LINES = {"suite": 11_380, "trials": 10_040, "reports": 4_420, "tests": 20_500}


@pytest.mark.parametrize("package", LINES)
def test_a_package_keeps_to_its_lines(package: str) -> None:
    files = (ROOT / package).rglob("*.py")
    assert sum(path.read_text().count("\n") for path in files) <= LINES[package]
