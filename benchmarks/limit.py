"""What a core can do, as a system of `engine.py`: products of two square matrices."""

import torch

from worker import Round, Workload, serve

SIDE = 1024
FLOPS = 2 * SIDE**3
"""Floating-point operations of a "step"."""


def prepare(workload: Workload) -> Round:
    """One product in single precision, whatever the workload."""
    torch.set_num_threads(1)
    a, b, out = torch.randn(3, SIDE, SIDE, device=workload.device)

    def run_round() -> tuple[int, int]:
        torch.mm(a, b, out=out)
        if workload.device == "cuda":
            torch.cuda.synchronize()
        return 1, 0

    return run_round


if __name__ == "__main__":
    serve(prepare)
