"""A set in a bucket: each volume an upload, its parts the blocks; the first part, the header region, goes last.

Nothing is visible before a volume is whole. Where an upload stands is for the server to say; which parts are those of
this set, a list beside the journal says, by their CRC-32 and the name that the server gave them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from isal import isal_zlib

from trainload.errors import UsageError
from trainload.storage.bucket import MOST_PARTS, PART_BYTES, Bucket, Part
from trainload.storage.cache_folder import default_folder
from trainload.storage.location import Url, name_of
from trainload.storage.set_manifest import ENDING, VolumeEntry, manifest_to_bytes
from trainload.storage.volume_sink import VolumeShape

if TYPE_CHECKING:
    from typing_extensions import Buffer

MOST_BLOCKS = MOST_PARTS - 1  # of a volume: one part is its header region


class BucketVolume:
    """A volume as an upload: the sink of `BucketVolumes`."""

    def __init__(
        self,
        bucket: Bucket,
        url: str,
        shape: VolumeShape,
        parts_list: Path,
        upload: str | None,
        left: Sequence[int] | None,
    ) -> None:
        if shape.header_bytes != PART_BYTES or shape.block_bytes != PART_BYTES:
            raise UsageError(f"only sets of pictures, in blocks of 16 MB, are packed into a bucket, not {url}")
        self._bucket, self._url, self._shape = bucket, url, shape
        self._list = parts_list
        self._noted: dict[int, tuple[int, str]] = {}  # by part: CRC-32 of the data, the server's name for it
        self._upload = ""
        self.is_published = False  # an earlier attempt has finished it
        if left is None:
            parts_list.unlink(missing_ok=True)
        else:
            self._take_over(upload)
            self.is_published = not self._upload and bool(left) and bucket.size(url) == shape.end(len(left))

    @property
    def state(self) -> Mapping[str, Any]:
        noted = [[number, crc, etag] for number, (crc, etag) in sorted(self._noted.items())]
        return {"upload": self._upload, "parts": noted}

    def count_good(self, crcs: Sequence[int]) -> int:
        if self.is_published:
            return len(crcs) if self._holds(crcs) else 0
        there = {part.number: part.etag for part in self._parts()} if self._upload else {}
        for index, crc in enumerate(crcs):
            known = self._noted.get(index + 2)
            if known is None or known[0] != crc or there.get(index + 2) != known[1]:
                return index
        return len(crcs)

    def write_block(self, index: int, block: Buffer) -> None:
        if index >= MOST_BLOCKS:
            raise UsageError(f"an object has at most {MOST_BLOCKS:,} blocks: pack more volumes: {self._url}")
        self._write(index + 2, block)

    def sync(self) -> None:
        """Nothing: the server has what it acknowledged."""

    def write_header(self, region: Buffer, blocks: int) -> None:
        if {part.number for part in self._parts()} - {1} != set(range(2, blocks + 2)):
            raise UsageError(f"blocks of this unfinished volume are gone: pack it again: {self._url}")
        whole = bytearray(self._shape.header_bytes)
        given = memoryview(region).cast("B")
        whole[: len(given)] = given
        self._write(1, whole)

    def commit(self) -> None:
        self._bucket.complete(self._url, self._upload, self._parts())
        self._list.unlink(missing_ok=True)
        for other in self._bucket.uploads(self._url):
            self._bucket.abort(self._url, other)

    def _holds(self, crcs: Sequence[int]) -> bool:
        """Whether the blocks of the object that is there are these; it is read for that."""
        size = self._shape.block_bytes
        return all(
            isal_zlib.crc32(self._bucket.get_range(self._url, self._shape.end(index), size)) == crc
            for index, crc in enumerate(crcs)
        )

    def _write(self, number: int, data: Buffer) -> None:
        if not self._upload:
            self._upload = self._bucket.begin(self._url)
            self._note({"upload": self._upload})
        part = self._bucket.write_part(self._url, self._upload, number, data)
        self._noted[number] = isal_zlib.crc32(data), part.etag
        self._note({"part": [number, *self._noted[number]]})

    def _parts(self) -> list[Part]:
        parts = self._bucket.parts(self._url, self._upload) if self._upload else None
        if parts is None:
            raise UsageError(f"the upload was given up or finished by another attempt: pack it again: {self._url}")
        return parts

    def _take_over(self, upload: str | None) -> None:
        """Go on with the upload that the list beside the journal names, if the server still has it."""
        try:
            lines = [json.loads(line) for line in self._list.read_bytes().splitlines()]
        except (OSError, ValueError):  # a line that a kill cut short: then all is sent again
            lines = []
        for line in lines:
            if "upload" in line:
                self._upload = str(line["upload"])
            elif "part" in line:
                number, crc, etag = line["part"]
                self._noted[int(number)] = int(crc), str(etag)
        self._upload = upload or self._upload
        if self._upload and self._bucket.parts(self._url, self._upload) is None:
            self._upload, self._noted = "", {}

    def adopt(self, parts: Iterable[Sequence[Any]]) -> None:
        """Know of parts that another process sent."""
        self._noted |= {int(number): (int(crc), str(etag)) for number, crc, etag in parts}

    def _note(self, line: Mapping[str, Any]) -> None:
        self._list.parent.mkdir(parents=True, exist_ok=True)
        with self._list.open("ab") as file:
            file.write(json.dumps(line).encode() + b"\n")

    def __enter__(self) -> BucketVolume:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What was sent stays for a later attempt."""


class BucketVolumes:
    """A set under an s3:// URL: the object itself, or `<stem>-<k>-of-<n><suffix>` beside it, and `<stem>.json`."""

    def __init__(self, url: Url, volumes: int) -> None:
        self._url = url
        self._bucket = Bucket(url)
        folder, _, name = str(url).rpartition("/")
        stem, dot, suffix = name.rpartition(".")
        if not stem:
            raise UsageError(f"a set in a bucket has a name and an ending, as s3://BUCKET/train.dts, not {url}")
        digits = len(str(volumes))
        self._names = [str(url)]
        if volumes > 1:
            self._names = [f"{folder}/{stem}-{k:0{digits}}-of-{volumes}{dot}{suffix}" for k in range(volumes)]
        self._manifest = f"{folder}/{stem}{ENDING}"
        self._published: set[int] = set()  # volumes that an earlier attempt has finished
        self._work = default_folder().with_name("uploads") / hashlib.sha256(str(url).encode()).hexdigest()[:32]

    @property
    def set_name(self) -> str:
        return str(self._url)

    @property
    def names(self) -> Sequence[str]:
        return self._names

    @property
    def report_name(self) -> str:
        return f"{self._url}.report.json"

    @property
    def most_blocks(self) -> int:
        """Of a volume."""
        return MOST_BLOCKS

    def journal_path(self, volume: int | None) -> Path:
        name = self.set_name if volume is None else self._names[volume]
        return self._work / f"{name_of(name)}.journal"

    def check(self, *, overwrite: bool, inputs: Iterable[str | os.PathLike[str]] = ()) -> None:
        if set(map(str, inputs)) & set(self._names):
            raise UsageError(f"the set is an input; give another name: {self._url}")
        for volume in range(len(self._names)):
            self.check_volume(volume, overwrite=overwrite)

    def prepare(self) -> None:
        """Make the folder of this machine that says how far the set is."""
        self._work.mkdir(mode=0o700, parents=True, exist_ok=True)

    def check_volume(self, volume: int, *, overwrite: bool) -> None:
        name = self._names[volume]
        if not overwrite and volume not in self._published and self._bucket.head(name) is not None:
            raise UsageError(f"the object exists; give another name, or ask to overwrite it: {name}")

    def open_volume(
        self,
        volume: int,
        shape: VolumeShape,
        *,
        left: Sequence[int] | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> BucketVolume:
        upload = None if state is None else str(state["upload"])
        parts_list = self._work / f"{name_of(self._names[volume])}.parts"
        self.prepare()
        sink = BucketVolume(self._bucket, self._names[volume], shape, parts_list, upload, left)
        if state is not None:
            sink.adopt(state.get("parts", ()))
        if sink.is_published:
            self._published.add(volume)
        return sink

    def is_finished(self, volume: int, region: bytes, size: int) -> bool:
        name = self._names[volume]
        return self._bucket.size(name) == size and self._bucket.get_range(name, 0, len(region)) == region

    def discard(self, volume: int) -> None:
        name = self._names[volume]
        for upload in self._bucket.uploads(name):
            self._bucket.abort(name, upload)
        self._bucket.delete(self._result(volume))
        for path in (self._work / f"{name_of(name)}.parts", self.journal_path(volume)):
            path.unlink(missing_ok=True)

    def for_workers(self) -> BucketVolumes:
        return BucketVolumes(self._url, len(self._names))

    def save_result(self, volume: int, data: bytes) -> None:
        self._bucket.put(self._result(volume), data)

    def load_result(self, volume: int) -> bytes | None:
        return self._bucket.get(self._result(volume))

    def write_report(self, parts: Iterable[bytes]) -> None:
        self._bucket.put(self.report_name, b"".join(parts))

    def complete(self, set_uuid: str, crcs: Sequence[int]) -> None:
        entries = []
        for name, crc in zip(self._names, crcs):
            found = self._bucket.head(name)
            if found is None:
                raise UsageError(f"a volume is gone again: {name}")
            entries.append(VolumeEntry(name_of(name), found.size, found.etag, crc))
        self._bucket.put(self._manifest, manifest_to_bytes(set_uuid, entries))
        for volume, name in enumerate(self._names):
            for upload in self._bucket.uploads(name):  # of attempts that were ended
                self._bucket.abort(name, upload)
            self._bucket.delete(self._result(volume))
            if len(self._names) > 1:
                self.journal_path(volume).unlink(missing_ok=True)

    def _result(self, volume: int) -> str:
        return f"{self._names[volume]}.result"
