"""What the metadata.yaml of a ROS 2 bag says of its files: storage, compression, and how many messages each has.

The few keys are read by hand, without a YAML library. It is a hint: importers look at the files first, and use a count
from here for what they found damaged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_MAX_BYTES = 4 << 20
_LINE = re.compile(r"^( *)(- +)?(\w+): *[\"']?([^\"'\s]*)")
_FILE = re.compile(r"^ *(?:- +)?(?:path: *)?[\"']?([^\"':\n]*\.(?:db3|mcap)(?:\.zstd)?)[\"']?\s*$", re.MULTILINE)
_COUNT = re.compile(r"[0-9]{1,18}")
_PLAIN_ITEM = re.compile(r"^ *- +[\"']?([^\"'\s:]+)[\"']?\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class BagMetadata:
    """storage: "sqlite3", "mcap" or "". mode: "none", "file", "message", "storage". compression: "zstd" or a plugin's
    name. messages: how many per file, by its name without ".zstd". files: the names of all, without it."""

    storage: str = ""
    mode: str = "none"
    compression: str = ""
    messages: dict[str, int] = field(default_factory=dict)
    files: tuple[str, ...] = ()

    @staticmethod
    def of(folder: Path) -> BagMetadata:
        """From metadata.yaml in `folder`; nothing is known where it is not there or says something else."""
        path = folder / "metadata.yaml"
        if not path.is_file():
            return BagMetadata()
        with path.open("rb") as file:
            text = file.read(_MAX_BYTES).decode("utf-8", "replace")
        blocks = list(_blocks(text))
        whole: dict[str, str] = next((keys for keys in blocks if "storage_identifier" in keys), {})
        messages = {
            _name(keys["path"]): int(keys["message_count"])
            for keys in blocks
            if keys.get("path") and _COUNT.fullmatch(keys.get("message_count", ""))
        }
        files = [item for item in _PLAIN_ITEM.findall(text) if Path(item.removesuffix(".zstd")).suffix]
        if not messages and len(files) == 1 and _COUNT.fullmatch(whole.get("message_count", "")):
            messages[_name(files[0])] = int(whole["message_count"])  # bags older than version 5 list no `files`
        return BagMetadata(
            whole.get("storage_identifier", ""),
            whole.get("compression_mode", "").lower() or "none",
            whole.get("compression_format", "").lower(),
            messages,
            tuple(dict.fromkeys(map(_name, _FILE.findall(text)))),
        )

    def missing(self, folder: Path) -> list[str]:
        """The files that are not in `folder`, neither plain nor compressed; none where all were given other names."""
        gone = [name for name in self.files if not any((folder / (name + end)).exists() for end in ("", ".zstd"))]
        there = [path for end in ("db3", "mcap") for path in folder.glob(f"*.{end}*")]
        return [] if len(gone) == len(self.files) == len(there) else gone


def _name(path: str) -> str:
    return Path(path).name.removesuffix(".zstd")


def _blocks(text: str) -> Iterator[dict[str, str]]:
    """The keys with plain values of every mapping, outer ones after those inside them."""
    open_blocks: list[tuple[int, dict[str, str]]] = []
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        column = len(found[1]) + len(found[2] or "")
        while open_blocks and (open_blocks[-1][0] > column or (found[2] and open_blocks[-1][0] == column)):
            yield open_blocks.pop()[1]
        if not open_blocks or open_blocks[-1][0] < column:
            open_blocks.append((column, {}))
        value = (
            line.partition(":")[2].strip().strip("\"'") if found[3] == "path" else found[4]
        )  # a name may have spaces
        open_blocks[-1][1][found[3]] = value
    yield from (keys for _, keys in reversed(open_blocks))
