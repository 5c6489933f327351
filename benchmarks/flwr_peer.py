"""Flower (https://github.com/adap/flower) as a system of `engine.py`: its FedAvg strategy on
its simulation runtime, with the clients in one Ray actor and the server in this process.
"""

import os
import sys

import torch

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
from flwr.app import ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from loop import network, tensors, train
from worker import Round, Workload, read, serve


def client_app(workload: Workload) -> ClientApp:
    """Return a client that trains for one pass over its data."""
    app = ClientApp()

    @app.train()
    def work(message: Message, context: Context) -> Message:
        torch.set_num_threads(1)
        x, y = tensors(workload)[int(context.node_config["partition-id"])]
        model = network(workload)
        model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        train(model, x, y, workload.batch_size)
        arrays, metrics = ArrayRecord(model.state_dict()), MetricRecord({"num-examples": len(y)})
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    return app


def server_app() -> ServerApp:
    """Return a server that runs rounds when the process is asked to (`worker.serve`)."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        def prepare(workload: Workload) -> Round:
            share = workload.per_round / len(workload.sizes)
            strategy = FedAvg(fraction_train=share + 1e-9, fraction_evaluate=0.0)
            arrays = ArrayRecord(network(workload).state_dict())

            def run_round() -> tuple[int, int]:
                nonlocal arrays
                sent = strategy.configure_train(1, arrays, ConfigRecord(), grid)
                replies = list(grid.send_and_receive(sent))
                arrays, _ = strategy.aggregate_train(1, replies)
                samples = sum(reply.content["metrics"]["num-examples"] for reply in replies)
                return samples // workload.batch_size, samples

            return run_round

        serve(prepare)

    return app


if __name__ == "__main__":
    workload = read(sys.argv[1])
    backend = {"init_args": {"num_cpus": 1}, "client_resources": {"num_cpus": 1}}
    run_simulation(server_app(), client_app(workload), len(workload.sizes), backend_config=backend)
