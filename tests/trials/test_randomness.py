"""Random numbers are functions of the words that name them, and look random."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trials.common.randomness import bits, uniform

N = 100_000
STREAMS = ["initial", "select", "order", "steps", "anneal", "validation", "partition"]


def test_uniform_numbers_are_uniform():
    u = uniform("anneal", 1, 2, np.arange(N))
    assert u.dtype == np.float64
    assert u.min() >= 0
    assert u.max() < 1
    assert u.mean() == pytest.approx(1 / 2, abs=5 * (12 * N) ** -0.5)
    assert u.var() == pytest.approx(1 / 12, abs=5 * (180 * N) ** -0.5)
    counts = np.bincount((u * 100).astype(int), minlength=100)
    assert ((counts - N / 100) ** 2 / (N / 100)).sum() < 99 + 5 * np.sqrt(2 * 99)


def test_streams_seeds_and_word_orders_share_no_number():
    names = [bits(stream, 0, 1, np.arange(1000)) for stream in STREAMS]
    seeds = [bits("initial", seed, 1, np.arange(1000)) for seed in range(1, 30)]
    rounds = [bits("initial", 0, t, np.arange(1000)) for t in range(2, 30)]
    drawn = np.concatenate(names + seeds + rounds)
    assert len(np.unique(drawn)) == len(drawn)
    assert bits("initial", 1, 2) != bits("initial", 2, 1)
    assert bits("initial", 0) != bits("initial", 0, 0)


@given(st.lists(st.integers(-1, 2**40), min_size=1, max_size=20), st.data())
def test_a_number_does_not_depend_on_its_batch(clients, more):
    batch = uniform("steps", 3, 4, np.array(clients))
    at = more.draw(st.integers(0, len(clients) - 1))
    assert uniform("steps", 3, 4, clients[at]) == batch[at]
    table = uniform("steps", 3, np.array(clients)[:, None], np.arange(4))
    assert table.shape == (len(clients), 4)
    assert uniform("steps", 3, clients[at], 2) == table[at, 2]


def test_numbers_are_what_they_were():
    """Recorded runs can be repeated only while this holds: the hash, written out for one number."""
    mask = 2**64 - 1

    def word(state, value):
        z = (state * 0x9E3779B97F4A7C15 & mask) ^ (value + 0x9E3779B97F4A7C15 & mask)
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        return z ^ z >> 31

    crc32_of_a = 0xE8B7BE43
    expected = word(word(crc32_of_a, 5), -1)
    assert int(bits("a", 5, -1)[0]) == expected
    assert uniform("a", 5, -1)[0] == (expected >> 11) / 2**53
