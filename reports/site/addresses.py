"""Where the pages and files of a site are."""

from collections.abc import Callable, Iterable
from functools import cached_property

from reports.charts.style import slug
from reports.leaderboard.board import Contest, Row
from reports.site.data import Entry, SiteData
from reports.wording.tables import groups, scenario_text
from reports.wording.words import short

FOOTER = (
    "Everything here is read from recorded runs; nothing is typed in. Commands run in this folder. `suite board` makes "
    "it anew."
)
LENGTH = 80
"""The characters of the longest slug that is the name of a file, before it is told from others."""


def distinct(names: Iterable[str], said: Callable[[str], str] = str) -> dict[str, str]:
    """A slug for each name, of what is `said` of it, no two alike."""
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        base = made = slug(said(name))[:LENGTH] or "x"
        count = 1
        while made in found.values():
            count += 1
            made = f"{base}-{count}"
        found[name] = made
    return found


class Addresses:
    """Paths below the site's folder, all of plain characters."""

    def __init__(self, data: SiteData) -> None:
        self._data = data

    @cached_property
    def _scenarios(self) -> dict[Contest, str]:
        found = groups(self._data.report.board)
        asked = [scenario_text(group) for group in found]
        names = [
            f"{where} {group.sweeps}" if asked.count(where) > 1 else where
            for group, where in zip(found, asked, strict=True)
        ]
        slugs = distinct(names)
        return {group: slugs[name] for group, name in zip(found, names, strict=True)}

    @cached_property
    def _methods(self) -> dict[str, str]:
        return distinct((row.algorithm for row in self._data.report.board.rows), short)

    @cached_property
    def _papers(self) -> dict[str, str]:
        return distinct(document["paper"] for document in self._data.papers)

    @cached_property
    def _documents(self) -> dict[str, str]:
        return distinct(document["command"] for document in self._data.papers)

    @cached_property
    def _studies(self) -> dict[str, str]:
        return distinct(self._data.studies)

    def scenario(self, group: Contest) -> str:
        """The page of a scenario."""
        return f"scenarios/{self._scenarios[group]}.html"

    def method(self, name: str) -> str:
        """The page of a method."""
        return f"methods/{self._methods[name]}.html"

    def row(self, row: Row) -> str:
        """A method's row on the page of a scenario."""
        return f"{self.scenario(row.group)}#{self._methods[row.algorithm]}"

    def fragment(self, name: str) -> str:
        """A method's fragment on the pages of scenarios."""
        return self._methods[name]

    def paper(self, name: str) -> str:
        """The page of a paper."""
        return f"papers/{self._papers[name]}.html"

    def document(self, command: str) -> str:
        """The file of a document of `suite reproduce`, which its command names."""
        return f"papers/{self._documents[command]}.json"

    def study(self, sweep: str) -> str:
        """The file of a sweep's study."""
        return f"studies/{self._studies[sweep]}.yaml"

    @cached_property
    def specs(self) -> dict[Entry, str]:
        """The files of the rows' configurations."""
        return {
            (
                row.sweep,
                row.entry_id,
            ): f"specs/{self._scenarios[row.group]}/{self._methods[row.algorithm]}.yaml"
            for row in self._data.report.board.rows
            if (row.sweep, row.entry_id) in self._data.specs
        }
