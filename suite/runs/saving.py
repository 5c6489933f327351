"""Saved models as people keep them: a folder each (`trials.run.saved_model`)."""

from pathlib import Path
from stat import S_ISDIR

from suite.yaml_files import writing
from trials.common.errors import UserError
from trials.run.saved_model import CARD, SavedModel


def check_folder(folder: Path) -> None:
    """Raise `UserError` where a folder holds anything but a saved model, or cannot be looked into."""
    with writing(folder):
        try:
            folder.lstat()
        except FileNotFoundError:
            return
        if not S_ISDIR(folder.stat().st_mode):
            raise UserError(f"cannot save a model in {folder}: it is not a folder")
        if any(folder.iterdir()) and not (folder / CARD).exists():
            raise UserError(
                f"cannot save a model in {folder}: it holds other files; choose another folder"
            )


def save(saved: SavedModel, folder: Path) -> None:
    """Write a model's folder, over one that was saved there before; raises `UserError` where it cannot."""
    check_folder(folder)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        saved.files(folder)
