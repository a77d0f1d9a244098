"""Hints to read ahead reach the system in pieces that it takes, and only for what is not in memory."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from trainload.storage import read_ahead
from trainload.storage.file import FileSource
from trainload.storage.read_ahead import ADVICE_BYTES, LONG_BYTES, read_ahead_bytes

pytestmark = pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="this system takes no hints")

START, SIZE = 1000, 3 * LONG_BYTES + 5000


@pytest.fixture
def source(tmp_path: Path) -> FileSource:
    path = tmp_path / "bytes"
    path.write_bytes(bytes(START + SIZE + 1))
    return FileSource(path)


@pytest.fixture
def advised(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(read_ahead, "read_ahead_bytes", lambda device: 128 << 10)
    monkeypatch.setattr(os, "posix_fadvise", lambda fd, offset, size, advice: found.append((offset, offset + size)))
    return found


@pytest.mark.parametrize("error", [BlockingIOError(), OSError("not supported")])
def test_what_is_not_in_memory_or_cannot_be_told_is_announced_without_a_gap(
    source: FileSource, advised: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def refuse(*_: Any) -> int:
        raise error

    monkeypatch.setattr(os, "preadv", refuse)
    source.will_need(START, SIZE)
    assert advised[0][0] == START and advised[-1][1] == START + SIZE
    assert all(one[1] == two[0] for one, two in pairwise(advised))
    assert max(end - start for start, end in advised) == ADVICE_BYTES


def test_what_is_in_memory_is_not_announced(source: FileSource, advised: list[tuple[int, int]]) -> None:
    source.read_at(START, SIZE)
    if not read_ahead._is_cached(source._fd, START):
        pytest.skip("this file system does not say what is in memory")
    source.will_need(START, SIZE)
    assert advised == []


def test_long_stretches_are_left_to_a_system_that_reads_far_ahead_itself(
    source: FileSource, advised: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_ahead, "_is_cached", lambda fd, offset: False)
    monkeypatch.setattr(read_ahead, "read_ahead_bytes", lambda device: LONG_BYTES)
    source.will_need(START, SIZE)
    assert advised == []
    source.will_need(START, 5000)
    assert advised == [(START, START + 5000)]


def test_a_device_that_linux_does_not_know_has_no_read_ahead() -> None:
    assert read_ahead_bytes(os.makedev(4095, 999_999)) == 0
