"""What of a pack is done, beside the unfinished file: one line of JSON per finished block, so that a kill costs little.

The first line says which pack it is; a journal of another pack is refused. A line that a kill cut short is dropped.
Blocks are checked against their CRC-32 when a pack resumes, so a line may reach the disk before its block does.
"""

from __future__ import annotations

import base64
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError

Refusal = tuple[int, int, str]  # picture, kind, reason


@dataclass(frozen=True, slots=True)
class BlockRecord:
    """One finished block. pictures: uint32, source positions in block order. kinds: uint16, flags of each of them.

    picture_crcs: uint32, CRC-32 of each sample's bytes.

    used_bytes: of the block, pictures with their padding. max_area: pixels of the largest picture. refusals: pictures
    that were refused since the block before.
    """

    volume: int
    crc: int
    pictures: NDArray[np.uint32]
    kinds: NDArray[np.uint16]
    picture_crcs: NDArray[np.uint32]
    used_bytes: int
    max_area: int
    refusals: list[Refusal] = field(default_factory=list)

    def to_line(self) -> bytes:
        record = {
            "volume": self.volume, "crc": self.crc, "used_bytes": self.used_bytes, "max_area": self.max_area,
            "refusals": self.refusals,
            "pictures": base64.b64encode(self.pictures.astype("<u4").tobytes()).decode(),
            "kinds": base64.b64encode(self.kinds.astype("<u2").tobytes()).decode(),
            "picture_crcs": base64.b64encode(self.picture_crcs.astype("<u4").tobytes()).decode(),
        }  # fmt: skip
        return json.dumps(record).encode() + b"\n"

    @staticmethod
    def from_line(line: bytes) -> BlockRecord:
        """Raises ValueError, KeyError or TypeError for a line that is not whole."""
        record = json.loads(line)
        return BlockRecord(
            int(record["volume"]), int(record["crc"]),
            np.frombuffer(base64.b64decode(record["pictures"]), "<u4"),
            np.frombuffer(base64.b64decode(record["kinds"]), "<u2"),
            np.frombuffer(base64.b64decode(record["picture_crcs"]), "<u4"),
            int(record["used_bytes"]), int(record["max_area"]),
            [(int(n), int(kind), str(why)) for n, kind, why in record["refusals"]],
        )  # fmt: skip


class Journal:
    """Appends block records; `records` are those that an earlier run left. `close` keeps the file, `remove` ends it."""

    def __init__(self, path: Path, identity: dict[str, Any], *, resume: bool) -> None:
        """identity: what must be equal for a resumed pack, JSON values. Raises UsageError where it is not."""
        self.path = path
        self.records: list[BlockRecord] = []
        good = self._read(identity) if resume and path.exists() else 0
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.ftruncate(self._fd, good)
        self._end = good
        if not good:
            self._append(json.dumps(identity).encode() + b"\n")

    def add(self, record: BlockRecord) -> None:
        self._append(record.to_line())

    def keep(self, records: list[BlockRecord]) -> None:
        """Begin the list of blocks anew with these, after a check found that not all of them hold."""
        first_line = self.path.read_bytes().split(b"\n", 1)[0] + b"\n"
        os.ftruncate(self._fd, len(first_line))
        self._end = len(first_line)
        for record in records:
            self.add(record)
        self.records = records

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def remove(self) -> None:
        self.close()
        self.path.unlink(missing_ok=True)

    def _append(self, line: bytes) -> None:
        done = 0
        while done < len(line):
            done += os.pwrite(self._fd, line[done:], self._end + done)
        self._end += len(line)

    def _read(self, identity: dict[str, Any]) -> int:
        """Fill `records`; the bytes of the journal that are whole."""
        first, *lines = self.path.read_bytes().splitlines(keepends=True) or [b""]
        if not first.endswith(b"\n"):
            return 0
        try:
            found = dict(json.loads(first))
        except (ValueError, TypeError):
            return 0
        if found != identity:
            other = sorted(key for key in identity if found.get(key) != identity[key])
            raise UsageError(
                f"the unfinished pack differs in {', '.join(other)}: go on with the same source and switches, "
                f"or begin anew without --resume: {self.path}"
            )
        good = len(first)
        for line in lines:
            try:
                self.records.append(BlockRecord.from_line(line))
            except (ValueError, KeyError, TypeError):
                break
            good += len(line)
        return good
