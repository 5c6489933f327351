"""What `benchmarks/golden.py compare` calls a difference."""

import golden

PLACE = ("digits logreg iid", "fedavg")
BEFORE = {(*PLACE, "mean"): repr(0.1 + 0.2), (*PLACE, "params"): '{"lr": 0.1}'}


def told(now, within=None):
    return list(golden.differences(BEFORE, now, within))


def test_numbers_are_equal_to_the_last_bit_or_within_what_is_accepted():
    now = {**BEFORE, (*PLACE, "mean"): "0.3"}
    assert told(BEFORE) == told(now, within=1e-9) == []
    name = "digits logreg iid / fedavg / mean"
    assert told(now) == [f"{name}: recorded 0.30000000000000004, now 0.3"]
    assert told({**now, (*PLACE, "params"): '{"mu": 0.1}'}, within=1e-9) != []


def test_what_is_there_on_one_side_alone_is_a_difference():
    now = {(*PLACE, "mean"): BEFORE[*PLACE, "mean"], (*PLACE, "rank"): "1"}
    assert told(now) == [
        "digits logreg iid / fedavg / params: is missing now",
        "digits logreg iid / fedavg / rank: was not recorded before",
    ]


def test_the_record_has_every_part():
    assert set(golden.read()) == {"machine", *golden.PARTS}
