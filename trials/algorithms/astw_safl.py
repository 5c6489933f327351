"""ASTW-SAFL: SAFL's clients with ASTW's server and schedule."""

from dataclasses import dataclass

from trials.algorithms.astw import ASTW
from trials.algorithms.safl import SAFL


@dataclass(frozen=True)
class ASTWSAFL(SAFL, ASTW):
    """Clients mix as in `safl` the layers they have just received; the server weighs as in `astw`.

    Equations: SAFL (6), (7), Fig. 7; Chen, Sun and Jin 2020.
    Keeps: d (its own weights); the server N d and stamps.
    Down: as `astw` (none in round 1).
    Up: as `astw`.
    Reading: those of `safl` and `astw`; layers that are not exchanged in a round stay the client's
        own.
    """

    paper = "SAFL"
    any_optimizer = True
