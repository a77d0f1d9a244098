"""Folders that outlive a power cut, and a folder that appears whole under its name, or not at all."""

from __future__ import annotations

import ctypes
import os
import shutil
from pathlib import Path
from types import TracebackType

from trainload.errors import UsageError
from trainload.storage.atomic import name_path, sync_folder
from trainload.storage.claim import private_name


def make_folders(folder: Path) -> None:
    """Make a folder and those above it; the name of each new one is durable."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in reversed(missing):
        sync_folder(each.parent)


class AtomicFolder:
    """A new folder, filled at `tmp_path`, that takes the name `path` on `commit()`.

    Leaving the `with` block without `commit()` removes it with all that is in it; a crash leaves it beside `path`.
    Raises UsageError where `path` exists and is not an empty folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).resolve()
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise UsageError(f"the folder to write to must be new or empty, and this is not empty: {self.path}")
        make_folders(self.path.parent)
        self.tmp_path = private_name(self.path)
        self.tmp_path.mkdir()

    def commit(self) -> None:
        """Have the disk hold every file in it, rename it, sync the folder above. Raises OSError."""
        sync_file_system(self.tmp_path)
        self.tmp_path.replace(self.path)
        sync_folder(self.path.parent)

    def __enter__(self) -> AtomicFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        shutil.rmtree(self.tmp_path, ignore_errors=True)  # gone after commit()
        if isinstance(error, OSError):
            name_path(error, self.tmp_path, self.path)


def sync_file_system(folder: Path) -> None:
    """Sync all that lies in the folder's file system: one call, where a sync per file takes a disk hours for a million.

    syncfs reports what could not be written (Linux 5.8); elsewhere sync, which only waits.
    """
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        os.sync()
        return
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if syncfs(fd) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), os.fspath(folder))
    finally:
        os.close(fd)
