"""Asking a web server: connections of this process, tries with waits between them, what answers say of themselves."""

from __future__ import annotations

import os
import random
import time
from typing import Any

from trainload.errors import RemoteError, UsageError
from trainload.storage.location import Url

TRIES = 5
SECONDS = 60.0  # for one read, all tries and waits together
CONNECT_SECONDS, SILENCE_SECONDS = 10.0, 20.0  # until a server answers, between two pieces of an answer
FIRST_WAIT, LONGEST_WAIT = 0.2, 10.0
CONNECTIONS = 64  # that are kept open to one server
_REQUEST_IDS = ("x-amz-request-id", "x-ms-request-id", "x-guploader-uploadid", "x-request-id")
_clock, _sleep = time.monotonic, time.sleep


class PassingError(Exception):
    """A failure that another try may not meet."""


class Tries:
    """The tries of one read: how many, how long, what failed last."""

    def __init__(self, url: Url) -> None:
        self._url = url
        self.started = _clock()
        self.made = 0
        self.signed_anew = False

    @property
    def seconds(self) -> float:
        """Since the first try began."""
        return _clock() - self.started

    def begin(self) -> Any:
        """Another try: how long urllib3 may wait for its answer, and between two pieces of it."""
        import urllib3

        self.made += 1
        left = max(0.001, SECONDS - self.seconds)
        return urllib3.Timeout(connect=min(CONNECT_SECONDS, left), read=min(SILENCE_SECONDS, left))

    def check_time(self) -> None:
        """Raise PassingError where the read has taken as long as it may."""
        if self.seconds > SECONDS:
            raise PassingError(f"the answer took longer than {SECONDS:.0f} s")

    def wait_after(self, error: PassingError) -> None:
        """Wait at random (full jitter), twice as long each time. Raises RemoteError where there is no further try."""
        waited = self.seconds
        if self.made >= TRIES or waited >= SECONDS:
            shown = str(self._url).partition("?")[0]
            raise RemoteError(str(error), url=shown, tries=self.made) from error.__cause__
        longest = min(LONGEST_WAIT, FIRST_WAIT * 2**self.made, SECONDS - waited)
        _sleep(random.uniform(0, longest))


_pools: dict[int, Any] = {}  # by process: a forked child must not write into its parent's connections


def connections() -> Any:
    """The connections of this process. Raises UsageError where urllib3 is missing."""
    pool = _pools.get(os.getpid())
    if pool is None:
        try:
            import urllib3
        except ImportError as error:
            raise UsageError(
                f"reading from a URL needs the extra: pip install 'trainload[remote]' ({error})"
            ) from error
        pool = _pools[os.getpid()] = urllib3.PoolManager(num_pools=16, maxsize=CONNECTIONS)
    return pool


def follow(redirects: int) -> Any:
    """For urllib3: so many redirections, and nothing tried again, which is for Tries to say."""
    import urllib3

    return urllib3.Retry(None, connect=0, read=0, status=0, other=0, redirect=redirects, raise_on_redirect=False)


def may_pass(status: int) -> bool:
    """True where another try may be answered otherwise: the server has no time, or fails."""
    return status in (408, 425, 429) or status >= 500


def state_of(headers: Any) -> str:
    """What a server calls the state of an object: its ETag, else the time of its last change."""
    return str(headers.get("ETag") or headers.get("Last-Modified") or "")


def request_id(answer: Any) -> str:
    """What the server's people find a request by, for the end of a sentence."""
    found = next((answer.headers[name] for name in _REQUEST_IDS if name in answer.headers), "")
    return f", request {found}" if found else ""


def reason_of(answer: Any) -> str:
    """The server's word for a status, in parentheses."""
    return f" ({answer.reason})" if answer.reason else ""


def in_words(error: BaseException) -> str:
    """An error's kind and text, in one line of bounded length."""
    return f"{type(error).__name__}: {error}"[:300]
