"""The names of metrics in the store: grouped, as MLflow's pages show them together.

Everywhere else a metric has its plain name, `test_accuracy`; in the store that is `test/accuracy`.
"""

import re

SPLITS = re.compile(r"(?:(?P<model>\w+?)_)?(?P<split>test|val|train)_(?P<rest>\w+)")
TARGET = re.compile(r"reached_\w+|\w+_to_target|reached_share")
COST = re.compile(r"\w+_(bytes|steps|passes|gradients)|clients_uploaded|simulated_time")
TIME = re.compile(r"\w+_seconds")
LEADING = {"target": TARGET, "time": TIME, "cost": COST}
"""The groups that stand before a whole plain name, in the order they are tried."""


def grouped(name: str) -> str:
    """A plain name as it is recorded: `test/accuracy`, `cost/uploaded_bytes`, `time/round_seconds`,
    `target/reached_round`; of a further model `average/test_accuracy`. Others as they are.
    """
    for group, pattern in LEADING.items():
        if pattern.fullmatch(name):
            return f"{group}/{name}"
    found = SPLITS.fullmatch(name)
    if found is None:
        return name
    if found["model"]:
        return f"{found['model']}/{found['split']}_{found['rest']}"
    return f"{found['split']}/{found['rest']}"


def plain(recorded: str) -> str:
    """The plain name of what is recorded so: the one that `grouped` makes it of."""
    group, _, rest = recorded.partition("/")
    name = rest if group in LEADING else f"{group}_{rest}"
    return name if grouped(name) == recorded else recorded
