"""YAML that cannot be: of studies, and of tuned files."""

from tests.support.corpus import PLAN, Row, directory, fifo, loop, text

LAUGHS = "a0: &a0 [lol, lol]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)
)
"""9^29 items in a kilobyte."""


def _documents() -> list[Row]:
    """YAML: of studies, and of tuned files."""
    deep = "a: " + "[" * 5000 + "]" * 5000
    rows = []
    for kind, command in (
        ("study", PLAN),
        ("tuned", "run mine.yaml"),
        ("import", "tuned import mine.yaml"),
    ):
        says = (
            r"mine.yaml is not YAML that can be read: "
            if kind != "import"
            else r"1 of 1 files cannot be imported; nothing was mine.yaml is not YAML that can be read: "
        )
        for name, content, rule in (
            ("deep lists", deep, r"it is nested deeper than \d+ levels.*"),
            (
                "deep blocks",
                "".join(f"{' ' * n}a:\n" for n in range(500)),
                r"it is nested deeper than \d+ levels.*",
            ),
            ("aliases of lists", LAUGHS, r"it has more than [\d,]+ values, aliases written out.*"),
            (
                "aliases of mappings",
                LAUGHS.replace("[", "{a: ")
                .replace(", *", ", b: *")
                .replace("]", "}")
                .replace(", lol", ", b: lol"),
                r".*",
            ),
            (
                "merges",
                "a0: &a0 {x: 1}\n"
                + "".join(
                    f"a{n}: &a{n}\n  <<: [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)
                ),
                r"it has more than .*",
            ),
            ("an alias of itself", "a: &a [*a]", r"an alias stands for what it is in"),
            ("a date that is none", "a: 2026-13-45", r".*"),
            ("a long number", "a: " + "9" * 5000, r".*"),
            ("a tag", "a: !!timestamp x", r".*"),
            ("a bool", "a: !!bool x", r".*"),
            ("an empty int", "a: !!int ''", r".*"),
            (
                "duplicate keys",
                "trials: 3\nseeds: 1\ntrials: 4\n",
                r"the key 'trials' is there twice.*",
            ),
            ("large", "a: [" + "1, " * 400_000 + "1]", r"it is longer than [\d,]+ bytes"),
            ("bytes", bytes(range(256)), r".*"),
        ):
            said = says + rule if name != "bytes" else r".*mine.yaml.*"
            rows.append(Row(f"{kind}: {name}", command, said, text("mine.yaml", content)))
        read = r".*cannot read (study|configuration) mine.yaml: "
        rows += [
            Row(f"{kind}: a fifo", command, read + r"it is a pipe, not a file", fifo("mine.yaml")),
            Row(
                f"{kind}: a loop",
                command,
                r".*cannot read \w+ mine.yaml: Too many levels of symbolic links",
                loop("mine.yaml"),
            ),
        ]
        if kind != "import":
            rows.append(
                Row(
                    f"{kind}: a folder",
                    command,
                    read + r"it is a folder, not a file",
                    directory("mine.yaml"),
                )
            )
    long = "x" * 300
    rows += [
        Row(
            "a device",
            "run /dev/zero",
            r"cannot read configuration /dev/zero: it is a device, not a file",
        ),
        Row(
            "a long name",
            f"sweep {long}.yaml --dry-run",
            r"(--name x+: .*|cannot read study .*: File name too long)",
        ),
        Row(
            "a long name of a configuration",
            f"run {long}.yaml",
            r"cannot read configuration .*: File name too long",
        ),
        Row(
            "import of a long name",
            f"tuned import {long}.yaml",
            r"x+.yaml does not exist",
        ),
    ]
    return rows


ROWS = _documents()
