"""Hints to read ahead reach the system in pieces that it takes, and only for what is not in memory."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainload.storage.file import FileSource
from trainload.storage.read_ahead import (
    ADVICE_BYTES,
    FAR_BYTES,
    PROBE_BYTES,
    STEP_BYTES,
    read_ahead_bytes,
    read_at_once,
)

pytestmark = pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="this system takes no hints")

START, SIZE = 1000, 3 * PROBE_BYTES + 5000
NEAR = 128 << 10  # Linux's default


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "bytes"
    path.write_bytes(np.random.default_rng(0).bytes(START + SIZE + 1))
    return path


def opened(path: Path, monkeypatch: pytest.MonkeyPatch, *, read_ahead: int) -> FileSource:
    """The file as it would be opened on a device that reads so far ahead."""
    monkeypatch.setattr("trainload.storage.file.read_ahead_bytes", lambda device: read_ahead)
    return FileSource(path)


@pytest.fixture
def advised(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda fd, offset, size, advice: found.append((offset, offset + size)))
    return found


@pytest.mark.parametrize("error", [BlockingIOError(), OSError("not supported")])
def test_what_is_not_in_memory_or_cannot_be_told_is_announced_without_a_gap(
    path: Path, advised: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def refuse(*_: Any) -> int:
        raise error

    source = opened(path, monkeypatch, read_ahead=NEAR)
    monkeypatch.setattr(os, "preadv", refuse)
    source.will_need(START, SIZE)
    assert advised[0][0] == START and advised[-1][1] == START + SIZE
    assert all(one[1] == two[0] for one, two in pairwise(advised))
    assert max(end - start for start, end in advised) == ADVICE_BYTES


def test_what_is_in_memory_is_not_announced(
    path: Path, advised: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    source = opened(path, monkeypatch, read_ahead=NEAR)
    source.read_at(START, SIZE)
    with path.open("rb") as file:
        if not read_at_once(file.fileno(), memoryview(bytearray(1)), START):
            pytest.skip("this file system does not say what is in memory")
    source.will_need(START, SIZE)
    assert advised == []


def test_long_stretches_are_left_to_a_system_that_reads_far_ahead_itself(
    path: Path, advised: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainload.storage.read_ahead.read_at_once", lambda fd, view, offset: 0)
    source = opened(path, monkeypatch, read_ahead=FAR_BYTES)
    source.will_need(START, SIZE)
    assert advised == []
    source.will_need(START, 5000)
    assert advised == [(START, START + 5000)]


@pytest.mark.parametrize("far", [True, False])
@pytest.mark.parametrize("cached_bytes", [0, 1, STEP_BYTES - 1, STEP_BYTES])
def test_a_long_read_goes_by_steps_where_the_system_reads_far_ahead_and_must_fetch_it(
    path: Path, monkeypatch: pytest.MonkeyPatch, cached_bytes: int, far: bool
) -> None:
    preadv, waited = os.preadv, []

    def partly_cached(fd: int, buffers: Any, offset: int, flags: int = 0) -> int:
        if not flags:
            waited.append(len(buffers[0]))
            return preadv(fd, buffers, offset)
        if not cached_bytes:
            raise BlockingIOError
        return preadv(fd, [memoryview(buffers[0])[:cached_bytes]], offset)

    source = opened(path, monkeypatch, read_ahead=FAR_BYTES if far else NEAR)
    monkeypatch.setattr(os, "preadv", partly_cached)
    found = bytearray(SIZE)
    source.readinto_at(START, found)
    assert found == source.read_at(START, SIZE)
    if far and cached_bytes < STEP_BYTES:
        assert max(waited) == STEP_BYTES and sum(waited) == SIZE - cached_bytes
    else:
        assert waited == [SIZE - STEP_BYTES * far]


def test_a_device_that_linux_does_not_know_has_no_read_ahead() -> None:
    assert read_ahead_bytes(os.makedev(4095, 999_999)) == 0
