"""How a search opens: what it tries before results shape any of its suggestions.

The k-th configuration that a sampler draws blindly has the learning rate at the share

    u_k = frac(u_0 + k / golden ratio)

of its range, on the range's scale, with one u_0 for all algorithms of a scenario in a replicate: equal ranges
give equal rates, and any number of draws is spread evenly. Published configurations are tried at the study's
first level alone. The default configuration has what the method's paper implies for the scenario (`defaults` of
`search_spaces/<algorithm>.yaml`).
"""

import math
import zlib
from collections.abc import Sequence

from suite.studies.samplers import Sampler, first_modelled
from trials.common import randomness

RATE = "lr"
"""The hyperparameter whose draws are shared: the one that all algorithms have."""
GOLDEN = (math.sqrt(5) - 1) / 2


def shared_draw(number: int, scenario: Sequence[str], words: Sequence[int]) -> float:
    """The share u_k of its range at which draw `number` of a scenario has its learning rate; `words` are the
    study's seed and those of the replicate.
    """
    named = zlib.crc32("|".join(scenario).encode())
    first = randomness.uniform("opening", named, *words)[0]
    return float((first + number * GOLDEN) % 1)


def random_startup(sampler: Sampler, lag: int) -> float:
    """How many of an entry's first trials a sampler suggests by uniform draws, whatever their results; none
    where it draws otherwise: a grid in its order, a sampler of a person's own as it will.
    """
    if not sampler.uniform:
        return 0
    first = first_modelled(sampler, lag)
    return math.inf if first is None else first - 1
