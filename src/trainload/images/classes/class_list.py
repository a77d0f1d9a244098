"""The classes of a source in label order, where somebody gives them instead of the folders' sorted names.

A list may stand in a text file (one name per line) or in CLASSES_FILE beside the class folders, which `extract` writes
where folder names alone would not give the labels back. Parses and checks; reads nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from trainload.errors import UsageError
from trainload.formats.limits import MAX_CLASSES
from trainload.formats.printable import printable
from trainload.images.format import rules

CLASSES_FILE = "trainload-classes.json"
MAX_CLASS_LIST_BYTES = 64 << 20
MAX_NAMED = 5  # classes in one message
_SYNSET = re.compile(r"n\d{8} ")  # "n01440764 tench, Tinca tinca", as lists of ImageNet's classes have it


@dataclass(frozen=True, slots=True)
class ClassList:
    """names: in label order. folders: the folder of each class. origin: where the list comes from, for errors."""

    names: tuple[str, ...]
    folders: tuple[str, ...]
    origin: str

    @staticmethod
    def of_names(names: Sequence[str], origin: str) -> ClassList:
        """A list of names that are folder names too. Raises UsageError for no name, a bad one, and one twice."""
        if not names:
            raise UsageError(f"a list of classes needs at least one name: {origin}")
        if len(names) > MAX_CLASSES:
            raise UsageError(f"a set has at most {MAX_CLASSES:,} classes, not {len(names):,}: {origin}")
        seen: set[str] = set()
        for name in names:
            if not isinstance(name, str) or not name or "/" in name or "\0" in name:
                raise UsageError(f"a class needs a name without slashes, not {name!r}: {origin}")
            if name in seen:
                raise UsageError(f"a class stands twice in the list: {printable(name)}: {origin}")
            seen.add(name)
        return ClassList(tuple(names), tuple(names), origin)

    def in_order_of(self, asked: ClassList) -> ClassList:
        """The asked classes, in their order, with the folders that this list knows them by."""
        folder_of = dict(zip(self.names, self.folders))
        return ClassList(asked.names, tuple(folder_of.get(name, name) for name in asked.names), asked.origin)

    def to_json(self) -> bytes:
        """What CLASSES_FILE holds."""
        rows = [{"folder": folder, "name": name} for folder, name in zip(self.folders, self.names)]
        return json.dumps({"classes": rows}, indent=1).encode()


def class_list_from_json(data: bytes, path: str) -> ClassList:
    """The list of a CLASSES_FILE. Raises FormatError for anything but different folders with different names."""
    try:
        rows = json.loads(data)["classes"]
        folders, names = [row["folder"] for row in rows], [row["name"] for row in rows]
        if len(set(names)) < len(names):
            raise ValueError("a name stands twice")
        ClassList.of_names(folders, path)
        if not all(isinstance(name, str) and "\0" not in name for name in names):
            raise ValueError("a name is no text")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError, UsageError) as error:
        raise rules.CLASS_LIST.broken(
            field="classes",
            offset=None,
            found=error,
            expected='{"classes": [{"folder": "...", "name": "..."}, ...]}',
            path=path,
        ) from error
    return ClassList(tuple(names), tuple(folders), path)


def class_list_from_text(data: bytes, path: str) -> ClassList:
    """The list of a text file with one name per line, UTF-8; lines of WordNet ID and words give the IDs.

    Raises UsageError for an empty line between two names.
    """
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    lines = [line.removesuffix("\r") for line in text.rstrip("\r\n").split("\n")]
    if "" in lines[:-1]:
        raise UsageError(f"line {lines.index('') + 1} of a list of classes is empty: {path}")
    if all(map(_SYNSET.match, lines)):
        lines = [line.partition(" ")[0] for line in lines]
    return ClassList.of_names(lines if lines != [""] else [], path)


def number_classes(folders: Iterable[str], given: ClassList | None) -> tuple[tuple[str, ...], dict[str, int]]:
    """The names of all classes in label order, and the label of each folder: sorted by name, or as the list gives them.

    Raises UsageError for a folder that is not in the list.
    """
    found = sorted(set(folders))
    if given is None:
        return tuple(found), {name: label for label, name in enumerate(found)}
    label_of = {folder: label for label, folder in enumerate(given.folders)}
    unknown = [name for name in found if name not in label_of]
    if unknown:
        raise UsageError(
            f"{some(unknown)} of the class folders {'is' if len(unknown) == 1 else 'are'} not in the list of classes: "
            f"add to the list or move away what is none: {given.origin}"
        )
    return given.names, label_of


def some(names: Collection[str]) -> str:
    """The first few names, for a message."""
    text = ", ".join(printable(name) for name in sorted(names)[:MAX_NAMED])
    return text if len(names) <= MAX_NAMED else f"{text}, ... ({len(names):,})"
