"""A few threads that do work ahead of a loop which takes the results in order.

Nothing waits for a helper that has not begun: whoever asks for a result first does the work himself. Order and errors
are therefore those of a plain loop, whatever the threads do. The codecs let go of the GIL, so that helpers run beside
the loop.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Generic, TypeVar

from trainload.machine.cpus import usable_cpus
from trainload.machine.threads import start_thread

MOST_THREADS = 3
AHEAD = 4  # pieces of work in the hands of the helpers, so that what they make stays small

Item = TypeVar("Item")
Value = TypeVar("Value")


def default_threads() -> int:
    """One helper for every CPU beside the caller's that this process may use, at most 3."""
    return min(MOST_THREADS, usable_cpus() - 1)


class Task(Generic[Value]):
    """One piece of work, done once: by a helper, or by whoever asks for the result before a helper began."""

    __slots__ = ("_claim", "_done", "_error", "_others", "_pid", "_value", "_work")

    def __init__(self, work: Callable[[], Value], others: _Tasks) -> None:
        self._work = work
        self._others = others
        self._claim = threading.Lock()
        self._done = threading.Lock()
        self._done.acquire()
        self._pid = os.getpid()
        self._value: Value
        self._error: BaseException | None = None

    def run(self) -> None:
        """Do the work, unless somebody has begun it."""
        if self._claim.acquire(blocking=False):
            try:
                self._value = self._work()
            except BaseException as error:
                self._error = error  # raised where the result is asked for
                if not isinstance(error, Exception):
                    raise  # an interrupt is for whoever is at work
            finally:
                self._done.release()

    def result(self) -> Value:
        """What the work gave, or the error that it raised; other tasks are done while a helper is at this one.

        Asked for once: nothing is kept.
        """
        if os.getpid() != self._pid:  # forked: the helper that may have begun is not here
            return self._work()
        self.run()
        while not self._done.acquire(blocking=False):
            if not _run_one(self._others):
                self._done.acquire()
                break
        if self._error is not None:
            raise self._error
        value = self._value
        del self._value, self._work  # the helpers' queue may still hold this task
        return value


_Tasks = SimpleQueue[Task[Any] | None]  # None ends one helper


class Helpers:
    """`threads` helpers (None: default_threads()), started by the first task; close() ends them, finished or not."""

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads
        self._tasks: _Tasks = SimpleQueue()
        self._running: list[threading.Thread] = []

    @property
    def are_busy(self) -> bool:
        """True once a task was given to them."""
        return bool(self._running)

    def submit(self, work: Callable[[], Value]) -> Task[Value]:
        """Have `work` done soon."""
        task = Task(work, self._tasks)
        if self._threads is None:
            self._threads = default_threads()  # asks the system, which an iteration without tasks need not
        if self._threads:
            if not self._running:
                self._start(self._threads)
            self._tasks.put(task)
        return task

    def map(self, make: Callable[[Item], Value], items: Iterable[Item]) -> Iterator[Value]:
        """make(item) for each item, in order, up to AHEAD of them made before they are asked for."""
        tasks: deque[Task[Value]] = deque()
        for item in items:
            tasks.append(self.submit(lambda item=item: make(item)))  # type: ignore[misc]
            if len(tasks) > AHEAD:
                yield tasks.popleft().result()
        while tasks:
            yield tasks.popleft().result()

    def _start(self, threads: int) -> None:
        for n in range(threads):
            thread = threading.Thread(target=_help, args=(self._tasks,), name=f"trainload-unpack-{n}", daemon=True)
            try:
                start_thread(thread)
            except OSError:  # whoever waits does the work himself
                self._threads = n
                return
            self._running.append(thread)

    def close(self) -> None:
        """End the threads; what they have begun is finished, what waits is dropped. Closing twice is fine."""
        with suppress(Empty):
            while True:
                self._tasks.get_nowait()
        for _ in self._running:
            self._tasks.put(None)
        for thread in self._running:
            if thread is not threading.current_thread():  # the garbage collector may close us from a helper
                thread.join()
        self._running.clear()

    def __enter__(self) -> Helpers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _help(tasks: _Tasks) -> None:
    while (task := tasks.get()) is not None:
        task.run()


def _run_one(tasks: _Tasks) -> bool:
    """Do a task that waits; False where none does."""
    try:
        task = tasks.get_nowait()
    except Empty:
        return False
    if task is None:
        tasks.put(None)  # meant for a helper
        return False
    task.run()
    return True
