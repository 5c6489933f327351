"""A small study and a small configuration, as their files hold them."""

from typing import Any

SMALL: dict[str, Any] = {
    "algorithms": ["fedavg"],
    "datasets": ["digits"],
    "models": ["logreg"],
    "heterogeneity": ["iid"],
    "trials": 2,
    "seeds": 1,
    "settings": {"rounds": 2, "clients": 4, "participation": 1.0},
}
TUNED: dict[str, Any] = {
    "algorithm": "fedavg",
    "dataset": "digits",
    "model": "logreg",
    "heterogeneity": "iid",
    "params": {"lr": 0.1},
    "settings": {"rounds": 2, "clients": 4},
}
