"""Bundles, documents of papers and folders of sites that cannot be."""

import hashlib
import json
import re
import stat
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path

from suite.boards.bundle import BOARD, LISTING
from tests.support.bundles import FINALS, RECORDS, SEARCHES, TUNED, Change, a_zip, packed, written
from tests.support.corpus import Make, Row, both, directory, fifo, loop, text

SITE = "board b --output out"
VERIFY = "verify b"
STAYS = r"exists and was not written by suite, so it is kept: .*"


def bundle(change: Change = lambda content: None, **raw: bytes) -> Make:
    """`b`: a bundle that was changed before its list was made; of `raw` its list, afterwards."""
    files = packed(change)
    files |= {LISTING: raw["listing"]} if raw else {}
    return lambda folder: written(folder / "b", files)


def zipped(members: Mapping[str, bytes]) -> Make:
    """`b.zip`: a bundle with more members."""
    return text("b.zip", a_zip({**packed(), **members}))


def member(name: str, mode: int) -> Make:
    """`b.zip`: a bundle with a member that says of itself to be something else than a file."""

    def make(folder: Path) -> None:
        zipped({})(folder)
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        with zipfile.ZipFile(folder / "b.zip", "a") as archive:
            archive.writestr(info, "board.json")

    return make


def twice(folder: Path) -> None:
    zipped({})(folder)
    with zipfile.ZipFile(folder / "b.zip", "a") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archive.writestr(BOARD, "{}")


def patched(at: int, piece: bytes, form: int = zipfile.ZIP_STORED) -> Make:
    """`b.zip`: a bundle of which bytes are others; those of the directory count from its start."""

    def make(folder: Path) -> None:
        data = bytearray(a_zip(packed(), form))
        begin = data.find(b"PK\x01\x02") + at if form == zipfile.ZIP_STORED else at
        data[begin : begin + len(piece)] = piece
        (folder / "b.zip").write_bytes(data)

    return make


def _listings() -> list[Row]:
    sound = packed()[LISTING].decode()
    rows = []
    for name, content, says in (
        ("no JSON", "{", r" is not JSON that can be read: .*"),
        ("deep", "[" * 100_000, r" is not JSON that can be read: it is nested too deeply"),
        ("nothing", "", r" is not JSON that can be read: .*"),
        ("a list", "[]", r": must be .*"),
        ("no facts", "{}", r": format is required"),
        (
            "a key twice",
            sound.replace('"format": 2', '"format": 2, "format": 2'),
            r" is not JSON that can be read: the key 'format' is there twice",
        ),
        (
            "no number",
            sound.replace('"format": 2', '"format": NaN'),
            r" is not JSON that can be read: NaN is no finite number",
        ),
        (
            "half a character",
            sound.replace("an abacus", "\\ud800"),
            r" is not JSON that can be read: its text is not Unicode",
        ),
        ("a key of nobody", sound.replace('"date"', '"dated"'), r": date is required"),
        ("a count of text", sound.replace('"bytes": ', '"bytes": "x", "b": '), r": files\..*"),
    ):
        make = bundle(listing=content.encode())
        rows.append(Row(f"a bundle's list: {name}", SITE, rf"bundle b: bundle\.json{says}", make))
    later = sound.replace('"format": 2', '"format": 3, "signed": []')
    says = r"bundle b was written by a later suite, which suite [\d.]+ does not read: read it with that version"
    for command in (SITE, VERIFY, "tuned import b"):
        make = bundle(listing=later.encode())
        rows.append(Row(f"{command}: a bundle of a later version", command, says, make))
    return rows


def _contents() -> list[Row]:
    """Bundles whose hashes are right."""
    rows = []
    for name, command, says, change in (
        ("no rows", VERIFY, rf"{BOARD}: rows is required", lambda c: c[BOARD].clear()),
        ("a row of text", VERIFY, rf"{BOARD}: rows\.0 = 'x': .*", lambda c: c[BOARD].update(rows=["x"])),
        ("no board", VERIFY, rf"{BOARD} is missing", lambda c: c.pop(BOARD)),
        ("no searches", SITE, rf"{SEARCHES} is missing", lambda c: c.pop(SEARCHES)),
        ("records of text", SITE, rf"{RECORDS}: 0 = 'x': .*", lambda c: c.update({RECORDS: ["x"]})),
        ("a run twice", SITE, rf"{FINALS} has run 'r11' twice", lambda c: c[FINALS].append(c[FINALS][0])),
        (
            "a score of text", SITE, rf"{FINALS}: 0\.metrics\.test_score = \[\]: .*",
            lambda c: c[FINALS][0]["metrics"].update(test_score=[]),
        ),
        (
            "a course of another length", SITE,
            rf"{FINALS}: 0\.curve\.0 = .*: test_accuracy has 1 values at 2 rounds",
            lambda c: c[FINALS][0]["curve"][0]["values"].update(test_accuracy=[0.1]),
        ),
        (
            "a day that is none", SITE, rf"{RECORDS}: 0\.began = 1e\+300: .*",
            lambda c: c[RECORDS][0].update(began=1e300),
        ),
        (
            "a tag of a number", SITE, rf"{RECORDS}: 0\.tags\.study = 7: .*",
            lambda c: c[RECORDS][0]["tags"].update(study=7),
        ),
        (
            "infinite", SITE, rf"{FINALS} is not JSON that can be read: 1e999 is no finite number",
            lambda c: c.update({FINALS: json.dumps(c[FINALS]).replace("0.6", "1e999")}),
        ),
        (
            "huge", VERIFY, rf"{BOARD} is not JSON that can be read: 9+ is no whole number below 2\^63",
            lambda c: c.update({BOARD: '{"rows": [{"mean": ' + "9" * 100 + "}]}"}),
        ),
    ):  # fmt: skip
        says = f"bundle b: {says}"
        rows.append(Row(f"a bundle: {name}", command, says, bundle(change)))
    for name, more, says in (
        ("runs that are none", "provenance: {runs: 7}\n", r"provenance = .*: runs is 7, but must be .*"),
        ("a seed that is a command", "scores: {test_by_seed: {x; ls: 1}}\n", r"scores = .*"),
        ("hashes that are none", "provenance: {code: 7}\n", r"its hashes of code are 7, .*"),
    ):  # fmt: skip
        said = rf"1 of 1 files cannot be imported; nothing was bundle b: {TUNED}: (1 fault, nothing was started )?{says}"
        make = bundle(lambda c, more=more: c.update({TUNED: _but(c[TUNED], more)}))
        rows.append(Row(f"a bundle's tuned file: {name}", "tuned import b", said, make))
    return rows


def _but(tuned: str, more: str) -> str:
    """A tuned file with another value of its last keys."""
    return re.sub(rf"^{more.partition(':')[0]}: .*\n", more, tuned, flags=re.MULTILINE)


def _archives() -> list[Row]:
    rows = []
    encrypted, other = (1).to_bytes(2, "little"), (97).to_bytes(2, "little")
    for name, make, says in (
        ("no name", zipped({"": b""}), r": '' leads outside of it"),
        ("a name of two lines", zipped({"a\nerror: b": b""}), r": no file .* the name 'a\\nerror: b'"),
        ("a name that turns", zipped({"a\u202eb": b""}), r": no file of a bundle has the name .*"),
        ("a long name", zipped({"y" * 5000: b""}), r": no file of a bundle has the name 'y{80}'"),
        ("a link", member("x", stat.S_IFLNK | 0o777), r": x is a link"),
        ("a file twice", twice, r": 'board.json' is there twice"),
        ("encrypted", patched(8, encrypted), r" cannot be read: .* is encrypted, .*"),
        ("another method", patched(10, other), r" cannot be read: That compression method is .*"),
        ("another size", patched(24, b"\5\0\0\0"), r" is not a readable zip: .*"),
        ("damaged", patched(60, bytes(30), zipfile.ZIP_LZMA), r" .*"),
        ("a member below a file", zipped({f"{BOARD}/x": b""}), r": board.json/x is not listed"),
    ):  # fmt: skip
        rows.append(Row(f"a zip: {name}", "board b.zip", f"bundle b.zip{says}", make))
    for name, more, says in (
        ("a pipe", fifo("b/x"), r"cannot read file of a bundle b/x: it is a pipe, not a file"),
        ("a link to itself", loop("b/x"), r"bundle b: x is a link"),
    ):
        rows.append(Row(f"a bundle with {name}", SITE, says, both(bundle(), more)))
    return rows


def _outputs() -> list[Row]:
    """What lies where a site is to be written."""
    listed = {"../precious": {"sha256": hashlib.sha256(b"mine").hexdigest()}}
    there = both(text("precious", "mine"), text("out/site.json", json.dumps({"files": listed})))
    elsewhere = r"cannot write out/scenarios/\S+: out/scenarios is not a folder"
    no_folder, looping = r"cannot write out: it is not a folder", r"cannot write out: .*"
    whole = (no_folder, looping)
    rows = []
    for name, make, says in (
        ("a file", text("out", "mine"), no_folder),
        ("a pipe", fifo("out"), no_folder),
        ("a loop", loop("out"), looping),
        ("a page of others", text("out/index.html", "mine"), rf"out/index.html {STAYS}"),
        ("a page that is a pipe", fifo("out/index.html"), rf"out/index.html {STAYS}"),
        ("a page that is a folder", directory("out/index.html"), rf"out/index.html {STAYS}"),
        (
            "a folder that is a link",
            both(directory("d"), _link("out/scenarios", "../d")),
            elsewhere,
        ),
        ("a folder that is a file", text("out/scenarios", "mine"), elsewhere),
        ("a list of others", text("out/site.json", "{}"), rf"out/site.json {STAYS}"),
        ("a deep list", text("out/site.json", "[" * 100_000), rf"out/site.json {STAYS}"),
        ("a list that is a pipe", fifo("out/site.json"), rf"out/site.json {STAYS}"),
        ("a list that is a link", _link("out/site.json", "../d"), rf"out/site.json {STAYS}"),
        ("a list of what lies outside", there, rf"out/site.json {STAYS}"),
    ):
        made = make if says in whole else both(directory("out"), make)
        rows.append(Row(f"a site into {name}", SITE, says, both(bundle(), made)))
    says = r"b is a bundle, and may hold listed files only"
    rows.append(Row("a site into its bundle", "board b --output b", says, bundle()))
    return rows


def _link(name: str, to: str) -> Make:
    return lambda folder: (folder / name).symlink_to(to)


ROWS = _listings() + _contents() + _archives() + _outputs()
