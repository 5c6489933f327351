"""FedJAX's federated averaging and its adaptive servers as a peer of `agree.py`."""

from typing import Any

import fedjax
import jax
import jax.numpy as jnp
import numpy as np
from fedjax.algorithms import fed_avg

from agree_peer import LR, STEPS, answer, flat, layers


class Full(fedjax.ClientDataset):
    """A client whose minibatches are all of its samples."""

    def shuffle_repeat_batch(self, hparams: Any) -> list[Any]:
        """Return the client's full batch once for each local step."""
        return [self.all_examples()] * STEPS


def adam(server_lr: float, beta1: float, beta2: float, tau: float) -> Any:
    """Return FedJAX's server optimizer Adam, which is optax's."""
    return fedjax.optimizers.adam(server_lr, beta1, beta2, tau)


def published(server_lr: float, beta1: float, beta2: float, tau: float) -> Any:
    """Return the server optimizer of Reddi et al. 2021, Algorithm 2: v starts at tau^2, and m and v have no bias correction."""
    tree = jax.tree_util.tree_map

    def init(w: Any) -> Any:
        return tree(jnp.zeros_like, w), tree(lambda part: jnp.full_like(part, tau**2), w)

    def apply(g: Any, state: Any, w: Any) -> Any:
        m = tree(lambda m, g: beta1 * m + (1 - beta1) * g, state[0], g)
        v = tree(lambda v, g: beta2 * v + (1 - beta2) * g**2, state[1], g)
        after = tree(lambda w, m, v: w - server_lr * m / (jnp.sqrt(v) + tau), w, m, v)
        return (m, v), after

    return fedjax.optimizers.Optimizer(init, apply)


def weights(name: str, params: dict[str, float], run: Any, corrected: bool) -> np.ndarray:
    """Return the server's weights before round 1 and after each round. FedJAX averages clients by samples, as the suite does here."""
    jax.config.update("jax_enable_x64", True)
    jax.tree_map = jax.tree_util.tree_map  # FedJAX 0.0.17 calls it by the name newer JAX dropped
    clients = sum(key.startswith("x") for key in run)
    sets = [Full({"x": run[f"x{k}"], "y": run[f"y{k}"]}) for k in range(clients)]

    def loss(w: Any, batch: Any, rng: Any) -> Any:
        logp = jax.nn.log_softmax(batch["x"] @ w["weight"].T + w["bias"])
        return -jnp.take_along_axis(logp, batch["y"][:, None], 1).mean()

    server = fedjax.optimizers.sgd(1.0)
    if name == "fedadam":
        server = published(**params) if corrected else adam(**params)
    batches = fedjax.ShuffleRepeatBatchHParams(batch_size=1)  # `Full` has its own
    algorithm = fed_avg.federated_averaging(
        jax.grad(loss), fedjax.optimizers.sgd(LR), server, batches
    )
    weight, bias = layers(run["w"][0], run["x0"].shape[1])
    state = algorithm.init({"weight": jnp.asarray(weight), "bias": jnp.asarray(bias)})
    by_round, key = [run["w"][0]], jax.random.PRNGKey(0)
    for ids in run["selected"]:
        state, _ = algorithm.apply(state, [(int(k), sets[k], key) for k in ids])
        by_round.append(flat(state.params["weight"], state.params["bias"]))
    return np.array(by_round)


if __name__ == "__main__":
    answer(weights)
