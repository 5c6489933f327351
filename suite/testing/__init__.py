"""Checks that a class of one's own keeps its contract, for tests of one's own (docs/extending.md).

Each raises `WrongError`, an `AssertionError`, that says what is wrong. The project's own classes pass the same
checks; `suite check` runs them on a file.
"""

from suite.testing.algorithms import WrongError, check_algorithm
from suite.testing.parts import check_dataset, check_model, check_partition

__all__ = ["WrongError", "check_algorithm", "check_dataset", "check_model", "check_partition"]
