"""How many of the bank's winners lie at an end of the range that was searched.

    python benchmarks/ends.py search_spaces/studies/bank/*.yaml

A winner is the search trial that validates best in its entry. At an end is within 5 % of it, on the range's scale, where values
beyond have a meaning (`reports.leaderboard.audit`).
"""

import argparse
from collections import Counter
from pathlib import Path

from reports.leaderboard.audit import edges
from suite import bank
from suite.json_files import parse
from suite.studies.entries import make_entries
from suite.studies.study import read_study


def main() -> None:
    """Entry point."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("studies", nargs="+", help="the studies' files")
    asked.add_argument("--bank", type=Path, default=Path("search_spaces/bank"))
    args = asked.parse_args()
    trials = bank.load(args.bank)
    trials = trials[(trials.kind == "search") & (trials.status == "finished")]
    at, winners, rates, any_end = Counter[str](), 0, 0, 0
    for path in args.studies:
        name, study = read_study(path, {})
        for entry in make_entries(study, f"study {name}"):
            own = trials[trials.trial_id.str.startswith(f"{entry.id}-") & (trials.study == name)]
            if own.empty:
                continue
            winners += 1
            winner = parse(own.loc[(entry.task.sign * own.val_score).idxmax()].configuration)
            found = [edge for edge in edges(winner, entry.space.searched) if not edge.closed]
            any_end += bool(found)
            rates += any(edge.name == "lr" for edge in found)
            at.update(f"{entry.label}.{edge.name} {edge.end}" for edge in found)
    shares = [f"{count} ({count / max(winners, 1):.1%})" for count in (rates, any_end)]
    print(
        f"{winners} winners; lr at an end: {shares[0]}; any hyperparameter at an end: {shares[1]}"
    )
    for name, count in at.most_common():
        print(f"{count:4} {name}")


if __name__ == "__main__":
    main()
