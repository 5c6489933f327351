"""ASTW-SAFL: SAFL's clients with ASTW's server and schedule."""

from dataclasses import dataclass

from trials.algorithms.astw import ASTW
from trials.algorithms.safl import SAFL


@dataclass(frozen=True)
class ASTWSAFL(SAFL, ASTW):
    """SAFL's clients with ASTW's server: clients mix the layers that they receive, and newer uploads weigh more.

    Equations: SAFL (6), (7), Fig. 7; Chen, Sun and Jin 2020.
    Keeps: d (its own weights); the server N d and the rounds of uploads.
    Down: as `astw` (none in round 1).
    Up: as `astw`.
    Reading: as in `safl` and `astw`. In layers that a round does not exchange, a client continues from its own weights.
    """

    paper = "SAFL"
    any_optimizer = True
