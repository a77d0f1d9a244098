"""The CRC-32 of a whole file is compared once, remembered by file identity, and the only check of genuine files."""

from __future__ import annotations

import dataclasses
import os
import pickle
import subprocess
import sys
import warnings
import zlib
from pathlib import Path

import pytest

import trainload as tl
from loading_data import jpegs, write_dts
from trainload.images.checking import whole_file
from trainload.images.format import dts
from trainload.storage import verified

MB = 1 << 20


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(verified, "SETTLED_NS", 0)
    return tmp_path / "cache/trainload/verified"


@pytest.fixture
def path(tmp_path) -> Path:
    """A genuine file: one without an extension."""
    where = write_dts(tmp_path / "set.dts", jpegs(8), [n % 4 for n in range(8)], 4)
    data = bytearray(where.read_bytes())
    data[dts.EXTENSION_OFFSET : dts.EXTENSION_OFFSET + dts.EXTENSION_HEAD_BYTES] = bytes(dts.EXTENSION_HEAD_BYTES)
    header = dts.DtsHeader.from_bytes(bytes(data[:144]), file_size=len(data))
    whole = dataclasses.replace(header, crc_code=zlib.crc32(data[header.header_bytes :])).to_bytes()
    data[: len(whole)] = whole
    where.write_bytes(data)
    return where


@pytest.fixture
def compared(monkeypatch) -> list[str]:
    """The files whose data are read."""
    seen: list[str] = []
    compare = whole_file._compare

    def counting(source, header, progress):
        seen.append(source.path)
        compare(source, header, progress)

    monkeypatch.setattr(whole_file, "_compare", counting)
    return seen


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


@pytest.mark.parametrize("at", [32 * MB - 1, 40 * MB, 48 * MB - 1])
def test_a_flipped_byte_anywhere_in_the_data_is_found(path, at):
    flip(path, at)
    with pytest.raises(tl.ChecksumError, match=r"trainload verify.*set\.dts"):
        tl.open(path, verify="file")


def test_what_was_found_good_is_not_read_again_until_it_changes(path, compared):
    for _ in range(2):
        tl.open(path, verify="file").close()
    assert len(compared) == 1
    status = path.stat()
    flip(path, 40 * MB)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # the time of change tells
    with pytest.raises(tl.ChecksumError):
        tl.ImageLoader(path, batch_size=4, ops=[tl.RandomResizedCrop(16)], verify="file")
    assert len(compared) == 2


def test_a_file_that_changed_just_now_is_not_remembered(path, compared, monkeypatch):
    monkeypatch.setattr(verified, "SETTLED_NS", 10**15)
    for _ in range(2):
        tl.open_images(path, verify="file").close()
    assert len(compared) == 2


def test_without_a_cache_the_file_is_checked_all_the_same(path, compared, cache):
    cache.parent.parent.write_bytes(b"a file in the place of the folder")
    loader = tl.ImageLoader(path, batch_size=4, ops=[tl.RandomResizedCrop(16)], verify="file")
    assert len(compared) == 1
    pickle.loads(pickle.dumps(loader))  # as a spawned worker gets it
    loader.subset([1, 2])
    assert len(compared) == 1


def test_progress_counts_the_bytes_of_the_data(path):
    seen = []
    tl.open_images(path, verify="file", progress=lambda done, total: seen.append((done, total))).close()
    assert seen[-1] == (32 * MB, 32 * MB)


def test_two_processes_at_once_check_once(path, cache):
    code = (
        "import sys, trainload as tl; from trainload.storage import verified; verified.SETTLED_NS = 0; seen = [];"
        "tl.open_images(sys.argv[1], verify='file', progress=lambda *now: seen.append(now)); print(bool(seen))"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) for _ in "ab"
    ]
    found = sorted(process.communicate(timeout=60)[0].strip() for process in started)
    assert found == ["False", "True"]
    assert len(list(cache.iterdir())) == 1


def test_a_genuine_file_that_is_read_unchecked_says_so_once(path):
    with pytest.warns(RuntimeWarning, match="read unchecked"):
        tl.ImageLoader(path, batch_size=4, ops=[tl.RandomResizedCrop(16)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tl.ImageLoader(path, batch_size=4, ops=[tl.RandomResizedCrop(16)])
