"""A PackPlan as a file, for the processes and machines that pack its volumes. Read as what it may be: hostile.

| bytes | what |
|---|---|
| 8 | magic |
| 8 | size of the head, u64 |
| | the head, one JSON object: all that is small, and the size of each array below |
| | labels (i32), sizes (i64), places (i64, of tars): little-endian; names and class names: NUL-ended, Zstandard |
| 32 | SHA-256 of all before |

It names the source by its path, which every machine must see under that path, or by its URL, without credentials.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any, get_args, get_type_hints
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from trainload.codecs.compression import zstd_compress, zstd_decompress
from trainload.errors import FormatError
from trainload.formats.limits import MAX_CLASSES, MAX_SAMPLES, MAX_SECTION_BYTES, MAX_VOLUMES
from trainload.images.classes.left_out import LeftOut
from trainload.images.format import dts, rules
from trainload.images.packing.block_cutting import MAX_BLOCK_HEADER_SIZE
from trainload.images.packing.plan import PackOptions, PackPlan, Versions
from trainload.images.packing.source_files import Files, FlatFiles, FolderFiles, ObjectFiles, TarFiles
from trainload.images.packing.sources import Names, PictureTable
from trainload.storage.atomic import AtomicFile
from trainload.storage.location import OBJECT_SCHEMES, Access, Url, absolute, is_url, open_source

MAGIC = b"TLPLAN1\n"
MAX_HEAD_BYTES = 64 << 20  # the reasons of many refused pictures
MAX_PICTURE_BYTES = 1 << 48
LOCAL = Access()
_START = struct.Struct("<8sQ")
_DIGEST_BYTES = hashlib.sha256().digest_size
_FILES: dict[str, Callable[[str], Files]] = {"folder": FolderFiles, "flat": FlatFiles, "tar": TarFiles}
_OBJECTS = "objects"
# What no name below the source has in it, each name between two NULs: a folder above, a path from the root, nothing.
_OUTSIDE = (b"\0/", b"\0\0", *(a + dots + b for a in (b"\0", b"/") for dots in (b".", b"..") for b in (b"\0", b"/")))


def write_plan(plan: PackPlan, path: str | os.PathLike[str]) -> None:
    """Write the plan to a file or an object, which is whole or not there; one that has the name is replaced."""
    if isinstance(path, str) and is_url(path):
        from trainload.storage.bucket import Bucket

        Bucket(Url(path)).put(path, plan_to_bytes(plan))
        return
    with AtomicFile(path) as file:
        file.write_at(0, plan_to_bytes(plan))
        file.commit()


def read_plan(path: str | os.PathLike[str]) -> PackPlan:
    """The plan in a file or an object. Raises FormatError for what is none or contradicts itself, OSError."""
    with open_source(path) as source:
        return plan_from_bytes(source.read_at(0, source.size), path=str(path))


def plan_to_bytes(plan: PackPlan) -> bytes:
    """The bytes of the file; for equal plans the same."""
    table = plan.table
    sections = {
        "labels": table.labels.astype("<i4").tobytes(),
        "sizes": table.sizes.astype("<i8").tobytes(),
        "places": b"" if table.places is None else table.places.astype("<i8").tobytes(),
        "names": zstd_compress(table.names.to_ended()),
        "class_names": zstd_compress(dts.names_to_bytes(list(table.class_names))),
    }
    kind = next((kind for kind, files in _FILES.items() if type(table.files) is files), _OBJECTS)
    head = {
        "options": asdict(plan.options),
        "versions": asdict(plan.versions),
        "block_header_size": plan.block_header_size,
        "oversize": sorted(plan.oversize.items()),
        "refusals": plan.refusals,
        "pictures": len(table),
        "files": [kind, str(absolute(table.files.path))],
        "classes_given": table.classes_given,
        "left_out": table.left_out.facts(),
        "sections": [[name, len(section)] for name, section in sections.items()],
    }
    text = json.dumps(head, sort_keys=True).encode()
    whole = b"".join((_START.pack(MAGIC, len(text)), text, *sections.values()))
    return whole + hashlib.sha256(whole).digest()


def plan_from_bytes(data: bytes, *, path: str = "", access: Access = LOCAL) -> PackPlan:
    """The plan of these bytes. access: how a source in a bucket is read, which no plan says.

    Raises FormatError as `read_plan` does, OSError where an archive cannot be opened.
    """
    try:
        plan = _Reader(data, path, access).plan()
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise _broken("head", f"{type(error).__name__}: {error}", "what a plan has", path) from error
    _check(plan, path)
    return plan


class _Reader:
    def __init__(self, data: bytes, path: str, access: Access) -> None:
        self._path = path
        self._access = access
        magic, size = _START.unpack_from(data) if len(data) > _START.size + _DIGEST_BYTES else (b"", 0)
        if magic != MAGIC:
            raise _broken("magic", data[:8], MAGIC, path)
        end = len(data) - _DIGEST_BYTES
        if hashlib.sha256(memoryview(data)[:end]).digest() != data[end:]:
            raise _broken("digest", "another SHA-256", "that of the bytes before", path)
        if size > min(MAX_HEAD_BYTES, end - _START.size):
            raise _broken("head size", f"{size:,} bytes", f"at most {min(MAX_HEAD_BYTES, end):,}", path)
        self._head: dict[str, Any] = dict(json.loads(data[_START.size : _START.size + size]))
        self._sections = {}
        at = _START.size + size
        for name, section_bytes in self._head["sections"]:
            stop = at + _number(section_bytes, end - at)
            self._sections[name] = memoryview(data)[at:stop]
            at = stop
        if at != end:
            raise _broken("sections", f"an end at byte {at:,}", f"{end:,}", path)

    def plan(self) -> PackPlan:
        head = self._head
        count = _number(head["pictures"], MAX_SAMPLES, least=1)
        kind, root = head["files"]
        places = self._array("places", "<i8", count) if kind == "tar" else None
        table = PictureTable(
            files=ObjectFiles(_folder_url(_text(root), self._access))
            if kind == _OBJECTS
            else _FILES[kind](_text(root)),
            class_names=tuple(self._ended("class_names").decode("utf-8", "surrogateescape").split("\0")[:-1]),
            names=Names.from_ended(self._names()),
            labels=self._array("labels", "<i4", count),
            sizes=self._array("sizes", "<i8", count),
            places=places,
            left_out=LeftOut.from_facts(head["left_out"]),
            classes_given=_of_type(head["classes_given"], bool),
        )
        return PackPlan(
            table=table,
            options=_options(head["options"]),
            versions=Versions(**{name: _text(value) for name, value in dict(head["versions"]).items()}),
            block_header_size=_number(head["block_header_size"], MAX_BLOCK_HEADER_SIZE),
            oversize={_number(n, count - 1): _number(size, dts.BLOCK_SIZE) for n, size in head["oversize"]},
            refusals=tuple(
                (_number(n, count - 1), _number(kinds, 0xFFFF), _text(why)) for n, kinds, why in head["refusals"]
            ),
        )

    def _array(self, name: str, dtype: str, count: int) -> NDArray[Any]:
        section = self._sections[name]
        if len(section) != count * np.dtype(dtype).itemsize:
            raise _broken(name, f"{len(section):,} bytes", f"those of {count:,} pictures", self._path)
        return np.frombuffer(section, dtype).astype(np.dtype(dtype).newbyteorder("="))

    def _names(self) -> bytes:
        data = self._ended("names")
        between = b"\0" + data
        for part in _OUTSIDE:
            if part in between:
                raise _broken("names", f"a name with {part!r}", "paths below the source", self._path)
        return data

    def _ended(self, name: str) -> bytes:
        data = zstd_decompress(self._sections[name], MAX_SECTION_BYTES)
        if data and not data.endswith(b"\0"):
            raise _broken(name, "a last name without its end", "NUL", self._path)
        return data


def _folder_url(text: str, access: Access) -> Url:
    if urlsplit(text).scheme not in OBJECT_SCHEMES or not text.endswith("/"):
        raise ValueError(f"{text!r} is no folder of a bucket")
    return Url(text, access)


def _options(found: dict[str, Any]) -> PackOptions:
    """Every field of its type; a ValueError or TypeError for any other."""
    hints = get_type_hints(PackOptions)
    options = PackOptions(**found)
    for field in fields(PackOptions):
        value, hint = getattr(options, field.name), hints[field.name]
        allowed = get_args(hint) or (hint,)
        if value not in allowed and type(value) not in allowed:
            raise ValueError(f"{field.name} is {value!r}")
    return options


def _check(plan: PackPlan, path: str) -> None:
    """What the parts of a plan say of each other."""
    table, options = plan.table, plan.options
    classes, count = len(table.class_names), len(table)
    least = dts.BLOCK_HEADER_SIZE.get(options.level, 0)
    capacity = dts.BLOCK_SIZE - plan.block_header_size
    large = table.sizes > capacity if options.level == 0 else np.zeros(count, bool)
    refused = {number for number, _, _ in plan.refusals}
    claims = {
        "names": len(table.names) == count,
        "class_names": 0 < classes <= MAX_CLASSES,
        "labels": bool(((table.labels >= 0) & (table.labels < classes)).all()),
        "sizes": bool(((table.sizes >= 0) & (table.sizes <= MAX_PICTURE_BYTES)).all()),
        "places": table.places is None or bool(((table.places >= 0) & (table.places <= MAX_PICTURE_BYTES)).all()),
        "level": options.level in dts.BLOCK_HEADER_SIZE,
        "volumes": 1 <= options.volumes <= min(MAX_VOLUMES, count),
        "reference": not options.reference or (options.volumes == 1 and options.exif == "ignore"),
        "min_blocks": options.min_blocks is None or (options.reference and 1 <= options.min_blocks <= MAX_SAMPLES),
        "block_header_size": least <= plan.block_header_size and plan.block_header_size % dts.BLOCK_HEADER_STEP == 0,
        "oversize": all(size <= capacity for size in plan.oversize.values()),
        "refusals": refused.isdisjoint(plan.oversize)
        and set(np.flatnonzero(large).tolist()) == refused | plan.oversize.keys(),
    }
    wrong = [name for name, holds in claims.items() if not holds]
    if wrong:
        raise _broken(", ".join(wrong), "contradictions", "a plan as trainload writes it", path)


def _number(value: Any, most: int, *, least: int = 0) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{value!r} is no number from {least:,} to {most:,}")
    return value


def _text(value: Any) -> str:
    return str(_of_type(value, str))


def _of_type(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _broken(field: str, found: object, expected: object, path: str) -> FormatError:
    return rules.PACK_PLAN.broken(field=field, offset=None, found=found, expected=expected, path=path)
