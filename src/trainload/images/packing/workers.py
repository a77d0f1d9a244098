"""Pictures to samples on many processes, in the order asked for, however the processes are scheduled. Knows no blocks.

A worker is a fresh Python that gets its job over a socket: no fork of the caller's threads, no import of the caller's
main module, and where the packer dies, killed or not, its workers see the socket close and end.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import cast

from trainload.errors import FormatError
from trainload.images.packing.kinds import Kind, RefusedPictureError
from trainload.images.packing.levels import LevelOptions, sample_from_source
from trainload.images.packing.packed_picture import PackedPicture
from trainload.images.packing.source_files import Files, FolderFiles, Locator
from trainload.storage.file import is_of_one_file

CHUNK_PICTURES = 8  # per task
CHUNK_BYTES = 8 << 20  # a task ends early with this many source bytes
TASKS_AHEAD = 2  # per worker: one in work, one waiting in its socket
CHUNKS_AHEAD = 4  # per worker: finished chunks that wait for an earlier one

Task = list[Locator]


def pack_picture(files: Files, locator: Locator, options: LevelOptions) -> PackedPicture:
    """Read one picture and make its sample. Raises OSError or FormatError where that is not this picture's fault."""
    try:
        data = files.read(locator)
    except OSError as error:
        if not is_of_one_file(error):
            raise
        return PackedPicture.refused(int(Kind.UNREADABLE), f"cannot be read: {error.strerror}", error)
    except FormatError as error:
        if not isinstance(files, FolderFiles):  # a tar that ends early
            raise
        return PackedPicture.refused(int(Kind.UNREADABLE), f"{error.rule}: {error.found}, was {error.expected}", error)
    try:
        return sample_from_source(data, options)
    except RefusedPictureError as refused:
        return PackedPicture.refused(int(refused.kind), refused.reason)


class Workers:
    """`jobs` processes for one source; with jobs=1 the work is done in this process. A context manager."""

    def __init__(self, files: Files, options: LevelOptions, jobs: int) -> None:
        self._job = (files, options)
        self._workers: list[_Worker] = []
        try:
            for _ in range(jobs if jobs > 1 else 0):
                self._workers.append(_Worker(files, options))
        except BaseException:
            self._close()
            raise

    @property
    def pids(self) -> list[int]:
        """The processes, none with jobs=1."""
        return [worker.pid for worker in self._workers]

    def packed(self, locators: Iterable[Locator]) -> Iterator[PackedPicture]:
        """One picture per locator, in order. Raises what a worker raised, ChildProcessError where one ended."""
        if not self._workers:
            for locator in locators:
                yield pack_picture(self._job[0], locator, self._job[1])
            return
        try:
            yield from self._packed_in_parallel(iter(locators))
        except GeneratorExit:  # the caller has enough; any other exception may have cut a reply in two
            for worker in self._workers:
                worker.drain()
            raise

    def _packed_in_parallel(self, locators: Iterator[Locator]) -> Iterator[PackedPicture]:
        tasks = _tasks(locators)
        done: dict[int, list[PackedPicture]] = {}
        issued, taken = 0, 0
        while True:
            issued = self._hand_out(tasks, issued, taken + CHUNKS_AHEAD * len(self._workers))
            if issued == taken:
                return
            self._collect(done, wait_for_one=taken not in done)
            if taken in done:
                yield from done.pop(taken)
                taken += 1

    def _hand_out(self, tasks: Iterator[Task], issued: int, end: int) -> int:
        """Give tasks to whoever has room, up to number `end`; the new number of tasks given out."""
        for worker in self._workers:
            while len(worker.pending) < TASKS_AHEAD and issued < end and (task := next(tasks, None)):
                worker.send(issued, task)
                issued += 1
        return issued

    def _collect(self, done: dict[int, list[PackedPicture]], *, wait_for_one: bool) -> None:
        """Take every reply that is there into `done`; wait until there is one, if asked to."""
        busy = {worker.connection: worker for worker in self._workers if worker.pending}
        for connection in wait(list(busy), timeout=None if wait_for_one else 0):
            number, results = busy[cast("Connection", connection)].receive()
            done[number] = results

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        for worker in self._workers:
            worker.close()


def _tasks(locators: Iterator[Locator]) -> Iterator[Task]:
    task: Task = []
    size = 0
    for locator in locators:
        task.append(locator)
        size += locator[2]
        if len(task) == CHUNK_PICTURES or size >= CHUNK_BYTES:
            yield task
            task, size = [], 0
    if task:
        yield task


class _Worker:
    """One process and our end of its socket."""

    def __init__(self, files: Files, options: LevelOptions) -> None:
        ours, theirs = socket.socketpair()
        code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve({theirs.fileno()})"
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-c", code],
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                    env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # numpy is loaded, its matrix threads not needed
                )
        except BaseException:
            ours.close()
            raise
        self.connection = Connection(ours.detach())
        self.pending: list[int] = []
        self.connection.send((files, options))

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, number: int, task: Task) -> None:
        self.connection.send(task)
        self.pending.append(number)

    def receive(self) -> tuple[int, list[PackedPicture]]:
        try:
            results = self.connection.recv()
        except (EOFError, ConnectionError) as error:
            code = self._process.wait()
            raise ChildProcessError(f"a packing process ended by itself (exit code {code})") from error
        if isinstance(results, BaseException):
            raise results
        return self.pending.pop(0), results

    def drain(self) -> None:
        """Forget what is still in work, so that the next task's reply is the next one; a dead worker has nothing."""
        with suppress(Exception):
            while self.pending:
                self.receive()

    def close(self) -> None:
        self.connection.close()
        self._process.kill()
        self._process.wait()


def serve(fd: int) -> None:
    """What a worker runs: tasks come over the socket `fd`, results go back, until the other side closes it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the packer hears Ctrl-C and closes the socket
    connection = Connection(fd)
    try:
        files, options = connection.recv()
        while True:
            task: Task = connection.recv()
            try:
                reply: object = [pack_picture(files, locator, options) for locator in task]
            except Exception as error:
                reply = error
            connection.send(reply)
    except (EOFError, ConnectionError):
        os._exit(0)
