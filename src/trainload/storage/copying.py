"""Copies sets and recordings between disks and buckets: whole under their names or not at all, and resumable.

A list beside the work says which pieces are done, by their CRC-32; a second run checks them and goes on. It belongs to
one state of one source: of another one nothing is taken over.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isal import isal_zlib

from trainload.errors import DatasetChangedError, UsageError
from trainload.storage.atomic import AtomicFile
from trainload.storage.cache_folder import default_folder
from trainload.storage.containers import SUFFIXES, find_files
from trainload.storage.folders import make_folders
from trainload.storage.location import AnyPath, Url, access_of, inside, is_url, name_of, open_source
from trainload.storage.source import Source
from trainload.storage.target import check_target

if TYPE_CHECKING:
    from trainload.formats.progress import Progress
    from trainload.storage.bucket import Part

PIECE_BYTES = 16 << 20  # that is copied, checked and noted at a time
MOST_PARTS = 10_000  # of an object


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """One file or object that was copied. size: bytes. resumed: bytes of it that an earlier run had copied."""

    source: str
    target: str
    size: int
    resumed: int


def copy_files(
    source: AnyPath | Sequence[AnyPath],
    target: AnyPath,
    *,
    overwrite: bool = False,
    storage: Mapping[str, str] | None = None,
    progress: Progress | None = None,
) -> list[CopiedFile]:
    """Copy files, volumes of a set, the parts of a recording, or a folder of these; either side may be in a bucket.

    source: as for `trainload.open`; of a folder its .dts and .hfr files. target: a name where one file is copied, a
    folder (it exists, or has a final `/`) where there are more. A copy that was ended goes on where it was. Every piece
    is read once, and what was written is compared with it: a file by reading it again, an object by the MD5 that goes
    along with each part. storage: how buckets are spoken to, as for `trainload.open`. progress: called with bytes done
    and in all.
    Raises UsageError where a target exists (unless `overwrite`) and where two sources have one name, OSError where the
    system or a server refuses, DatasetChangedError for a source that changes meanwhile.
    """
    access = access_of(storage, None, "auto")
    paths = _sources(source, access)
    name = os.fspath(target)
    goal = Url(name, access) if is_url(name) else name
    pairs = _pairs(paths, goal)
    with_sizes = [(path, to, _size(path)) for path, to in pairs]
    total, before = sum(size for _, _, size in with_sizes), 0
    copied = []
    for path, to, size in with_sizes:
        with open_source(path) as opened:
            copy = _ObjectCopy(opened, Url(to, access)) if is_url(to) else _FileCopy(opened, to)
            copy.check(overwrite=overwrite)
            for done in copy.run():
                if progress is not None:
                    progress(before + done, total)
            copied.append(CopiedFile(str(path), str(to), size, copy.resumed))
        before += size
    return copied


def _sources(source: AnyPath | Sequence[AnyPath], access: Any) -> list[str]:
    found: list[str] = []
    for path in find_files(source, access):
        if is_url(path) or not Path(path).is_dir():
            found.append(path)
            continue
        inner = sorted(str(one) for one in Path(path).iterdir() if one.suffix in SUFFIXES)
        if not inner:
            raise UsageError(f"the folder has no {' or '.join(SUFFIXES)} file: {path}")
        found += inner
    return found


def _pairs(paths: list[str], target: str) -> list[tuple[str, str]]:
    into = target.endswith("/") or (not is_url(target) and Path(target).is_dir())
    if not into and len(paths) == 1:
        return [(paths[0], target)]
    if not into:
        raise UsageError(f"{len(paths)} files go into a folder: give {target}/")
    names = [name_of(path) for path in paths]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two of the files have the name {twice}: copy them one by one")
    return [(path, inside(target, name)) for path, name in zip(paths, names)]


def _size(path: str) -> int:
    with open_source(path) as source:
        return source.size


class _Copy:
    """One copy: pieces in order, each noted in a list once it is written."""

    piece_bytes = PIECE_BYTES

    def __init__(self, source: Source, notes: Path) -> None:
        self.source = source
        self.resumed = 0
        self._notes = notes
        self._head = {"source": str(source.path), "state": repr(source.identity()), "size": source.size}

    def _earlier(self) -> list[dict[str, Any]]:
        """What an earlier run noted of this very source, without the head."""
        try:
            lines = [json.loads(line) for line in self._notes.read_bytes().splitlines()]
        except (OSError, ValueError):  # a line that a kill cut short: then all is copied again
            return []
        return lines[1:] if lines and lines[0] == self._head else []

    def _begin_notes(self, lines: Sequence[Mapping[str, Any]]) -> None:
        self._notes.parent.mkdir(parents=True, exist_ok=True)
        text = b"".join(json.dumps(line).encode() + b"\n" for line in (self._head, *lines))
        self._notes.write_bytes(text)

    def _note(self, line: Mapping[str, Any]) -> None:
        with self._notes.open("ab") as file:
            file.write(json.dumps(line).encode() + b"\n")

    def _pieces(self, first: int) -> Iterator[tuple[int, bytes]]:
        """The source's pieces from number `first` on, each read at once."""
        for number in range(first, -(-self.source.size // self.piece_bytes)):
            at = number * self.piece_bytes
            yield number, self.source.read_at(at, min(self.piece_bytes, self.source.size - at))


class _FileCopy(_Copy):
    """To a file of this machine."""

    def __init__(self, source: Source, path: str) -> None:
        super().__init__(source, Path(f"{path}.copy"))
        self._path = path

    def check(self, *, overwrite: bool) -> None:
        inputs = [] if is_url(self.source.path) else [self.source.path]
        check_target(self._path, overwrite=overwrite, inputs=inputs)

    def run(self) -> Iterator[int]:
        """Copy; yields the bytes done."""
        make_folders(Path(self._path).absolute().parent)
        with AtomicFile(self._path, resume=True, keep=True) as file:
            crcs = self._good(file.tmp_path)
            self._begin_notes([{"crc": crc} for crc in crcs])
            done = self.resumed = min(len(crcs) * self.piece_bytes, self.source.size)
            yield done
            for number, data in self._pieces(len(crcs)):
                file.write_at(number * self.piece_bytes, data)
                crcs.append(isal_zlib.crc32(data))
                self._note({"crc": crcs[-1]})
                done += len(data)
                yield done
            file.truncate(self.source.size)
            file.sync()
            if _crcs_of(file.tmp_path, self.piece_bytes, len(crcs)) != crcs:
                raise OSError(5, "the copy reads otherwise than it was written; copy it again", self._path)
            file.commit()
        self._notes.unlink(missing_ok=True)

    def _good(self, path: Path) -> list[int]:
        """The CRC-32s of the first pieces that are there as they were noted."""
        noted = [line.get("crc") for line in self._earlier()]
        found = _crcs_of(path, self.piece_bytes, len(noted)) if path.exists() else []
        good = next((n for n, pair in enumerate(zip(noted, found)) if pair[0] != pair[1]), min(len(noted), len(found)))
        return found[:good]


class _ObjectCopy(_Copy):
    """To an object of a bucket: an upload whose parts are the pieces."""

    def __init__(self, source: Source, url: Url) -> None:
        from trainload.storage.bucket import Bucket

        name = hashlib.sha256(str(url).encode()).hexdigest()[:32]
        super().__init__(source, default_folder().with_name("uploads") / f"{name}.copy")
        self._bucket, self._url = Bucket(url), url
        least = -(-source.size // MOST_PARTS)
        self.piece_bytes = max(PIECE_BYTES, -(-least // (1 << 20)) << 20)

    def check(self, *, overwrite: bool) -> None:
        if str(self._url) == str(self.source.path):
            raise UsageError(f"the object is its own copy; give another name: {self._url}")
        if not overwrite and self._bucket.head(self._url) is not None:
            raise UsageError(f"the object exists; give another name, or ask to overwrite it: {self._url}")

    def run(self) -> Iterator[int]:
        """Copy; yields the bytes done."""
        if not self.source.size:
            self._bucket.put(self._url, b"")
            return
        upload, parts = self._left()
        if not upload:
            upload = self._bucket.begin(self._url)
        self._begin_notes([{"upload": upload}, *({"part": [part.number, part.etag]} for part in parts)])
        done = self.resumed = min(len(parts) * self.piece_bytes, self.source.size)
        yield done
        for number, data in self._pieces(len(parts)):
            parts.append(self._bucket.write_part(self._url, upload, number + 1, data))
            self._note({"part": [number + 1, parts[-1].etag]})
            done += len(data)
            yield done
        self._bucket.complete(self._url, upload, parts)
        found = self._bucket.size(self._url)
        if found != self.source.size:
            raise DatasetChangedError(str(self._url), f"{self.source.size:,} bytes", f"{found} bytes")
        self._notes.unlink(missing_ok=True)
        for other in self._bucket.uploads(self._url):
            self._bucket.abort(self._url, other)

    def _left(self) -> tuple[str, list[Part]]:
        """The upload of an earlier run, and its first parts that the server has as they were noted."""
        upload, noted = "", {}
        for line in self._earlier():
            upload = line.get("upload", upload)
            if "part" in line:
                noted[line["part"][0]] = line["part"][1]
        parts = self._bucket.parts(self._url, upload) if upload else None
        if parts is None:
            return "", []
        count = 0
        while count < len(parts) and (parts[count].number, noted.get(count + 1)) == (count + 1, parts[count].etag):
            count += 1
        return upload, parts[:count]


def _crcs_of(path: Path, piece_bytes: int, count: int) -> list[int]:
    crcs = []
    with open_source(path) as source:
        for number in range(count):
            size = min(piece_bytes, source.size - number * piece_bytes)
            if size <= 0:
                break
            crcs.append(isal_zlib.crc32(source.read_at(number * piece_bytes, size)))
    return crcs
