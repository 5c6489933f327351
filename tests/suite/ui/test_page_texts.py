"""What pages say of any name and any error: it is text, and names nobody's folders."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

from starlette.requests import Request

from suite.sweeps.journal import events as journal
from suite.sweeps.journal.events import Begun
from suite.ui import Pages
from tests.support.journals import STUDY, add, asked, ended, line
from tests.support.searches import a_study, entries_of
from trials.run.outcome import Status, TrialResult


class Skeleton(HTMLParser):
    """The elements of a page with the names of their attributes, and where links lead."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.links: set[str | None] = set()
        self.text = page
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.links |= {value for name, value in attrs if name in ("href", "src", "action")}


def pages(storage: Path, name: str, text: str, path: str = "npz:/home/me/my.npz") -> list[Skeleton]:
    """The first page and the sweep's own, of a sweep of this name with a study and errors of this text; beside it a damaged one."""
    folder, entry = storage / name, entries_of(**STUDY)[0].id
    folder.mkdir(parents=True)
    study = a_study(**STUDY).model_dump(mode="json")
    about = {e.id: {**e.about(), "dataset": path} for e in entries_of(**STUDY)}
    begun = Begun(study_name=text, study=study, lag=2, planned={}, id="x", entries=about)
    (folder / "journal.jsonl").write_bytes(line(begun))
    one, two = asked(entry, 0), asked(entry, 1)
    result = TrialResult(Status.FAILED, error=text)
    failed = journal.ended(one.request.trial_id, result, at=1.0)
    add(folder, one, two, failed, ended(two, 2.0, 0.5))
    damaged = storage / "damaged"
    damaged.mkdir()
    (damaged / "journal.jsonl").write_bytes(line(begun) + b"soup\n")
    served = Pages(storage, "/mlflow")
    found = []
    for given in ({}, {"name": name}):
        scope = {"type": "http", "method": "GET", "headers": [], "path_params": given}
        answer = served.home(Request(scope))
        assert answer.status_code == 200, answer.body
        found.append(Skeleton(bytes(answer.body).decode()))
    return found


def test_names_are_text_on_a_page(tmp_path: Path) -> None:
    """Whatever a sweep, a study or an error is called: a page's elements and links are its own."""
    hostile = "</script><script>alert(1)</script><img src=x onerror='alert(1)'>\"' {{ 7 * 7 }}"
    sound = pages(tmp_path / "a", "night", "quick")
    found = pages(tmp_path / "b", hostile.replace("/", ""), hostile)
    assert [page.elements for page in found] == [page.elements for page in sound]
    key = quote(hostile.replace("/", ""), safe="")
    for one, other in zip(found, sound, strict=True):
        assert one.links == {str(link).replace("/night", f"/{key}") for link in other.links}
        assert "/home/me" not in one.text
        assert str(tmp_path) not in one.text
    assert "my.npz" in found[1].text
    assert "line 2: " in found[0].text, "a damaged sweep is told, and hides no other"
