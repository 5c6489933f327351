"""The command `suite new algorithm`, which writes a commented file with a working algorithm, and its test."""

import keyword
import os
import re
from importlib.resources import files
from pathlib import Path
from string import Template

from suite.yaml_files import writing
from trials import algorithms
from trials.common.errors import UserError


def new_algorithm(name: str, folder: Path) -> tuple[str, Path, Path]:
    """Write a new algorithm and its test, and return the class's name and both paths. Raise `UserError` for a bad or taken name."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or keyword.iskeyword(name):
        raise UserError(f"name {name!r}: must be letters, digits and _, a letter first: SlowMo")
    stem = name.lower()
    if taken := {name, stem, stem.replace("_", "")} & algorithms.known().keys():
        raise UserError(f"name {name!r}: there is an algorithm {taken.pop()!r}; choose another")
    title = name if name != stem else "".join(word.capitalize() for word in name.split("_"))
    words = {"name": title, "title": title, "stem": stem, "constant": stem.upper()}
    words |= {"file": f"{stem}.py", "test": f"test_{stem}.py"}
    file, test = folder / words["file"], folder / words["test"]
    for path in (file, test):
        if os.path.lexists(path):  # also true for a broken link
            raise UserError(f"{path} exists, and is kept: choose another name or folder")
    for path, template in ((file, "algorithm.py.txt"), (test, "test.py.txt")):
        text = files("suite.authoring").joinpath(template).read_text("utf-8")
        with writing(path):
            path.write_text(Template(text).substitute(words), encoding="utf-8")
    return title, file, test
