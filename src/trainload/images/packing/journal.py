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
from trainload.storage.atomic import name_path
from trainload.storage.claim import claim, release
from trainload.storage.volume_sink import VolumeSink

SYNC_BEGUN, SYNC_DONE = b'{"sync": "begun"}\n', b'{"sync": "done"}\n'
Refusal = tuple[int, int, str]  # picture, kind, reason


@dataclass(frozen=True, slots=True)
class BlockRecord:
    """One finished block. pictures: uint32, source positions in block order. kinds: uint16, flags of each of them.

    sizes, picture_crcs: uint32, bytes of each sample and their CRC-32. used_bytes: of the block, pictures with their
    padding. max_area: pixels of the largest picture. refusals: pictures that were refused since the block before.
    """

    volume: int
    crc: int
    pictures: NDArray[np.uint32]
    kinds: NDArray[np.uint16]
    sizes: NDArray[np.uint32]
    picture_crcs: NDArray[np.uint32]
    used_bytes: int
    max_area: int
    refusals: list[Refusal] = field(default_factory=list)

    @property
    def source_pictures(self) -> int:
        """Pictures that are done with: packed, or refused."""
        return len(self.pictures) + len(self.refusals)

    def to_line(self) -> bytes:
        record = {
            "volume": self.volume,
            "crc": self.crc,
            "used_bytes": self.used_bytes,
            "max_area": self.max_area,
            "refusals": self.refusals,
            "pictures": base64.b64encode(self.pictures.astype("<u4").tobytes()).decode(),
            "kinds": base64.b64encode(self.kinds.astype("<u2").tobytes()).decode(),
            "sizes": base64.b64encode(self.sizes.astype("<u4").tobytes()).decode(),
            "picture_crcs": base64.b64encode(self.picture_crcs.astype("<u4").tobytes()).decode(),
        }
        return json.dumps(record).encode() + b"\n"

    @staticmethod
    def from_line(line: bytes) -> BlockRecord:
        """Raises ValueError, KeyError or TypeError for a line that is not whole."""
        record = json.loads(line)
        return BlockRecord(
            int(record["volume"]),
            int(record["crc"]),
            np.frombuffer(base64.b64decode(record["pictures"]), "<u4"),
            np.frombuffer(base64.b64decode(record["kinds"]), "<u2"),
            np.frombuffer(base64.b64decode(record["sizes"]), "<u4"),
            np.frombuffer(base64.b64decode(record["picture_crcs"]), "<u4"),
            int(record["used_bytes"]),
            int(record["max_area"]),
            [(int(n), int(kind), str(why)) for n, kind, why in record["refusals"]],
        )


class Journal:
    """Appends block records; `records` are those that an earlier run left. `close` keeps the file, `remove` ends it.

    It is locked while it is open: two packs never write one set. Before a sync of the blocks it says so, and after it
    that it was good. A sync without its end may have failed, and after a failed sync the page cache shows bytes that
    the disk does not hold: then the blocks since the last good sync are not among `records`.
    """

    def __init__(self, path: Path, identity: dict[str, Any], *, resume: bool) -> None:
        """path: its own, `<target>.journal`. identity: what must be equal for a resumed pack, JSON values.

        Raises UsageError where it is not, and where another process packs to the same name.
        """
        self.path = path
        self.records: list[BlockRecord] = []
        self.synced = 0  # of `records`, those that the disk holds for certain
        self._fd = claim(path, path.with_suffix(""), resume=resume)
        is_new = not os.fstat(self._fd).st_size
        try:
            self._end = self._read(identity) if resume else 0
            self._cut(self._end)
            if not self._end:
                self._append(json.dumps(identity).encode() + b"\n")
        except BaseException:
            if is_new:
                self.remove()
            self.close()
            raise

    def add(self, record: BlockRecord) -> None:
        self._append(record.to_line())

    def unsynced(self, volume: int) -> bool:
        """Whether the disk may lack some of `records` of that volume."""
        return any(record.volume == volume for record in self.records[self.synced :])

    def sync(self, volume: VolumeSink) -> None:
        """Sync the volume of the blocks that were added last; all before them must have been synced."""
        self._append(SYNC_BEGUN)
        volume.sync()
        self._append(SYNC_DONE)

    def keep(self, records: list[BlockRecord]) -> None:
        """Begin the list of blocks anew with these, which are synced, after a check that found others wanting."""
        self._cut(self.path.read_bytes().index(b"\n") + 1)
        for record in records:
            self.add(record)
        self._append(SYNC_DONE)
        self.records, self.synced = records, len(records)

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            release(fd)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)
        self.close()

    def _cut(self, size: int) -> None:
        try:
            os.ftruncate(self._fd, size)
        except OSError as error:
            name_path(error, self.path, self.path)
            raise
        self._end = size

    def _append(self, line: bytes) -> None:
        done = 0
        try:
            while done < len(line):
                done += os.pwrite(self._fd, line[done:], self._end + done)
        except OSError as error:
            name_path(error, self.path, self.path)
            raise
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
        return self._read_lines(lines, len(first))

    def _read_lines(self, lines: list[bytes], good: int) -> int:
        """Fill `records` from the lines that follow byte `good`; where what is to be believed of them ends."""
        end, synced_end = good, good
        begun = False
        for line in lines:
            if line == SYNC_BEGUN:
                begun = True
            elif line == SYNC_DONE:
                begun, self.synced, synced_end = False, len(self.records), end + len(line)
            else:
                try:
                    self.records.append(BlockRecord.from_line(line))
                except (ValueError, KeyError, TypeError):
                    break
            end += len(line)
        if begun:
            del self.records[self.synced :]
            return synced_end
        return end
