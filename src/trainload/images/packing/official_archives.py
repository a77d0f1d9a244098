"""ImageNet's archives as they are published, by their names: a folder that holds them is a source of two splits."""

from __future__ import annotations

import os
import re
from pathlib import Path

from trainload.images.classes.folder_rules import SPLITS, is_hidden

ARCHIVE_NAMES = {"train": "ILSVRC2012_img_train.tar", "val": "ILSVRC2012_img_val.tar"}
_WORDNET_ID = re.compile(r"n\d{8}")


def official_parts(root: str | os.PathLike[str]) -> dict[str, str]:
    """Where each split of a folder with official archives lies; {} for any other folder, and for what is none.

    A split's own folder goes before its archive, so a folder of both folders is none of these. Nor is one with classes
    in it: there an archive is what was left when it was unpacked.
    """
    top = Path(root)
    if not top.is_dir() or not any((top / name).is_file() for name in ARCHIVE_NAMES.values()):
        return {}
    if any(_WORDNET_ID.fullmatch(name) for name in os.listdir(top)):  # noqa: PTH208 - names, no paths
        return {}
    parts = {}
    for split in SPLITS:
        for path, is_there in ((top / split, Path.is_dir), (top / ARCHIVE_NAMES[split], Path.is_file)):
            if is_there(path):
                parts[split] = str(path.absolute())
                break
    return parts if any(Path(path).name in ARCHIVE_NAMES.values() for path in parts.values()) else {}


def beside(root: str | os.PathLike[str], used: set[str]) -> list[str]:
    """What else lies in the folder, but for hidden entries. used: absolute paths."""
    top = Path(root).absolute()
    return sorted(name for name in os.listdir(top) if not is_hidden(name) and str(top / name) not in used)  # noqa: PTH208


def split_of_archive(path: str | os.PathLike[str]) -> str | None:
    """Which split an archive is, by its official name; None for another name."""
    return next((split for split, name in ARCHIVE_NAMES.items() if name == Path(path).name), None)
