"""The list of a set's volumes as an object of its own: strict JSON, written last, so that what it names is there.

{"format": "trainload-set", "version": 1, "uuid": "...", "volumes": [{"name", "size", "etag", "crc"}, ...]}; names lie
beside the list. It pins each volume: one that was replaced since is not opened.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from trainload.formats.limits import MAX_VOLUMES
from trainload.formats.rules import MANIFEST
from trainload.storage.location import Pin, Url, open_source

ENDING = ".json"
FORMAT = "trainload-set"
MAX_BYTES = 16 << 20
_FIELDS = ("format", "version", "uuid", "volumes")


@dataclass(frozen=True, slots=True)
class VolumeEntry:
    """One volume: its name beside the list, bytes, ETag, and the CRC-32 of its header."""

    name: str
    size: int
    etag: str
    crc: int


def manifest_to_bytes(uuid: str, volumes: list[VolumeEntry]) -> bytes:
    """The list; uuid: of the set, "" where its volumes carry none."""
    facts = {"format": FORMAT, "version": 1, "uuid": uuid, "volumes": [asdict(volume) for volume in volumes]}
    return json.dumps(facts, indent=1).encode() + b"\n"


def manifest_from_bytes(data: bytes, path: str) -> list[VolumeEntry]:
    """Raises FormatError for what is no such list."""
    try:
        facts: Any = json.loads(data)
        good = (
            isinstance(facts, dict) and tuple(facts) == _FIELDS and (facts["format"], facts["version"]) == (FORMAT, 1)
        )
        entries = [_entry(one) for one in facts["volumes"]] if good else []
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise _broken(f"{type(error).__name__}: {error}", path) from error
    if not good or not 0 < len(entries) <= MAX_VOLUMES:
        raise _broken(f"{len(entries):,} volumes" if good else "other fields", path)
    return entries


def read_manifest(url: Url) -> list[str]:
    """The volumes that a list names, each pinned. Raises FormatError, and RemoteError where there is none."""
    with open_source(url) as source:
        if source.size > MAX_BYTES:
            raise _broken(f"{source.size:,} bytes", url)
        entries = manifest_from_bytes(source.read_at(0, source.size), url)
    folder = str(url)[: str(url).rfind("/") + 1]
    access = replace(url.access, shares=len(entries))
    return [Url(folder + entry.name, access, Pin(entry.etag, entry.size)) for entry in entries]


def _entry(one: Any) -> VolumeEntry:
    entry = VolumeEntry(**one)
    kinds = isinstance(entry.name, str) and isinstance(entry.etag, str) and isinstance(entry.size, int)
    if not kinds or not isinstance(entry.crc, int) or entry.size < 0 or not 0 <= entry.crc < 1 << 32:
        raise ValueError(f"a volume is {one!r}"[:200])
    if not entry.name or "/" in entry.name or entry.name in (".", ".."):
        raise ValueError(f"a volume lies beside its list, not at {entry.name!r}"[:200])
    return entry


def _broken(found: str, path: str) -> Exception:
    return MANIFEST.broken(
        field="volumes", offset=None, found=found, expected="name, size, etag, crc of each", path=path
    )
