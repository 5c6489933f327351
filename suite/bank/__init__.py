"""The bank: recorded trials of many studies as one table, a row a trial (docs/bank.md)."""

from suite.bank.benchmark import Benchmark
from suite.bank.table import load

__all__ = ["Benchmark", "load"]
