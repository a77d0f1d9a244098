"""The files of a log: one, or the splits of a folder in the order of their numbers."""

from __future__ import annotations

from pathlib import Path

from trainload.errors import UsageError
from trainload.importers.source import Damage


def log_files(path: str | Path, pattern: str, magic: bytes, damage: Damage) -> list[Path]:
    """The file at `path`, or the files of the folder there that begin with `magic`; others count as damage.

    A single file that begins otherwise is for its reader to refuse. Raises UsageError where there is no file.
    """
    found = Path(path)
    files = [found] if found.is_file() else _in_order(found, pattern)
    if not files:
        raise UsageError(f"no {pattern} lies at {found}")
    if len(files) == 1:
        return files
    good = [file for file in files if _begins_with(file, magic)]
    for file in files:
        if file not in good:
            damage.add(f"{file} does not begin as a {pattern} does", size_bytes=file.stat().st_size)
    return good or files[:1]


def _in_order(folder: Path, pattern: str) -> list[Path]:
    return sorted(folder.glob(pattern), key=lambda file: (len(file.name), file.name))


def _begins_with(file: Path, magic: bytes) -> bool:
    with file.open("rb") as opened:
        return opened.read(len(magic)) == magic
