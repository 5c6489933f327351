"""The stand-in of a GPU: what it refuses, and what it counts."""

import pytest
import torch

from tests.support.simulations import finish, partitioned, same, settings, simulation
from tests.support.standin import DEVICE, Counts, StandIn
from trials.algorithms import ALGORITHMS
from trials.common.errors import UserError
from trials.run.scenario import Scenario
from trials.run.spec import canonical
from trials.run.trial import load_dataset, partition_data, simulate


@pytest.fixture
def rows(standin):
    """Two rows on the device."""
    made = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).to(DEVICE)
    standin.counts = Counts()
    return made


def test_numbers_are_real_and_results_stay_on_the_device(rows):
    assert rows.device == DEVICE
    assert (rows @ rows).device == DEVICE
    assert (rows @ rows).cpu().tolist() == [[7.0, 10.0], [15.0, 22.0]]


def test_a_gradient_is_taken_on_the_device(rows):
    leaf = rows.detach().requires_grad_()
    (g,) = torch.autograd.grad((leaf * leaf).sum(), [leaf])
    assert g.device == DEVICE
    assert torch.equal(g.cpu(), 2 * rows.cpu())


@pytest.mark.parametrize(
    "mix",
    [
        lambda t: t + torch.ones(2),
        lambda t: t @ torch.ones(2),
        lambda t: torch.cat([t, torch.ones(1, 2)]),
        lambda t: torch.stack([t[0, 0], torch.tensor(1.0)]),
        lambda t: t.index_select(0, torch.tensor([0])),
        lambda t: torch.ones(2, 2)[t.long()],
        lambda t: torch.ones(2, 2).add_(t),
        lambda t: torch.ones(2) + t.sum(),
        lambda t: t.index_put_((torch.tensor([0]).to(DEVICE),), torch.ones(1, 2)),
    ],
)
def test_mixing_devices_is_refused(rows, mix):
    with pytest.raises(RuntimeError, match=r"same device|on the CPU with one on the device"):
        mix(rows)


def test_a_single_number_of_the_host_may_take_part(rows):
    assert (rows + torch.tensor(1.0)).tolist() == [[2.0, 3.0], [4.0, 5.0]]


def test_numpy_cannot_see_it(rows):
    with pytest.raises(RuntimeError):
        rows.numpy()


@pytest.mark.parametrize(
    "wait",
    [
        lambda t: t.sum().item(),
        lambda t: bool(t.sum() > 0),
        lambda t: float(t[0, 0]),
        lambda t: t.cpu(),
        lambda t: t.tolist(),
        lambda t: t.nonzero(),
        lambda t: t[t[:, 0] > 2],
        lambda t: t.masked_select(t > 2),
        lambda t: t.unique(),
        lambda t: t[torch.tensor([0])],
        lambda t: torch.equal(t, t),
        lambda t: torch.ones(2).to(DEVICE),
        lambda t: torch.ones(2).to(DEVICE, non_blocking=True),
        lambda t: torch.ones(2).pin_memory().to(DEVICE),
        lambda t: torch.ones(2).pin_memory().to(DEVICE, torch.float64, non_blocking=True),
        lambda t: torch.tensor(1.0, device=DEVICE),
    ],
)
def test_what_the_host_waits_for(standin, rows, wait):
    wait(rows)
    assert standin.counts.synchronisations == 1
    assert "test_standin.py" in standin.counts.waits[0]


@pytest.mark.parametrize(
    ("run", "launches", "copies"),
    [
        (lambda t: t * 2 + 1, 2, 0),
        (lambda t: t[:, 0].view(2, 1).expand(2, 2), 0, 0),
        (lambda t: t[torch.zeros(1, dtype=torch.long, device=DEVICE)], 2, 0),
        (lambda t: torch.empty(2, device=DEVICE), 0, 0),
        (lambda t: torch.zeros(2, device=DEVICE), 1, 0),
        (lambda t: t.to(torch.float64), 1, 0),
        (lambda t: torch.ones(2).pin_memory().to(DEVICE, non_blocking=True), 0, 1),
        (lambda t: torch.ones(2) + 1, 0, 0),
    ],
)
def test_what_does_not_wait_is_counted_too(standin, rows, run, launches, copies):
    run(rows)
    assert standin.counts == Counts(launches, copies, [])


def test_writing_in_place_keeps_the_tensor(rows):
    view = rows[0]
    assert view.add_(1) is view
    rows[1] = 7
    assert rows.tolist() == [[2.0, 3.0], [7.0, 7.0]]


def test_a_trial_runs_on_it_as_on_the_cpu(standin):
    data, algorithm = partitioned([5, 8]), ALGORITHMS["fedavg"](lr=0.1)
    common = settings(execution="batched")
    here, there = (
        finish(simulation(algorithm, data, common, device=device))
        for device in (torch.device("cpu"), DEVICE)
    )
    assert there.state["w"].device == DEVICE
    same(here, there, 0)


def test_a_trial_of_a_spec_runs_on_it_while_it_is_open(standin):
    place = Scenario("digits", "logreg", "iid")
    spec = canonical("fedavg", {}, place, settings(rounds=1, clients=8), 0)
    data = partition_data(spec, load_dataset(spec, None))
    assert simulate(spec, data, DEVICE.type).fed.device == torch.device(DEVICE.type)


def test_it_is_no_device_of_the_project():
    spec = canonical("fedavg", {}, Scenario("digits", "logreg", "iid"), settings(clients=8), 0)
    data = partition_data(spec, load_dataset(spec, None))
    with StandIn(), pytest.raises(UserError, match="must be cpu or cuda"):
        simulate(spec, data, DEVICE.type)
