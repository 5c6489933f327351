"""Flower's strategies as a peer of `agree.py`: its aggregation, and clients by plain gradient descent, since a
client of Flower is the user's own code.
"""

import os
from typing import Any

import numpy as np

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import strategy
from flwr.supercore.task_identity import TaskIdentity

from agree_peer import answer, trained

STRATEGIES = {
    "fedavg": "FedAvg",
    "fedadam": "FedAdam",
    "fedadagrad": "FedAdagrad",
    "fedyogi": "FedYogi",
}


def weights(name: str, params: dict[str, float], given: Any, corrected: bool) -> np.ndarray:
    """The server's weights before round 1 and after each round.

    Corrected: v begins at tau^2, and FedAdam does not scale its step, as in Reddi et al. 2021, Algorithm 2.
    """
    known = {
        "server_lr": "eta",
        "beta1": "beta_1",
        "beta2": "beta_2",
        "tau": "tau",
    }
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1  # messages carry them
    rule = getattr(strategy, STRATEGIES[name])(**{known[k]: v for k, v in params.items()})
    w = given["w"][0]
    if corrected and name != "fedavg":
        rule.v_t = {"w": np.full_like(w, params["tau"] ** 2)}
    found = [w]
    for number, ids in enumerate(given["selected"], 1):
        replies = []
        for k in ids:
            arrays = ArrayRecord({"w": Array(trained(w, given[f"x{k}"], given[f"y{k}"]))})
            content = RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 1})})
            sent = Message(RecordDict(), dst_node_id=int(k) + 1, message_type="train")
            replies.append(Message(content, reply_to=sent))
        rule.current_arrays = {"w": w}
        # The step's scale tends to 1: at this number it is 1 to the last bit.
        at = 10**6 if corrected and name == "fedadam" else number
        w = rule.aggregate_train(at, replies)[0]["w"].numpy()
        found.append(w)
    return np.array(found)


if __name__ == "__main__":
    answer(weights)
