"""What of a source of pictures is not used, and why: counts with the first examples; nothing vanishes unsaid."""

from __future__ import annotations

from typing import Any

from trainload.formats.printable import printable

MAX_EXAMPLES = 3  # of each reason

HIDDEN = "hidden or system files and folders"
NO_PICTURE_NAME = "files without a picture's name"
NO_CLASS = "files outside of the class folders"
FOLDER = "folders beside pictures that a list labels"
BESIDE = "files and folders beside the splits"
DANGLING = "links to nothing"
LOOP = "links to a folder that holds them"
OUTSIDE = "links out of the archive"
SPECIAL = "pipes, sockets and devices"
SPARSE = "sparse files of the archive"
REPLACED = "files that a later one of the same name replaces"


class LeftOut:
    """Entries of a source that are not used. len: how many in all."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, list[str]]] = {}

    def add(self, reason: str, path: str) -> None:
        """Count one entry; `path` is relative to the source."""
        count, examples = self._found.get(reason, (0, []))
        self._found[reason] = (count + 1, [*examples, path] if count < MAX_EXAMPLES else examples)

    def take(self, other: LeftOut) -> None:
        """Count the other's entries too."""
        for reason, (count, examples) in other._found.items():
            known, own = self._found.get(reason, (0, []))
            self._found[reason] = (known + count, [*own, *examples][:MAX_EXAMPLES])

    def __len__(self) -> int:
        return sum(count for count, _ in self._found.values())

    def count(self, reason: str) -> int:
        """How many were left out for that reason."""
        return self._found.get(reason, (0, []))[0]

    def facts(self) -> dict[str, dict[str, Any]]:
        """By reason {"count", "examples"}, as JSON values."""
        return {reason: {"count": count, "examples": paths} for reason, (count, paths) in self._found.items()}

    @staticmethod
    def from_facts(facts: dict[str, dict[str, Any]]) -> LeftOut:
        """What `facts` told of. Raises ValueError, KeyError or TypeError for what is none."""
        left_out = LeftOut()
        for reason, each in dict(facts).items():
            left_out._found[str(reason)] = (int(each["count"]), [str(path) for path in each["examples"][:MAX_EXAMPLES]])
        return left_out

    def __repr__(self) -> str:
        return f"LeftOut({'; '.join(lines_of(self.facts()))})"


def lines_of(facts: dict[str, dict[str, Any]]) -> list[str]:
    """One line for people per reason of `LeftOut.facts`."""
    return [
        f"{each['count']:,} {reason}: {', '.join(map(printable, each['examples']))}"
        + (", ..." if each["count"] > len(each["examples"]) else "")
        for reason, each in facts.items()
    ]
