"""ImageNet's archives as they are published, by their names: a folder that holds them is a source of two splits."""

from __future__ import annotations

import os
from pathlib import Path

from trainload.images.classes.folder_rules import SPLITS, is_hidden
from trainload.images.classes.walk import holds_pictures

ARCHIVE_NAMES = {"train": "ILSVRC2012_img_train.tar", "val": "ILSVRC2012_img_val.tar"}


def official_parts(root: str | os.PathLike[str]) -> dict[str, str]:
    """Where each split of a folder with official archives lies; {} for any other folder, and for what is none.

    A split's own folder goes before its archive, so a folder of both folders is none of these. Nor is one with classes
    in it: there an archive is what was left when it was unpacked.
    """
    top = Path(root).absolute()
    archives = {split: top / name for split, name in ARCHIVE_NAMES.items() if (top / name).is_file()}
    folders = {split: top / split for split in SPLITS if (top / split).is_dir()}
    if not archives.keys() - folders.keys() or _holds_classes(top):
        return {}
    parts = archives | folders
    return {split: str(parts[split]) for split in SPLITS if split in parts}


def _holds_classes(top: Path) -> bool:
    with os.scandir(top) as entries:
        others = [entry.path for entry in entries if entry.name not in SPLITS and not is_hidden(entry.name)]
    return any(Path(path).is_dir() and holds_pictures(path) for path in others)


def beside(root: str | os.PathLike[str], used: set[str]) -> list[str]:
    """What else lies in the folder, but for hidden entries. used: absolute paths."""
    top = Path(root).absolute()
    return sorted(name for name in os.listdir(top) if not is_hidden(name) and str(top / name) not in used)  # noqa: PTH208


def split_of_archive(path: str | os.PathLike[str]) -> str | None:
    """Which split an archive is, by its official name; None for another name."""
    return next((split for split, name in ARCHIVE_NAMES.items() if name == Path(path).name), None)
