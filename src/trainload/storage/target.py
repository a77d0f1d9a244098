"""Which name a new file may take: only a regular file is ever replaced, only when asked for, and never an input."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from trainload.errors import UsageError

AnyPath = str | os.PathLike[str]


def check_target(path: AnyPath, *, overwrite: bool, inputs: Iterable[AnyPath] = ()) -> None:
    """Raise UsageError unless a new file may take the name `path`: to be asked before the work.

    inputs: what the work reads; none of them may be `path`, through links of either kind.
    """
    refuse_odd_file(path)
    for source in inputs:
        if same_file(path, source):
            raise UsageError(f"the file exists, and it is an input; give another name: {os.fspath(path)}")
    if not overwrite and os.path.lexists(path):
        raise UsageError(f"the file exists; give another name, or ask to overwrite it: {os.fspath(path)}")


def refuse_odd_file(path: AnyPath) -> None:
    """Raise UsageError where something other than a regular file has the name."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:  # not there; what is wrong with its folder, opening a file in it will say
        return
    if stat.S_ISDIR(mode):
        inside = Path(path) / "NAME"
        raise UsageError(f"a file is to be written and this is a folder; give the name of a file ({inside}): {path}")
    if not stat.S_ISREG(mode):
        raise UsageError(f"only regular files are replaced, and this is a {_kind(mode)}; remove it first: {path}")


def same_file(path: AnyPath, other: AnyPath) -> bool:
    """True where both names lead to one file; False where one leads nowhere."""
    try:
        return Path(path).samefile(other)
    except OSError:
        return False


def _kind(mode: int) -> str:
    kinds = {stat.S_IFLNK: "symbolic link", stat.S_IFIFO: "FIFO", stat.S_IFSOCK: "socket"}
    return kinds.get(stat.S_IFMT(mode), "device")
