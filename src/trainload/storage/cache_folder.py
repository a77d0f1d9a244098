"""The cache's folder: v1/<key of an object>/<entry>, beside what each object is; what may be there and what may go."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainload.errors import UsageError

VERSION = "v1"
ABOUT = "about.json"  # of each object's folder: what it is; its time is that of the last use


def default_folder() -> Path:
    """Where blocks are kept unless the user says otherwise: $XDG_CACHE_HOME or ~/.cache, trainload/blocks."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if Path(home).is_absolute() else Path.home() / ".cache") / "trainload" / "blocks"


def cache_key(url: str, etag: str, size: int) -> str:
    """What one state of one object is called: 64 hexadecimal digits.

    A query, which may be a signature of today, is no part of it where an ETag tells states apart.
    """
    if etag.startswith('"'):
        url = url.partition("?")[0]
    return hashlib.sha256(f"{url}\n{etag}\n{size}".encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class CachedObject:
    """What lies in the cache of one object. last_use: seconds since 1970. kept_bytes: of its entries."""

    key: str
    url: str
    etag: str
    size: int
    last_use: float
    entries: int
    kept_bytes: int


def cached_objects(folder: Path) -> list[CachedObject]:
    """What a cache holds, by last use, newest first. Damaged folders of it are left out."""
    found = []
    with suppress(FileNotFoundError), os.scandir(folder / VERSION) as entries:
        for entry in entries:
            with suppress(OSError, ValueError, KeyError, TypeError):
                about = Path(entry.path, ABOUT)
                facts: dict[str, Any] = json.loads(about.read_text()[: 1 << 16])
                sizes = entry_sizes(entry.path)
                found.append(
                    CachedObject(
                        entry.name,
                        str(facts["url"]),
                        str(facts["etag"]),
                        int(facts["size"]),
                        about.stat().st_mtime,
                        len(sizes),
                        sum(sizes),
                    )
                )
    return sorted(found, key=lambda one: one.last_use, reverse=True)


def clear_object(folder: Path, key: str) -> int:
    """Remove all of one object from a cache; the bytes that were freed. Whoever reads it goes on over the network."""
    place = folder / VERSION / key
    freed = evict(place, None)
    with suppress(OSError):
        for left in place.iterdir():
            left.unlink()
        place.rmdir()
    return freed


def evict(place: Path, wanted: int | None) -> int:
    """Unlink entries until so much is free, all where None: whoever reads one has its descriptor."""
    freed = 0
    with suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if wanted is not None and freed >= wanted:
                break
            if entry.name != ABOUT:
                size = entry.stat(follow_symlinks=False).st_size
                Path(entry.path).unlink(missing_ok=True)
                freed += size
    return freed


def entry_sizes(folder: str | Path) -> list[int]:
    """Bytes of each entry of one object."""
    with os.scandir(folder) as entries:
        return [
            e.stat(follow_symlinks=False).st_size for e in entries if e.name != ABOUT and not e.name.endswith(".tmp")
        ]


def kept_bytes(folder: Path) -> int:
    """Of all entries of one object."""
    return sum(entry_sizes(folder))


def room(folder: Path) -> tuple[int, int]:
    """Free and total bytes of the disk."""
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize, status.f_blocks * status.f_frsize


def refuse_others(folder: Path) -> None:
    """Raise UsageError where somebody else could put entries there: what they hold would be trained on."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
        raise UsageError(f"a cache is a folder that is yours alone (mode 700), no link; give another one: {folder}")
