"""The baseline of `engine.py`: FedAvg written by hand in PyTorch, one client after the other, with modules, an optimizer
and state dicts. Peers that need modules use its networks too.
"""

import copy
from functools import lru_cache
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from worker import LR, Round, Workload, serve


class LSTM(nn.Module):
    """The suite's `char_lstm`: an embedding of 8, two LSTM layers of 100 units, and an output layer on the last output."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(classes, 8)
        self.layers = nn.LSTM(8, 100, 2, batch_first=True)
        self.out = nn.Linear(100, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits `(b, classes)` of tokens `(b, t)`."""
        return self.out(self.layers(self.embedding(x))[0][:, -1])


def convolutional(maps: tuple[int, ...], kernel: int, side: int, classes: int) -> nn.Module:
    """Return a network of padded convolutions with ReLU and 2x2 max-pooling, a hidden layer of 512, and an output layer.
    `maps` has the numbers of channels, first those of the images, which have `side` x `side` pixels.
    """
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(maps):
        convolution = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2)
        layers += [convolution, nn.ReLU(), nn.MaxPool2d(2)]
        side //= 2
    flat = maps[-1] * side * side
    return nn.Sequential(
        *layers, nn.Flatten(), nn.Linear(flat, 512), nn.ReLU(), nn.Linear(512, classes)
    )


def network(workload: Workload) -> nn.Module:
    """Return the workload's model as a module."""
    if workload.model == "mcmahan_cnn":
        return convolutional((1, 32, 64), 5, 28, workload.classes)
    if workload.model == "cifar10_cnn":
        return convolutional((3, 32, 64, 64), 3, 32, workload.classes)
    if workload.model == "char_lstm":
        return LSTM(workload.classes)
    assert workload.model == "logreg"
    return nn.Linear(workload.shape[0], workload.classes)


@lru_cache(maxsize=1)
def tensors(workload: Workload) -> list[tuple[Tensor, Tensor]]:
    """Return the samples and labels of each client, on the workload's device."""
    device = workload.device
    return [
        (torch.from_numpy(x).to(device), torch.from_numpy(y).to(device)) for x, y in workload.data()
    ]


def train(model: nn.Module, x: Tensor, y: Tensor, batch_size: int) -> None:
    """Train a model for one pass over a client's data, in minibatches of a new random order."""
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    for batch in torch.randperm(len(y)).split(batch_size):
        optimizer.zero_grad()
        F.cross_entropy(model(x[batch]), y[batch]).backward()
        optimizer.step()


def prepare(workload: Workload) -> Round:
    """Return a function that runs one round of the hand-written FedAvg on the workload."""
    torch.set_num_threads(1)
    data = tensors(workload)
    server, rng = network(workload).to(workload.device), np.random.default_rng(0)

    def run_round() -> tuple[int, int]:
        clients, states = workload.draw(rng), []
        for k in clients:
            model = copy.deepcopy(server)
            train(model, *data[k], workload.batch_size)
            states.append(model.state_dict())
        steps, samples = workload.work(clients)
        shares = [workload.sizes[k] / samples for k in clients]
        mean = {
            name: sum(share * state[name] for share, state in zip(shares, states, strict=True))
            for name in states[0]
        }
        server.load_state_dict(mean)
        if workload.device == "cuda":
            torch.cuda.synchronize()
        return steps, samples

    return run_round


if __name__ == "__main__":
    serve(prepare)
