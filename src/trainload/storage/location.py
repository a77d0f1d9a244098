"""Where bytes are found: a path of this machine, or a URL with what it takes to read it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from trainload.errors import UsageError
from trainload.storage.file import FileSource
from trainload.storage.source import Source

AnyPath = str | os.PathLike[str]

OBJECT_SCHEMES = ("s3", "gs", "az")
WEB_SCHEMES = ("https", "http")


@dataclass(frozen=True, slots=True)
class Access:
    """How objects are read. storage: names and values for the client (docs/remote.md). cache: a folder, "" for none.

    cache_bytes: what this set may take of the cache; None for all of it, as far as the disk allows. shares: the objects
    of the set, which share that.
    """

    storage: tuple[tuple[str, str], ...] = ()
    cache: str = ""
    cache_bytes: int | None = None
    shares: int = 1


@dataclass(frozen=True, slots=True)
class Pin:
    """The one state of an object that is read: its ETag (or what stands for it) and its size in bytes."""

    etag: str
    size: int


class Url(str):
    """A URL that knows how it is read, and after it was opened, which state of the object it means."""

    access: Access
    pin: Pin | None

    def __new__(cls, text: str, access: Access | None = None, pin: Pin | None = None) -> Self:
        url = super().__new__(cls, text)
        known = text if isinstance(text, Url) else None
        url.access = access or (known.access if known is not None else Access())
        url.pin = pin or (known.pin if known is not None else None)
        return url

    def __reduce__(self) -> tuple[object, ...]:
        return Url, (str(self), self.access, self.pin)


def access_of(
    storage: Mapping[str, str] | None, cache: AnyPath | None, cache_bytes: int | str | Literal["auto"]
) -> Access:
    """The options of `trainload.open` for URLs. Raises UsageError for what cannot be."""
    options = {} if storage is None else storage
    for name, value in options.items():
        if not isinstance(name, str) or not isinstance(value, str | bool | int):
            raise UsageError(f"storage is a mapping of names to text, not {name!r}: {type(value).__name__}")
    texts = {
        name.lower(): str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()
    }
    folder = "" if cache is None else str(Path(cache).expanduser().absolute())
    return Access(tuple(sorted(texts.items())), folder, None if cache_bytes == "auto" else size_bytes(cache_bytes))


def size_bytes(size: int | str) -> int:
    """A number of bytes, as a number or as "200GB" (units of 1000: kB, MB, GB, TB). Raises UsageError for others."""
    units = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
    text = str(size).strip().lower().replace("_", "").replace(",", "")
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    try:
        value = float(number) * units[text[len(number) :].strip()]
        if value >= 0:
            return int(value)
    except (KeyError, ValueError, OverflowError):
        pass
    raise UsageError(f'a size is a number of bytes, or "200GB", not {size!r}')


def is_url(path: object) -> bool:
    """True for what names an object on a server: s3://, gs://, az://, https://, http://."""
    return isinstance(path, str) and path.partition("://")[0].lower() in OBJECT_SCHEMES + WEB_SCHEMES and "://" in path


def absolute(path: AnyPath) -> str:
    """The path made absolute; a URL is that already."""
    return path if isinstance(path, str) and is_url(path) else str(Path(path).absolute())


def name_of(path: AnyPath) -> str:
    """The last part of a path or URL."""
    return Path(urlsplit(path).path).name if isinstance(path, str) and is_url(path) else Path(path).name


def pinned(path: str) -> str:
    """The path; a URL with the state of the object that it means from now on, whoever opens it."""
    if not is_url(path):
        return path
    with open_source(path) as source:
        return source.path


def inside(folder: AnyPath, name: str) -> str:
    """The path of what is called `name` in a folder, or under a URL."""
    if isinstance(folder, str) and is_url(folder):
        return Url(f"{folder.rstrip('/')}/{name}", Url(folder).access)
    return str(Path(folder) / name)


def open_source(path: AnyPath) -> Source:
    """What reads a file or an object. Raises OSError, for a URL RemoteError or UsageError."""
    if isinstance(path, str) and is_url(path):
        from trainload.storage.remote import open_remote

        return open_remote(Url(path))
    return FileSource(path)
