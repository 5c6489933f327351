"""`suite new algorithm`: a commented file that works, and its test."""

import keyword
import os
import re
from importlib.resources import files
from pathlib import Path
from string import Template

from suite.yaml_files import writing
from trials import algorithms
from trials.common.errors import UserError


def new_algorithm(name: str, folder: Path) -> list[Path]:
    """Write `name.py` and `test_name.py` into a folder; raises `UserError` for a name that is none, or is
    taken, and where a file is there.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or keyword.iskeyword(name):
        raise UserError(f"name {name!r}: must be letters, digits and _, a letter first: SlowMo")
    stem = name.lower()
    if taken := {name, stem, stem.replace("_", "")} & algorithms.known().keys():
        raise UserError(f"name {name!r}: there is an algorithm {taken.pop()!r}; choose another")
    title = name if name != name.lower() else "".join(w.capitalize() for w in name.split("_"))
    words = {
        "name": title,
        "title": title,
        "stem": stem,
        "file": f"{stem}.py",
        "test": f"test_{stem}.py",
        "constant": stem.upper(),
    }
    texts = {"file": "algorithm.py.txt", "test": "test.py.txt"}
    templates = files("suite.authoring")
    made = {
        folder / words[key]: Template(templates.joinpath(text).read_text("utf-8")).substitute(words)
        for key, text in texts.items()
    }
    for path in made:
        if os.path.lexists(path):  # a link to nothing, too
            raise UserError(f"{path} exists, and is kept: choose another name or --folder")
    for path, text in made.items():
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
    return list(made)
