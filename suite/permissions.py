"""Folders for their owner alone, and files that nobody else can have written."""

import grp
import os
import pwd
import stat
from pathlib import Path


def private(folder: Path) -> None:
    """Make a folder that only its owner enters; one that is there stays as it is."""
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)


def others_hand(path: Path) -> str:
    """How another user can have written a file, in words; "" where none can, or there is no file.

    The administrator is no other user, and a group that has one's own name and no other member none.
    """
    try:
        found = [path.lstat(), path.stat()]  # a link, and what it leads to
    except OSError:
        return ""
    for status in found:
        if status.st_uid not in (0, os.getuid()):
            return f"belongs to {_name(status.st_uid)}"
        if not stat.S_ISLNK(status.st_mode):
            if status.st_mode & stat.S_IWOTH:
                return "can be written by every user"
            if status.st_mode & stat.S_IWGRP and not _is_own(status.st_gid):
                return "can be written by its group"
    return ""


def _name(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


def _is_own(gid: int) -> bool:
    try:
        group, name = grp.getgrgid(gid), pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return False
    return group.gr_name == name and set(group.gr_mem) <= {name}
