"""What the folders at the top of a source are: classes, splits, or nothing of ours. By their names only."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from trainload.errors import UsageError
from trainload.images.classes.class_list import ClassList, some

SPLITS = ("train", "val")  # what `pack` takes apart by itself
_SPLIT = re.compile(
    r"(train|training|trn|val|valid|validation|dev|devel|test|testing|tst|eval|evaluation|holdout|trainval)"
    r"([ _-]?(set|data|split|images?|imgs?))?[ _-]?\d*",
    re.IGNORECASE,
)
_SYSTEM = {
    "__macosx",
    "thumbs.db",
    "ehthumbs.db",
    "desktop.ini",
    "@eadir",
    "$recycle.bin",
    "system volume information",
    "lost+found",
}


def is_hidden(name: str) -> bool:
    """True for what tools leave beside pictures: dot files (.git, .ipynb_checkpoints, ._x.jpg), __MACOSX, Thumbs.db."""
    return name.startswith(".") or name.lower() in _SYSTEM


def is_split(name: str) -> bool:
    """True for a name that a split would have: train, val, validation, test, dev and their like, in any case."""
    return _SPLIT.fullmatch(name) is not None


def is_held_out_split(name: str) -> bool:
    """True for the name of a split that nobody trains on: val, validation, test, dev and their like, in any case."""
    return is_split(name) and not name.lower().startswith("tr")


def find_splits(
    root: str, folders: Iterable[str], holds_folders: Callable[[str], bool], given: ClassList | None, as_is: bool
) -> tuple[str, ...]:
    """() where the folders are classes; ("train", "val") or one of them where these are all there is.

    A name in `given` is a class. as_is: every name is. holds_folders: whether a folder has folders in it, asked only of
    one with a split's name beside others. Raises UsageError for splits in the place of classes.
    """
    names = set(folders)
    listed = set() if given is None else set(given.folders)
    splits = {name for name in names - listed if is_split(name)} if not as_is else set()
    if splits and splits == names and names <= set(SPLITS):
        return tuple(split for split in SPLITS if split in names)
    mixed = len(splits) == 1 and splits != names
    if not splits or (mixed and not holds_folders(next(iter(splits)))):
        return ()
    beside = f" beside {some(names - splits)}" if splits != names else ""
    first = sorted(splits)[0]
    raise UsageError(
        f"{root} holds the folders of splits in the place of classes ({some(splits)}{beside}): open or pack "
        f"{root}/{first} and each other one by itself (equal labels: classes=, --classes); where these are names of "
        f"classes, say so by classes_as_is=True or --classes-as-is"
    )
