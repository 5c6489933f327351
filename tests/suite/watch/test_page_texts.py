"""What pages say of any name and any error: it is text."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

from reports.page.compare import Compared
from reports.page.live import Frame, home_page, live_page, trial_page
from reports.page.trial_table import Asked
from suite.watch.views import Views, address

from reports.page import compare
from suite.sweeps.journal import events as journal
from suite.sweeps.journal.events import Begun, Died
from tests.support.journals import STUDY, add, asked, ended, line
from tests.support.searches import a_study, entries_of
from trials.run.outcome import Status
from trials.run.result import TrialResult


class Skeleton(HTMLParser):
    """The elements of a page with the names of their attributes, and where links lead."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.links: set[str | None] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.links |= {value for name, value in attrs if name in ("href", "src", "action")}


def pages(storage: Path, name: str, text: str) -> list[Skeleton]:
    """The first page and the sweep's own, of a sweep of this name with a study and errors of this text."""
    folder, entry = storage / name, entries_of(**STUDY)[0].id
    folder.mkdir(parents=True)
    study = a_study(**STUDY).model_dump(mode="json")
    about = {e.id: e.about() for e in entries_of(**STUDY)}
    begun = Begun(study_name=text, study=study, lag=2, planned={}, id="x", entries=about)
    (folder / "journal.jsonl").write_bytes(line(begun))
    one, two = asked(entry, 0), asked(entry, 1)
    result = TrialResult(Status.FAILED, error=text)
    failed = journal.ended(one.request.trial_id, result, at=1.0)
    died = Died(trial_id=two.request.trial_id, round=0, error=text)
    add(folder, one, two, failed, died, ended(two, 2.0, 0.5))
    views = Views(storage, None, "http://127.0.0.1:5000")
    home = home_page(*views.home()[:2], Frame(), [text])
    sweep, trial = views.sweep(name), views.trial(name, one.request.trial_id)
    other = Compared(sweep, {text: text})
    return [
        Skeleton(home),
        Skeleton(live_page(sweep, Asked(), Frame())),
        Skeleton(trial_page(*trial, Frame())),
        Skeleton(compare.page([name], other, Compared(sweep, {}), Frame())),
    ]


def test_names_are_text_on_a_page(tmp_path: Path) -> None:
    """Whatever a sweep, a study or an error is called: a page's elements and links are its own."""
    hostile = "</script><script>alert(1)</script><img src=x onerror='alert(1)'>\"' {{ 7 * 7 }}"
    sound = pages(tmp_path / "a", "night", "quick")
    found = pages(tmp_path / "b", hostile.replace("/", ""), hostile)
    assert [page.elements for page in found] == [page.elements for page in sound]
    address_of = address(hostile.replace("/", ""))
    for one, other in zip(found, sound, strict=True):
        moved = {str(link).replace(address("night"), address_of) for link in other.links}
        key = quote(hostile.replace("/", ""), safe="")
        assert {str(link) for link in one.links} == {
            link.replace("?a=night", f"?a={key}") for link in moved
        }
