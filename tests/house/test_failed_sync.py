"""A sync that failed once is never taken for a good one later, and what is called safe was synced."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import trainload as tl
from faulty_file import Faults
from picture_folders import encoded
from trainload.images.format import dts
from trainload.images.packing import block_cutting, progress, volume_packer
from trainload.images.packing.journal import SYNC_BEGUN, SYNC_DONE
from trainload.recordings.recovering.recover import recover
from trainload.recordings.writing.durable import Durable
from trainload.recordings.writing.recorder import Recorder
from trainload.recordings.writing.writer import HyperframeWriter
from trainload.storage.atomic import AtomicFile
from trainload.storage.file import FileSource


class DroppedPages:
    """os.fsync that fails where it is told to and then, as Linux does, has dropped what was written since the last one.

    The page cache still shows it: `forget` gives the disk's bytes.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._fsync, self._pwrite, self._pwritev = os.fsync, os.pwrite, os.pwritev
        self.fail: set[int] = set()
        self.calls = 0
        self.code = errno.EIO
        self._dirty: dict[int, list[tuple[int, int]]] = {}
        self._lost: dict[int, list[tuple[int, int]]] = {}
        for name in ("fsync", "pwrite", "pwritev"):
            monkeypatch.setattr(os, name, getattr(self, name))

    def pwrite(self, fd: int, data: bytes, at: int) -> int:
        done = self._pwrite(fd, data, at)
        self._wrote(fd, at, done)
        return done

    def pwritev(self, fd: int, data: list[bytes], at: int) -> int:
        done = self._pwritev(fd, data, at)
        self._wrote(fd, at, done)
        return done

    def fsync(self, fd: int) -> None:
        inode = os.fstat(fd).st_ino
        self.calls += 1
        if self.calls in self.fail:
            self._lost.setdefault(inode, []).extend(self._dirty.pop(inode, []))
            raise OSError(self.code, os.strerror(self.code))
        self._dirty.pop(inode, None)
        self._fsync(fd)

    def forget(self, path: Path) -> bytes:
        """What the disk holds of a file."""
        data = bytearray(path.read_bytes())
        inode = path.stat().st_ino
        for start, end in self._lost.get(inode, []) + self._dirty.get(inode, []):
            data[start:end] = bytes(end - start)
        return bytes(data)

    def _wrote(self, fd: int, at: int, size: int) -> None:
        inode = os.fstat(fd).st_ino
        self._dirty.setdefault(inode, []).append((at, at + size))
        kept = []
        for start, end in self._lost.get(inode, []):  # written again: not lost any more
            kept += [(start, min(end, at)), (max(start, at + size), end)]
        self._lost[inode] = [(start, end) for start, end in kept if start < end]


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> DroppedPages:
    return DroppedPages(monkeypatch)


def fill(writer: HyperframeWriter | Recorder, first: int, last: int) -> None:
    put: Callable[..., object] = writer.append if isinstance(writer, HyperframeWriter) else writer.write
    for n in range(first, last):
        put("a", n * 10, b"%d" % n * 30)


def test_a_file_whose_sync_failed_is_never_committed(tmp_path: Path, disk: DroppedPages) -> None:
    disk.fail = {1}
    for keep in (False, True):
        disk.calls = 0
        file = AtomicFile(tmp_path / "x", keep=keep)
        file.write_at(0, b"data")
        with pytest.raises(OSError, match="Input/output error"):
            file.sync()
        for again in (file.sync, file.commit):
            with pytest.raises(OSError, match="an earlier sync of this file failed"):
                again()
        file.abort()
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_a_recorder_whose_sync_failed_publishes_nothing_and_says_what_is_safe(
    tmp_path: Path, disk: DroppedPages, code: int
) -> None:
    disk.code = code
    told: list[int] = []
    committed = threading.Event()

    def on_commit(windows: int, path: Path) -> None:
        told.append(windows)
        if windows:
            disk.fail = set(range(disk.calls + 1, disk.calls + 9))
            committed.set()

    recorder = Recorder(tmp_path / "a.hfr", window=50, lateness=0, sync_every="2ms", on_commit=on_commit)
    recorder.add_stream("a")
    fill(recorder, 0, 100)
    assert committed.wait(10)
    durable = recorder.durable
    with pytest.raises(OSError, match=r"safe are \d+ whole windows") as caught:
        fill(recorder, 100, 200)
        recorder.close()
    assert caught.value.errno == code and f"safe are {told[-1]} whole windows" in str(caught.value)
    assert not (tmp_path / "a.hfr").exists() and recorder.durable == durable
    (tmp_path / "cut").write_bytes(disk.forget(tmp_path / "a.hfr.tmp"))
    disk.fail = set()
    recover(tmp_path / "cut", tmp_path / "b.hfr")
    with tl.open_recording(tmp_path / "b.hfr") as drive:
        numbers = drive.stream_index("a").tolist()
        assert numbers[: durable.frames["a"] + 1] == list(range(durable.frames["a"] + 1))
        assert durable.until_ns >= 0 and durable.windows == told[-1]


def test_a_writer_whose_sync_failed_cannot_be_gone_on_with(tmp_path: Path, disk: DroppedPages) -> None:
    writer = HyperframeWriter(tmp_path / "a.hfr", window=50, lateness=0)
    writer.add_stream("a")
    fill(writer, 0, 100)
    disk.fail = {1}
    with pytest.raises(OSError, match=r"safe are 0 whole windows of 0 frames; 16 more were written"):
        writer.sync()
    for go_on in (writer.sync, writer.finalize, lambda: fill(writer, 100, 200)):
        with pytest.raises(OSError, match="a sync of this file failed"):
            go_on()
    writer.detach()
    assert [path.name for path in tmp_path.iterdir()] == ["a.hfr.tmp"]


def test_safe_counts_what_was_synced_and_the_parts_before(tmp_path: Path) -> None:
    faults = Faults()
    recorder = Recorder(
        tmp_path / "drive", window=1, lateness=0, split_bytes=2000, sync_every="1h", open_file=faults.opener()
    )
    recorder.add_stream("a")
    faults.fail = {("write", n): errno.EIO for n in range(40, 60)}
    with pytest.raises(OSError, match=r"safe are \d+ whole windows of .*, and the \d+ parts before this one"):
        for n in range(1000):
            recorder.write("a", n * 10, b"x" * 300)
        recorder.close()


def test_durable_says_until_which_time_and_frame_all_is_on_the_disk(tmp_path: Path) -> None:
    writer = HyperframeWriter(tmp_path / "a.hfr", window=50, lateness=0)
    writer.add_stream("a")
    writer.add_stream("imu", dtype="<f4", packed=True)
    assert writer.durable == Durable()
    for n in range(20):
        writer.append("a", n * 10, b"x", stream_index=100 + n)
        writer.append("imu", n * 10 + 1, np.float32(n).tobytes())
    assert writer.durable == Durable()  # written, not synced
    windows = writer.sync()
    assert windows == 3
    assert writer.durable == Durable(until_ns=160, windows=3, frames={"a": 116, "imu": 15})
    writer.append("a", 20, b"late", stream_index=120)
    writer.sync()
    assert writer.durable.until_ns == 160 and writer.durable.frames["a"] == 116
    writer.finalize()
    assert writer.durable.windows >= 4 and writer.durable.frames == {"a": 120, "imu": 19}


def test_durable_counts_over_all_parts_and_stands_in_the_statistics(tmp_path: Path) -> None:
    with Recorder(tmp_path / "drive", window=1, lateness=0, split_bytes=2000) as recorder:
        recorder.add_stream("a")
        for n in range(40):
            recorder.write("a", n * 10, b"x" * 300)
        assert recorder.stats().durable.windows <= 40
    assert recorder.durable == recorder.stats().durable
    assert (recorder.durable.windows, recorder.durable.frames) == (40, {"a": 39})
    assert len(list((tmp_path / "drive").iterdir())) > 3


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pictures")
    (root / "class").mkdir()
    for n in range(24):
        noise = np.random.default_rng(n).integers(0, 256, (150, 220, 3), np.uint8)
        (root / "class" / f"{n:02d}.jpeg").write_bytes(encoded(Image.fromarray(noise), quality=85))
    return root


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 128 KB, each two of them synced."""
    monkeypatch.setattr(dts, "BLOCK_SIZE", 1 << 17)
    monkeypatch.setattr(block_cutting, "MAX_BLOCK_HEADER_SIZE", 1 << 14)
    monkeypatch.setattr(volume_packer, "SYNC_BLOCKS", 2)


@pytest.mark.parametrize("volumes", [1, 2])
@pytest.mark.parametrize("level", [0, 3])
def test_a_resumed_pack_writes_again_what_a_failed_sync_may_have_dropped(
    pictures: Path, tmp_path: Path, disk: DroppedPages, small_blocks: None, level: int, volumes: int
) -> None:
    switches = {"level": level, "volumes": volumes, "jobs": 1}
    tl.pack_images(pictures, tmp_path / "whole" / "set.dts", **switches)  # type: ignore[arg-type]
    syncs = disk.calls
    assert syncs > 8
    whole = {path.name: path.read_bytes() for path in (tmp_path / "whole").glob("*.dts")}
    for failing in (1, 2, 4, syncs - 3, syncs - 1, syncs):
        out = tmp_path / str(failing) / "set.dts"
        disk.calls, disk.fail = 0, {failing}
        with pytest.raises(OSError, match="Input/output error"):
            tl.pack_images(pictures, out, **switches)  # type: ignore[arg-type]
        disk.fail = set()
        tl.pack_images(pictures, out, resume=True, overwrite=True, **switches)  # type: ignore[arg-type]
        assert {path.name: disk.forget(path) for path in out.parent.glob("*.dts")} == whole


def test_a_resumed_pack_keeps_what_was_synced(
    pictures: Path, tmp_path: Path, disk: DroppedPages, small_blocks: None
) -> None:
    out = tmp_path / "set.dts"
    journal = tmp_path / "set.dts.journal"
    disk.fail = {3}
    with pytest.raises(OSError, match="Input/output error"):
        tl.pack_images(pictures, out, level=3, jobs=1)
    lines = journal.read_bytes().splitlines(keepends=True)
    assert [lines.count(SYNC_BEGUN), lines.count(SYNC_DONE), lines[-1] == SYNC_BEGUN] == [3, 2, True]
    resumed = []
    tl.pack_images(pictures, out, level=3, jobs=1, resume=True, progress=lambda now: resumed.append(now.resumed))
    assert 0 < resumed[-1] < 24
    assert disk.forget(out) == out.read_bytes()


def test_a_resume_syncs_what_a_kill_left_before_it_builds_on_it(
    pictures: Path, tmp_path: Path, disk: DroppedPages, small_blocks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "set.dts"
    monkeypatch.setattr(volume_packer, "SYNC_BLOCKS", 1000)
    monkeypatch.setattr(progress, "PROGRESS_PICTURES", 1)

    def stop(now: progress.PackProgress) -> None:
        if now.done == 15:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tl.pack_images(pictures, out, level=0, jobs=1, progress=stop)
    disk.calls, disk.fail = 0, {1}
    with pytest.raises(OSError, match="Input/output error"):  # the kernel could not write what the kill left
        tl.pack_images(pictures, out, level=0, jobs=1, resume=True)
    disk.fail = set()
    tl.pack_images(pictures, out, level=0, jobs=1, resume=True)
    assert disk.forget(out) == out.read_bytes()


@pytest.mark.parametrize("call", ["pwrite", "ftruncate", "fsync"])
def test_a_pack_that_fails_leaves_no_descriptor_and_no_empty_journal(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    tl.pack_images(pictures, tmp_path / "warm.dts", level=0, jobs=1)
    fds = Path("/proc/self/fd")
    if not fds.exists():
        pytest.skip("descriptors are counted in Linux's /proc")
    before = len(list(fds.iterdir()))
    real = getattr(os, call)
    for failing in range(1, 8):
        calls: list[int] = []

        def fail(*arguments: object, calls: list[int] = calls, failing: int = failing) -> object:
            calls.append(1)
            if len(calls) == failing:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return real(*arguments)

        with monkeypatch.context() as patch, pytest.raises(OSError, match=r"Input/output error: '.*"):
            patch.setattr(os, call, fail)
            tl.pack_images(pictures, tmp_path / "set.dts", level=0, jobs=1, overwrite=True)
            raise OSError(errno.EIO, "Input/output error", "set.dts")  # fewer calls than that
        assert len(list(fds.iterdir())) == before
        journal = tmp_path / "set.dts.journal"
        assert not journal.exists() or journal.stat().st_size > 0


def test_a_close_that_fails_is_not_done_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, others = os.close, []

    def close(fd: int) -> None:
        real(fd)
        others.append(os.open(os.devnull, os.O_RDONLY))  # another thread gets the number
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    (tmp_path / "a").write_bytes(b"x")
    with monkeypatch.context() as patch:
        patch.setattr(os, "close", close)
        with AtomicFile(tmp_path / "b") as file:
            file.write_at(0, b"whole")
            file.commit()  # what was synced needs no close
        source = FileSource(tmp_path / "a")
        for _ in range(2):
            try:
                source.close()
            except OSError as error:
                assert error.errno == errno.EIO
        AtomicFile(tmp_path / "c", keep=True).abort()
    for fd in others:
        os.fstat(fd)
        os.close(fd)
    assert (tmp_path / "b").read_bytes() == b"whole"


def test_an_error_of_the_disk_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for call in ("pwrite", "pwritev", "fsync"):
        monkeypatch.setattr(os, call, full)
    for keep, name in ((False, "x'$"), (True, r"x\.tmp'$")):
        with AtomicFile(tmp_path / "x", keep=keep) as file:
            for work in (lambda: file.write_at(0, b"x"), lambda: file.write_vector_at(0, [b"x"]), file.sync):
                with pytest.raises(OSError, match=f"No space left on device: .*{name}"):
                    work()


def test_a_recovery_that_fails_names_what_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with HyperframeWriter(tmp_path / "a.hfr") as writer:
        writer.add_stream("a")
        writer.append("a", 0, b"x")

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwritev", full)
    with pytest.raises(OSError, match=r"No space left on device; nothing was written under this name: .*b\.hfr'$"):
        recover(tmp_path / "a.hfr", tmp_path / "b.hfr")
    assert [path.name for path in tmp_path.iterdir()] == ["a.hfr"]


NO_MORE = "the system gives no more threads"


def test_no_thread_to_be_had_is_an_os_error_and_leaves_no_file(
    tmp_path: Path, pictures: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with HyperframeWriter(tmp_path / "sound.hfr") as writer:
        writer.add_stream("a", dtype="<f4")
        for n in range(5):
            writer.append("a", n, np.float32(n).tobytes())

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    for _ in range(2):  # the first leaves nothing in the second's way
        for path, options in ((tmp_path / "a.hfr", {}), (tmp_path / "drive", {"split_bytes": 1000})):
            with pytest.raises(OSError, match=NO_MORE) as caught:
                Recorder(path, **options)  # type: ignore[arg-type]
            assert caught.value.errno == errno.EAGAIN
    with pytest.raises(OSError, match=NO_MORE):
        next(iter(tl.ImageLoader(pictures, batch_size=2, ops=[tl.RandomResizedCrop(8)], workers=2)))
    with tl.open_recording(tmp_path / "sound.hfr") as drive:
        with pytest.raises(OSError, match=NO_MORE):
            next(iter(tl.HyperframeLoader(tl.WindowDataset(drive), batch_size=2)))
        assert len(list(drive.iter_range("a", 0, 100))) == 5  # helpers only help
    writer = HyperframeWriter(tmp_path / "c.hfr", window=1, lateness=0)
    writer.add_stream("a", codec="zstd")
    with pytest.raises(OSError, match=NO_MORE), writer:
        fill(writer, 0, 10)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["drive", "sound.hfr"]
