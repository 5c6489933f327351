"""The forms in which tuned configurations are written. What makes them is loaded when it is asked for."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suite.configurations.configuration import Tuned


class Form(StrEnum):
    """A file of the suite, a program, or another framework's run configuration."""

    YAML = "yaml"
    PYTHON = "python"
    FLOWER = "flower"

    @property
    def sign(self) -> str:
        """How the suite knows a file again that it wrote."""
        from suite.configurations import configuration
        from suite.configurations.exports import flower, pytorch

        signs = {Form.YAML: configuration.SIGN, Form.PYTHON: pytorch.SIGN, Form.FLOWER: flower.SIGN}
        return signs[self]

    def files(
        self, tuned: "Tuned", folder: Path, seed: int | None, data_root: str | None
    ) -> dict[Path, bytes]:
        """The files of a configuration below a folder; with a `seed` the run that a program repeats is one.

        Raises `UserError` for a configuration that has no such form.
        """
        from suite.configurations.exports import flower, pytorch

        path = folder / tuned.path
        if self is Form.YAML:
            return {path: tuned.text().encode()}
        if self is Form.FLOWER:
            return {path.with_suffix(".toml"): flower.run_config(tuned).encode()}
        run = pytorch.prepared(tuned, seed or 0, data_root)
        made = {path.with_suffix(".py"): pytorch.program(tuned, run).encode()}
        if seed is not None:
            made[path.with_suffix(".pt")] = pytorch.federation(run)
        return made
