"""An object on a server as a Source: one state of it, read by ranges, each of them exact or an error.

The object's ETag and size are pinned when it is opened, and every answer is held to them. What may pass is tried again:
only the range that failed, from the byte at which it did.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from trainload.errors import DatasetChangedError, ForkSafetyError, FormatError, RemoteError, UsageError
from trainload.formats.rules import FILE_END
from trainload.memory.aligned import aligned_buffer
from trainload.storage.http import (
    PassingError,
    Tries,
    connections,
    in_words,
    may_pass,
    reason_of,
    request_id,
    state_of,
)
from trainload.storage.location import OBJECT_SCHEMES, Pin, Url
from trainload.storage.source import Source
from trainload.storage.traffic import Traffic

if TYPE_CHECKING:
    from typing_extensions import Buffer

HEAD_BYTES = 64 << 10  # the first bytes come at once: readers look at them piece by piece
PIECE_BYTES = 256 << 10  # of an answer that are taken at once, at most
IN_FLIGHT = 32  # small reads at once
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_signed: dict[tuple[object, ...], str] = {}  # URLs that were signed, until a server refuses them


def open_remote(url: Url) -> Source:
    """The object of a URL, through the cache where it has one.

    Raises RemoteError, UsageError where an extra or credentials are missing.
    """
    source = RemoteSource(url)
    access = url.access
    if not access.cache:
        return source
    from trainload.storage.cached import through_cache

    budget = None if access.cache_bytes is None else access.cache_bytes // access.shares
    try:
        return through_cache(source, Path(access.cache), budget, access.shares)
    except BaseException:
        source.close()
        raise


def read_object(url: Url, size: int) -> bytes:
    """All bytes of an object that has as many: one request, of which nothing is kept, so that a million do no harm.

    Raises RemoteError, also where the object has another size.
    """
    with RemoteSource(Url(url, pin=Pin("", size))) as source:
        try:
            return source.read_at(0, size)
        finally:
            _signed.pop(source._key, None)


class RemoteSource:
    """An open object: a Source. Safe for many threads; pickles as its URL with ETag, size and options.

    A server that gives no ETag is held to the time and size that it states. Raises RemoteError for what cannot be read
    and DatasetChangedError once the object is another one.
    """

    def __init__(self, url: Url) -> None:
        self._traffic = Traffic()
        self._lock = threading.Lock()
        self._closed = False
        self._held: tuple[int, memoryview] | None = None
        pin = url.pin
        if pin is None:
            self._url = url
            pin = self._look()
            self._address("GET")  # signed now, so that a forked child has it
        self._pin = pin
        self._url = Url(url, pin=pin)

    @property
    def path(self) -> str:
        """The URL, with the state of the object that is read."""
        return self._url

    @property
    def size(self) -> int:
        return self._pin.size

    @property
    def etag(self) -> str:
        """What the server calls the state that is read."""
        return self._pin.etag

    def identity(self) -> Hashable:
        """Equal for one state of one object."""
        return str(self._url), self._pin.etag, self._pin.size

    def read_at(self, offset: int, size: int) -> bytes:
        self.check_range(offset, size)
        data = bytearray(size)
        self.readinto_at(offset, data)
        return bytes(data)

    def read_aligned_at(self, offset: int, size: int) -> memoryview:
        """`size` bytes from `offset` in fresh memory that starts at a multiple of 64 and is the caller's."""
        self.check_range(offset, size)
        buffer = aligned_buffer(size)
        self.readinto_at(offset, buffer)
        return buffer

    def readinto_at(self, offset: int, buffer: Buffer) -> None:
        view = memoryview(buffer).cast("B")
        self.check_range(offset, len(view))
        if not len(view) or self._take_held(offset, view):
            return
        if offset + len(view) <= HEAD_BYTES and self._held is None:
            self.hold(0, min(HEAD_BYTES, self._pin.size))
            self._take_held(offset, view)
        else:
            self._read(offset, view)

    def hold(self, offset: int, size: int) -> None:
        """Fetch these bytes by one read and keep them, in place of what was kept, for the reads inside them."""
        self.check_range(offset, size)
        data = memoryview(bytearray(size))
        if not self._take_held(offset, data):
            self._read(offset, data)
        self._held = offset, data

    def _take_held(self, offset: int, view: memoryview) -> bool:
        held = self._held
        if held is None or offset < held[0] or offset + len(view) > held[0] + len(held[1]):
            return False
        start = offset - held[0]
        view[:] = held[1][start : start + len(view)]
        return True

    def read_many(self, stretches: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each (offset, size), with IN_FLIGHT requests at once."""
        if len(stretches) < 2:
            return [self.read_at(offset, size) for offset, size in stretches]
        with ThreadPoolExecutor(min(IN_FLIGHT, len(stretches))) as pool:
            return list(pool.map(lambda stretch: self.read_at(*stretch), stretches))

    def will_need(self, offset: int, size: int) -> None:
        """Nothing: a server reads ahead for nobody."""

    def clone(self) -> RemoteSource:
        """Another handle with counts of its own; nothing is asked."""
        return RemoteSource(self._url)

    def take_traffic(self) -> Traffic:
        """What this handle has counted since it was last asked."""
        with self._lock:
            taken, self._traffic = self._traffic, Traffic()
        return taken

    def close(self) -> None:
        self._closed = True

    def check_range(self, offset: int, size: int) -> None:
        """Raise FormatError for what does not lie in the object, UsageError once it is closed."""
        if self._closed:
            raise UsageError(f"the object was closed: {self._url}")
        if offset < 0 or size < 0 or offset + size > self._pin.size:
            raise self._too_short(offset, size)

    def _too_short(self, offset: int, size: int) -> FormatError:
        return FILE_END.broken(
            field=f"{size:,} bytes",
            offset=offset,
            found=f"the end of the object at {self._pin.size:,}",
            expected=f"at least {offset + size:,} bytes",
            path=self._url,
        )

    # One read.

    def _read(self, offset: int, view: memoryview) -> None:
        tries = Tries(self._url)
        done = 0
        try:
            while done < len(view):
                try:
                    for count in self._get(offset + done, view[done:], tries):
                        done += count
                except PassingError as error:
                    tries.wait_after(error)
        finally:
            self._count(tries, done)

    def _get(self, offset: int, view: memoryview, tries: Tries) -> Any:
        """Ask once and yield how many bytes each piece brought."""
        headers = {"Range": f"bytes={offset}-{offset + len(view) - 1}"}
        if _is_strong(self._pin.etag):
            headers["If-Match"] = self._pin.etag
        answer = self._ask("GET", headers, tries)
        whole = False
        try:
            self._hold_to_pin(answer, offset, len(view))
            done = 0
            while done < len(view):
                count = self._piece(answer, view[done : done + PIECE_BYTES])
                done += count
                yield count
                if done < len(view):
                    tries.check_time()
            whole = True
        finally:
            if whole:
                answer.release_conn()
            else:
                answer.close()

    def _piece(self, answer: Any, view: memoryview) -> int:
        """What has come by now, at least a byte: to wait for more would let a slow server outlast the read's time."""
        import urllib3

        try:
            data = answer.read1(len(view))
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise PassingError(f"the connection broke: {in_words(error)}") from error
        if not data:
            raise PassingError(f"the answer ended early{request_id(answer)}")
        view[: len(data)] = data
        return len(data)

    def _ask(self, method: str, headers: dict[str, str], tries: Tries) -> Any:
        """An answer whose status is 200 or 206. Raises for every other one."""
        import urllib3

        timeout = tries.begin()
        try:
            answer = connections().request(
                method,
                self._address(method),
                headers={"Accept-Encoding": "identity", **headers},
                preload_content=False,
                retries=urllib3.Retry(
                    None,
                    connect=0,
                    read=0,
                    redirect=0 if self._is_signed else 3,
                    status=0,
                    other=0,
                    raise_on_redirect=False,
                ),
                timeout=timeout,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise PassingError(f"no answer: {in_words(error)}") from error
        if answer.status in (200, 206):
            return answer
        status, words = answer.status, f"the server answered {answer.status}{reason_of(answer)}{request_id(answer)}"
        answer.close()
        if may_pass(status):
            raise PassingError(words)
        if status == 412:
            raise DatasetChangedError(self._shown, _in_text(self._pin), self._state_now())
        if status == 403 and self._is_signed and not tries.signed_anew:
            tries.signed_anew = True
            _signed.pop(self._key, None)
            return self._ask(method, headers, tries)
        if status == 404:
            words = f"there is no such object{request_id(answer)}"
        if status in (401, 403):
            words += ": the credentials do not allow it"
        raise RemoteError(words, url=self._shown, tries=tries.made)

    def _hold_to_pin(self, answer: Any, offset: int, size: int) -> None:
        """The answer must be of the pinned state, and exactly the range that was asked for."""
        headers = answer.headers
        found = _RANGE.fullmatch(headers.get("Content-Range", ""))
        new = state_of(headers)
        if self._pin.etag and new and new != self._pin.etag:
            total = found.group(3) if found else "?"
            raise DatasetChangedError(self._shown, _in_text(self._pin), f"{new} of {total} bytes")
        wanted = (offset, offset + size - 1, self._pin.size)
        if found is None or tuple(map(int, found.groups())) != wanted:
            given = headers.get("Content-Range", "no range at all")
            raise PassingError(
                f"the server answered {answer.status} with {given}, asked for bytes {wanted[0]}-{wanted[1]}/{wanted[2]}"
                f"{request_id(answer)}"
            )
        length = headers.get("Content-Length")
        if length is not None and length != str(size):
            raise PassingError(f"the answer announces {length} bytes, not {size:,}{request_id(answer)}")

    def _look(self) -> Pin:
        """Size and state of the object, by one HEAD."""
        tries = Tries(self._url)
        while True:
            try:
                answer = self._ask("HEAD", {}, tries)
                break
            except PassingError as error:
                tries.wait_after(error)
            finally:
                self._count(tries, 0)
        headers = answer.headers
        answer.release_conn()
        length = headers.get("Content-Length", "")
        if not length.isdecimal():
            raise RemoteError("the server does not say how large the object is", url=self._shown)
        if headers.get("Accept-Ranges", "bytes").lower() == "none":
            raise RemoteError("the server gives objects only whole, not by ranges", url=self._shown)
        return Pin(state_of(headers), int(length))

    # Where it is asked.

    @property
    def _is_signed(self) -> bool:
        return urlsplit(self._url).scheme in OBJECT_SCHEMES

    @property
    def _shown(self) -> str:
        return str(self._url).partition("?")[0]

    def _address(self, method: str) -> str:
        """Where a request goes: the URL itself, or one that is signed, for GETs once."""
        if not self._is_signed:
            return str(self._url)
        from trainload.storage.objects import sign

        if method != "GET":
            return sign(self._url, method)
        signed = _signed.get(self._key)
        if signed is None:
            signed = _signed[self._key] = sign(self._url)
        return signed

    @property
    def _key(self) -> tuple[object, ...]:
        from trainload.storage.objects import environment

        return str(self._url), self._url.access, environment()

    def _state_now(self) -> str:
        """What the object is by now, "" where the server does not say."""
        try:
            return _in_text(self._look())
        except (RemoteError, ForkSafetyError):
            return ""

    def _count(self, tries: Tries, size: int) -> None:
        once = Traffic(size, 0, tries.made, max(0, tries.made - 1), tries.seconds)
        with self._lock:
            self._traffic.add(once)

    def __reduce__(self) -> tuple[object, ...]:
        return RemoteSource, (self._url,)

    def __enter__(self) -> RemoteSource:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _in_text(pin: Pin) -> str:
    return f"{pin.etag or 'without a mark'} of {pin.size:,} bytes"


def _is_strong(etag: str) -> bool:
    return etag.startswith('"')
