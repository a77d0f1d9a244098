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
from typing import Any

import numpy as np
import pytest

import trainload as tl
from loading_data import jpegs, write_array, write_dts
from picture_folders import class_folders
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


@pytest.mark.parametrize("at", [16 * MB + 4000, 32 * MB - 1, 40 * MB, 48 * MB - 1])
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


def test_damage_in_the_second_volume_names_that_file(tmp_path, path):
    volumes = [tmp_path / f"set-{n}-of-2.dts" for n in range(2)]
    folder = class_folders(tmp_path / "pictures", classes=2, each=4)
    tl.pack_images(folder, tmp_path / "set.dts", level=0, volumes=2, jobs=1)
    tl.open(volumes, verify="file").close()
    flip(volumes[1], 16 * MB + 100)
    with pytest.raises(tl.ChecksumError, match="set-1-of-2"):
        tl.open(volumes, verify="file")


@pytest.fixture(params=["label", "pixel"])
def damaged_array(request, tmp_path) -> Path:
    pixels = np.arange(40 * 28 * 28, dtype=np.uint8).reshape(40, 28, 28, 1)
    where = write_array(tmp_path / "mnist.dts", "MNIST", pixels, np.arange(40) % 10)
    tl.ImageLoader(where, batch_size=4)
    flip(where, 256 if request.param == "label" else 256 + 40 + 1000)
    return where


@pytest.mark.parametrize("verify", ["file", "blocks"])
def test_an_array_file_is_checked_by_every_loader_that_checks(damaged_array, verify):
    with pytest.raises(tl.ChecksumError, match="mnist"):
        tl.ImageLoader(damaged_array, batch_size=4, verify=verify)
    tl.ImageLoader(damaged_array, batch_size=4, verify="none")


def test_a_validation_set_that_is_shuffled_on_purpose_says_so(tmp_path):
    folder = class_folders(tmp_path / "pictures", classes=2, each=4)
    tl.pack_images(folder, tmp_path / "val.dts", split="val", level=0, jobs=1)
    options: dict[str, Any] = {"batch_size": 4, "ops": [tl.CenterCrop(8)]}
    with pytest.warns(RuntimeWarning, match="validation"):
        tl.ImageLoader(tmp_path / "val.dts", shuffle=True, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for shuffle in ("auto", "none", False):
            tl.ImageLoader(tmp_path / "val.dts", shuffle=shuffle, **options)


def test_what_has_no_checksum_of_its_own_is_refused(tmp_path):
    folder = class_folders(tmp_path / "pictures", classes=2, each=4)
    with pytest.raises(tl.UsageError, match="carries no checksums"):
        tl.ImageLoader(folder, batch_size=4, ops=[tl.CenterCrop(8)], verify="file")
    with tl.Recorder(tmp_path / "a.hfr", window="100ms") as recorder:
        recorder.write(recorder.add_stream("a", kind="other"), 1, b"x")
    with pytest.raises(tl.UsageError, match="verify"):
        tl.open(tmp_path / "a.hfr", verify="file")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_worker_does_not_check_again(path, compared):
    ds = tl.open_images(path, verify="file")
    child = os.fork()
    if not child:
        try:
            tl.ImageLoader(ds, batch_size=4, ops=[tl.CenterCrop(8)], verify="file")
        finally:
            os._exit(len(compared) - 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
