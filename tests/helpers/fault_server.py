"""A web server on the loopback that gives objects by ranges, and each request a fault where it is told to."""

from __future__ import annotations

import hashlib
import random
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

Fault = Literal[
    "500", "503", "520", "429", "408", "403", "reset", "reset late", "short", "long", "wrong range", "wrong total",
    "whole", "slow", "drip", "changed", "other bytes", "gone", "",
]  # fmt: skip
PASSING: tuple[Fault, ...] = (
    "500",
    "503",
    "520",
    "429",
    "408",
    "reset",
    "reset late",
    "short",
    "wrong range",
    "whole",
    "slow",
)


class FaultServer:
    """objects: bytes by path. fault: what becomes of the n-th GET (from 0) of a path.

    requests: (method, path, Range) of all that came. A path is without its query, as that of a signed URL, and queries
    are beside it in `queries`. Every object has the ETag of its bytes.
    """

    def __init__(self, objects: dict[str, bytes], fault: Callable[[str, int], Fault] = lambda path, n: "") -> None:
        self.objects = objects
        self.fault = fault
        self.requests: list[tuple[str, str, str]] = []
        self.queries: list[str] = []
        self._gets: dict[str, int] = {}
        self._lock = threading.Lock()

    def next_fault(self, path: str) -> Fault:
        with self._lock:
            n = self._gets.get(path, 0)
            self._gets[path] = n + 1
        return self.fault(path, n)


@lru_cache(maxsize=16)
def etag_of(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


def random_faults(seed: int, faults: tuple[Fault, ...], share: float) -> Callable[[str, int], Fault]:
    """A fault for so large a share of the requests, the same for the same seed."""
    draw, lock = random.Random(seed), threading.Lock()

    def fault(path: str, n: int) -> Fault:
        with lock:
            return draw.choice(faults) if draw.random() < share else ""

    return fault


@contextmanager
def serving(server: FaultServer) -> Iterator[str]:
    """The URL under which the objects are served, http://127.0.0.1:PORT."""

    class Handler(_Handler):
        faults = server

    httpd = _Quiet(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_address[1]}"
    finally:
        httpd.shutdown()
        httpd.server_close()
        thread.join()


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was hung up on, as planned."""


class _Handler(BaseHTTPRequestHandler):
    faults: FaultServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args: Any) -> None: ...

    def do_HEAD(self) -> None:
        path = self._note()
        data = self.faults.objects.get(path)
        if data is None:
            self._refuse(404)
            return
        self.send_response(200)
        self._headers(data, len(data))

    def do_GET(self) -> None:
        path = self._note()
        fault = self.faults.next_fault(path)
        data = self.faults.objects.get(path)
        if data is None or fault == "gone":
            self._refuse(404)
            return
        if fault.isdecimal():
            self._refuse(int(fault))
            return
        if fault == "reset":
            self._reset()
            return
        wanted = self.headers.get("If-Match")
        if (wanted is not None and wanted != etag_of(data)) or fault == "changed":
            self._refuse(412)
            return
        self._give(data, fault)

    def _give(self, data: bytes, fault: Fault) -> None:
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        first, last = (int(found.group(1)), int(found.group(2))) if found else (0, len(data) - 1)
        part = data[first : last + 1]
        last = first + len(part) - 1  # a range past the end is answered with what there is
        total = len(data)
        if fault == "whole":
            self.send_response(200)
            self._headers(data, len(data))
            self._send(data)
            return
        if fault == "wrong range":  # one that it gives, and says so
            first, last = first + 1, last + 1
            part = data[first : last + 1]
        if fault == "other bytes":
            part = bytes(len(part))
        if fault == "wrong total":
            total += 1
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{last}/{total}")
        told = len(part)
        if fault == "long":
            told, part = told + 1, part + b"x"
        self._headers(data if fault != "other bytes" else data + b"!", told)
        if fault in ("short", "reset late"):
            self._send(part[: len(part) // 2])
            self._reset() if fault == "reset late" else self._hang_up()
        elif fault == "slow":
            self._send(part[:1])  # and then nothing for a while
            self.faults_pause()
            self._hang_up()
        elif fault == "drip":
            for n in range(len(part)):  # never silent for long, and never done
                if self.close_connection:
                    break
                self._send(part[n : n + 1])
                threading.Event().wait(0.005)
        else:
            self._send(part)

    def faults_pause(self) -> None:
        threading.Event().wait(0.3)

    def _headers(self, data: bytes, length: int) -> None:
        self.send_header("ETag", etag_of(data))
        self.send_header("Content-Length", str(length))
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("X-Request-Id", f"r{len(self.faults.requests)}")
        self.end_headers()

    def _send(self, data: bytes) -> None:
        try:
            self.wfile.write(data)
            self.wfile.flush()
        except OSError:
            self.close_connection = True

    def _refuse(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.send_header("X-Request-Id", f"r{len(self.faults.requests)}")
        self.end_headers()

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _reset(self) -> None:
        """Close with an RST."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def _note(self) -> str:
        path, _, query = self.path.partition("?")
        self.faults.requests.append((self.command, path, self.headers.get("Range", "")))
        self.faults.queries.append(query)
        return path
