"""The commands that repeat what a site shows, from its folder; and how a number came about, in words."""

import shlex

from reports.leaderboard.board import Row
from reports.site.addresses import Addresses
from reports.site.data import SiteData
from reports.wording.words import plural


def repeat(data: SiteData, to: Addresses, row: Row) -> str:
    """The command that runs one of a row's final runs again; "" where its configuration was not recorded."""
    entry = row.sweep, row.entry_id
    if entry not in to.specs:
        return ""
    return f"suite run {to.specs[entry]} {data.specs[entry].options}"


def search(to: Addresses, sweep: str) -> str:
    """The command that runs a whole sweep again, under a name of its own."""
    return shlex.join(["suite", "sweep", to.study(sweep), "--name", f"{sweep}-again"])


def how(row: Row) -> str:
    """How a row's number came about."""
    runs = f"{row.seeds} final run{'s' * (row.seeds != 1)}"
    tuned = f"{row.tunings} searches of {row.trials} trials" if row.tunings > 1 else ""
    tuned = tuned or f"one search of {row.trials} trials"
    partitions = f", on {row.partitions} partitions of the data" if row.partitions > 1 else ""
    lost = f", {row.failed_seeds} of them diverged" if row.failed_seeds else ""
    return f"Mean of {runs}{lost}, after {tuned}{partitions}; interval over {plural(row.over)}."
