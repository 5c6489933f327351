"""What FOLB and the sampling rules send and compute, counted by the devices they chose."""

import pytest

from tests.support.folb import COUNT, PARTIAL, SAMPLING, N, chosen, ran
from tests.support.oracle import STEPS, spent
from trials.engine.federation import Federation


def counted(name, **given):
    """A run and, for each of its rounds, the ids that were selected first, second and drawn."""
    met = {"select": [], "second": [], "draw": []}

    class Noted(Federation):
        def select(self, stream="select"):
            ids = super().select(stream)
            met[stream].append(ids.tolist())
            return ids

        def draw(self, p, *stream):
            ids = super().draw(p, *stream)
            met["draw"].append(ids.tolist())
            return ids

    run = ran(name, federation=Noted, participation=PARTIAL, **given)
    return run, met


@pytest.mark.parametrize(("dtype", "size"), [("float64", 8), ("float32", 4)])
@chosen
def test_what_two_sets_cost(selection, dtype, size):
    """A repeated draw is one device; table 7 has the K distinct ones."""
    run, met = counted("folb_two_set", selection=selection, dtype=dtype)
    one, other = ([len(set(ids)) for ids in met[stream]] for stream in ("select", "second"))
    if selection == "without_replacement":
        assert one == other == [COUNT] * 5
    bytes_ = size * run.fed.d
    assert spent(run, "downloaded_bytes") == [
        bytes_ * (a + b) for a, b in zip(one, other, strict=True)
    ]
    assert spent(run, "uploaded_bytes") == [
        bytes_ * (2 * a + b) for a, b in zip(one, other, strict=True)
    ]
    assert spent(run, "gradient_passes") == [a + b for a, b in zip(one, other, strict=True)]
    assert spent(run, "client_steps") == [STEPS * a for a in one]
    everyone = [len({*a, *b}) for a, b in zip(met["select"], met["second"], strict=True)]
    assert spent(run, "clients_uploaded") == everyone
    assert set(spent(run, "evaluation_passes")) == {0}


@pytest.mark.parametrize(("dtype", "size"), [("float64", 8), ("float32", 4)])
@chosen
def test_what_the_sign_rule_costs(selection, dtype, size):
    """All devices get w and send g; the selected ones send their models."""
    run, met = counted("fednu_sign", selection=selection, dtype=dtype)
    trained = [len(set(ids)) for ids in met["select"]]
    assert spent(run, "downloaded_bytes") == [size * N * run.fed.d] * 5
    assert spent(run, "uploaded_bytes") == [size * (N + k) * run.fed.d for k in trained]
    assert spent(run, "gradient_passes") == [N] * 5
    assert spent(run, "client_steps") == [STEPS * k for k in trained]
    assert spent(run, "clients_uploaded") == [N] * 5


@pytest.mark.parametrize(("dtype", "size"), [("float64", 8), ("float32", 4)])
@pytest.mark.parametrize("rule", SAMPLING)
def test_what_sampling_costs(rule, dtype, size):
    run, met = counted(rule, dtype=dtype)
    assert [len(ids) for ids in met["draw"]] == [COUNT] * 5
    trained, d = [len(set(ids)) for ids in met["draw"]], run.fed.d
    assert min(trained) < COUNT
    told = N if rule == "lb_norm" else N * d
    assert spent(run, "downloaded_bytes") == [size * N * d] * 5
    assert spent(run, "uploaded_bytes") == [size * (told + k * d) for k in trained]
    assert spent(run, "gradient_passes") == [N] * 5
    assert spent(run, "client_steps") == [STEPS * k for k in trained]
    assert spent(run, "clients_uploaded") == [N] * 5


@pytest.mark.parametrize(("variant", "numbers"), [("plain", 0), ("heterogeneity", 1)])
def test_what_one_set_costs_when_devices_repeat(variant, numbers):
    run, met = counted("folb", selection="with_replacement", params={"variant": variant})
    distinct, d = [len(set(ids)) for ids in met["select"]], run.fed.d
    assert min(distinct) < COUNT
    assert spent(run, "downloaded_bytes") == [8 * k * d for k in distinct]
    assert spent(run, "uploaded_bytes") == [8 * k * (2 * d + numbers) for k in distinct]
    assert spent(run, "gradient_passes") == [(1 + numbers) * k for k in distinct]
    assert spent(run, "client_steps") == [STEPS * k for k in distinct]
    assert spent(run, "clients_uploaded") == distinct
