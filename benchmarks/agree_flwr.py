"""Flower's strategies as a peer of `agree.py`. Clients train by plain gradient descent here, since Flower leaves their
code to the user.
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


def weights(name: str, params: dict[str, float], run: Any, corrected: bool) -> np.ndarray:
    """Return the server's weights before round 1 and after each round. With `corrected`, v starts at tau^2 and FedAdam does
    not scale its step, as in Reddi et al. 2021, Algorithm 2.
    """
    spelling = {
        "server_lr": "eta",
        "beta1": "beta_1",
        "beta2": "beta_2",
        "tau": "tau",
    }
    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1  # messages need these ids
    rule = getattr(strategy, STRATEGIES[name])(**{spelling[k]: v for k, v in params.items()})
    w = run["w"][0]
    if corrected and name != "fedavg":
        rule.v_t = {"w": np.full_like(w, params["tau"] ** 2)}
    by_round = [w]
    for number, ids in enumerate(run["selected"], 1):
        replies = []
        for k in ids:
            arrays = ArrayRecord({"w": Array(trained(w, run[f"x{k}"], run[f"y{k}"]))})
            content = RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 1})})
            sent = Message(RecordDict(), dst_node_id=int(k) + 1, message_type="train")
            replies.append(Message(content, reply_to=sent))
        rule.current_arrays = {"w": w}
        # FedAdam scales its step by a factor that tends to 1 and equals 1 in this round.
        at = 10**6 if corrected and name == "fedadam" else number
        w = rule.aggregate_train(at, replies)[0]["w"].numpy()
        by_round.append(w)
    return np.array(by_round)


if __name__ == "__main__":
    answer(weights)
