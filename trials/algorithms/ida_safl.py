"""IDA-SAFL: SAFL's clients with IDA's server."""

from dataclasses import dataclass

from trials.algorithms.ida import IDA
from trials.algorithms.safl import SAFL


@dataclass(frozen=True)
class IDASAFL(SAFL, IDA):
    """SAFL whose server weights each client by the inverse distance of its model from the mean model, as in `ida`.
    epsilon = 1 is IDA.

    Equations: SAFL (6)-(8), Fig. 7.
    Keeps: d (its own weights).
    Down: K d (none in round 1).
    Up: K d.
    Reading: as in `safl` and `ida`.
    """

    paper = "SAFL"
    any_optimizer = True
