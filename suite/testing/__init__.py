"""Checks that a user's own algorithm, data set, partition or model keeps its contract (docs/extending.md).

A check raises `WrongError`, an `AssertionError`, if something is wrong. `suite check` runs all checks on a file.
"""

from suite.testing.algorithms import WrongError, check_algorithm
from suite.testing.parts import check_dataset, check_model, check_partition

__all__ = ["WrongError", "check_algorithm", "check_dataset", "check_model", "check_partition"]
