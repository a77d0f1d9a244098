"""Threads where the system may give none: an OSError, as for every other thing that the system refuses."""

from __future__ import annotations

import errno
import threading


def start_thread(thread: threading.Thread) -> None:
    """Start it. Raises OSError (EAGAIN) where the system gives no more threads."""
    try:
        thread.start()
    except RuntimeError as error:
        if thread.ident is not None:  # started before: the caller's mistake
            raise
        raise no_threads() from error


def no_threads() -> OSError:
    """What to raise where a thread could not be started."""
    return OSError(errno.EAGAIN, "the system gives no more threads (ulimit -u, or the pids limit of a container)")
