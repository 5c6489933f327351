"""FedJAX (https://github.com/google/fedjax) as a system of `engine.py`: its federated averaging, which compiles the local
step of a client.
"""

from typing import Any

import fedjax
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
from fedjax.algorithms import fed_avg

from worker import LR, Round, Workload, serve


def convolutional(x: Any, maps: tuple[int, ...], kernel: int, classes: int) -> Any:
    """Return the logits `(b, classes)` of `loop.convolutional`'s network for images `(b, height, width, channels)`."""
    for outputs in maps:
        x = jax.nn.relu(hk.Conv2D(outputs, kernel, padding="SAME")(x))
        x = hk.max_pool(x, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = jax.nn.relu(hk.Linear(512)(hk.Flatten()(x)))
    return hk.Linear(classes)(x)


def forward(workload: Workload, x: Any) -> Any:
    """Return the logits `(b, classes)` of a minibatch by the workload's model."""
    if workload.model == "mcmahan_cnn":
        return convolutional(x, (32, 64), 5, workload.classes)
    if workload.model == "cifar10_cnn":
        return convolutional(x, (32, 64, 64), 3, workload.classes)
    if workload.model == "char_lstm":
        embedded = hk.Embed(workload.classes, 8)(x.T)
        layers = hk.DeepRNN([hk.LSTM(100), hk.LSTM(100)])
        outputs, _ = hk.dynamic_unroll(layers, embedded, layers.initial_state(x.shape[0]))
        return hk.Linear(workload.classes)(outputs[-1])
    assert workload.model == "logreg"
    return hk.Linear(workload.classes)(x)


def prepare(workload: Workload) -> Round:
    """Return a function that runs one round of FedJAX's `federated_averaging`."""
    jax.tree_map = jax.tree_util.tree_map  # FedJAX 0.0.17 calls it by the name newer JAX dropped
    sets = []
    for x, y in workload.data():
        x = np.moveaxis(x, 1, -1) if x.ndim == 4 else x
        examples = {"x": np.ascontiguousarray(x), "y": y}
        sets.append(fedjax.ClientDataset(examples))
    net = hk.without_apply_rng(hk.transform(lambda x: forward(workload, x)))

    def loss(params: Any, batch: Any, rng: Any) -> Any:
        logp = jax.nn.log_softmax(net.apply(params, batch["x"]))
        return -jnp.take_along_axis(logp, batch["y"][:, None], 1).mean()

    algorithm = fed_avg.federated_averaging(
        jax.grad(loss),
        fedjax.optimizers.sgd(LR),
        fedjax.optimizers.sgd(1.0),
        fedjax.ShuffleRepeatBatchHParams(batch_size=workload.batch_size),
    )
    state = algorithm.init(net.init(jax.random.PRNGKey(0), sets[0].all_examples()["x"][:1]))
    rng, key = np.random.default_rng(0), jax.random.PRNGKey(1)

    def run_round() -> tuple[int, int]:
        nonlocal state
        clients = workload.draw(rng)
        state, _ = algorithm.apply(state, [(k, sets[k], key) for k in clients])
        jax.block_until_ready(state.params)
        return workload.work(clients)

    return run_round


if __name__ == "__main__":
    serve(prepare)
