"""A name has one writer at a time, and only a regular file that nobody reads is ever replaced."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

import trainload as tl
from child_processes import running
from picture_folders import encoded
from trainload.cli.pack import pack_app
from trainload.images.extract import extract
from trainload.images.packing.arrays import pack_arrays
from trainload.recordings.exporters.frame_files import extract_frames
from trainload.recordings.exporters.merge import merge_recordings
from trainload.recordings.exporters.slice import slice_recording
from trainload.recordings.recovering.recover import recover
from trainload.recordings.writing.recorder import Recorder
from trainload.recordings.writing.writer import HyperframeWriter
from trainload.storage.atomic import AtomicFile
from trainload.storage.claim import claim, is_being_written

HOLD = """
import sys
from pathlib import Path
from typing import Any
from trainload.storage.atomic import AtomicFile
file = AtomicFile(sys.argv[1], keep=True)
file.write_at(0, b"theirs")
print("ready", flush=True)
if sys.stdin.readline() == "commit\\n":
    file.commit()
    print("done", flush=True)
"""


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("pictures")
    for n in range(4):
        (root / f"class{n % 2}").mkdir(exist_ok=True)
        noise = np.random.default_rng(n).integers(0, 256, (40, 50, 3), np.uint8)
        (root / f"class{n % 2}" / f"{n}.jpeg").write_bytes(encoded(Image.fromarray(noise)))
    return root


def record(path: Path, count: int = 50, *, overwrite: bool = False) -> Path:
    with HyperframeWriter(path, window=100, lateness=0, overwrite=overwrite) as writer:
        writer.add_stream("a")
        for n in range(count):
            writer.append("a", n * 30, b"%d" % n * 20)
    return path


def unfinished(path: Path) -> Path:
    """The .tmp file of a recording that stopped."""
    writer = HyperframeWriter(path, window=100, lateness=0)
    writer.add_stream("a")
    for n in range(50):
        writer.append("a", n * 30, b"%d" % n * 20)
    writer.write_closed()
    writer.detach()
    return writer.part.tmp_path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@contextlib.contextmanager
def another_process(path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that writes `path` until it is told to commit, or the block ends."""
    with running(HOLD, path, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        yield process


def test_what_another_process_writes_is_refused_and_stays_as_it_is(pictures: Path, tmp_path: Path) -> None:
    attempts: list[tuple[str, Callable[[Path], object]]] = [
        ("a.hfr", lambda path: HyperframeWriter(path)),
        ("b.hfr", lambda path: HyperframeWriter(path, overwrite=True)),
        ("c.hfr", lambda path: Recorder(path, overwrite=True)),
        ("d.dts", lambda path: tl.pack_images(pictures, path, level=0, jobs=1, overwrite=True)),
        ("e.dts", lambda path: tl.pack_images(pictures, path, level=0, jobs=1, resume=True)),
        ("f.dts", lambda path: tl.pack_images(pictures, path, level=3, jobs=1)),
    ]
    for name, attempt in attempts:
        path = tmp_path / name
        with another_process(path) as process:
            with pytest.raises(tl.UsageError, match=rf"another process is writing this file.*{name}$"):
                attempt(path)
            print("commit", file=process.stdin, flush=True)
            assert process.stdout is not None and process.stdout.readline() == "done\n"
        assert path.read_bytes() == b"theirs"
    assert names(tmp_path) == [name for name, _ in attempts]


def test_two_packs_of_one_name_end_with_one_whole_file(pictures: Path, tmp_path: Path) -> None:
    out = tmp_path / "set.dts"
    refused = []

    def second(progress: object) -> None:
        if out.exists():  # the last call comes when all is done
            return
        with pytest.raises(tl.UsageError, match="another process is writing this file") as caught:
            tl.pack_images(pictures, out, level=3, jobs=1, overwrite=True)
        refused.append(caught.value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trainload.images.packing.progress.PROGRESS_PICTURES", 1)
        tl.pack_images(pictures, out, level=0, jobs=1, progress=second)
    assert refused and tl.verify(out).good
    assert names(tmp_path) == ["set.dts", "set.dts.report.json"]


def test_of_two_writers_of_private_files_the_last_one_wins_whole(tmp_path: Path) -> None:
    first, second = AtomicFile(tmp_path / "x"), AtomicFile(tmp_path / "x")
    for file, data in ((first, b"first" * 100), (second, b"second")):
        file.write_at(0, data)
    second.commit()
    first.commit()
    assert (tmp_path / "x").read_bytes() == b"first" * 100
    assert names(tmp_path) == ["x"]


def test_a_dead_process_leaves_no_lock(tmp_path: Path) -> None:
    with another_process(tmp_path / "a.hfr"):
        assert is_being_written(tmp_path / "a.hfr.tmp")
    assert not is_being_written(tmp_path / "a.hfr.tmp")
    record(tmp_path / "a.hfr", overwrite=True)
    assert names(tmp_path) == ["a.hfr"]


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    file = AtomicFile(tmp_path / "x", keep=True)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write_end)
        os.read(read_end, 1)
        os._exit(0)
    file.abort()
    assert not is_being_written(tmp_path / "x.tmp")
    os.close(write_end)
    os.waitpid(child, 0)
    os.close(read_end)


def test_a_file_system_without_locks_still_gives_whole_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_locks(fd: int, kind: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    one = AtomicFile(tmp_path / "x", keep=True)
    one.write_at(0, b"one")
    two = AtomicFile(tmp_path / "x", keep=True)  # takes the first for dead
    two.write_at(0, b"two")
    with pytest.raises(OSError, match="removed or replaced by another process"):
        one.commit()
    one.abort()
    two.commit()
    assert (tmp_path / "x").read_bytes() == b"two"


def test_a_working_file_that_was_taken_between_two_looks_is_not_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.tmp"
    path.write_bytes(b"old")
    real = fcntl.flock
    looks: list[int] = []

    def flock(fd: int, kind: int) -> None:
        if kind & fcntl.LOCK_EX and not looks:  # meanwhile its owner finished, and another run began
            looks.append(fd)
            path.rename(tmp_path / "x")
            path.write_bytes(b"new")
        real(fd, kind)

    monkeypatch.setattr(fcntl, "flock", flock)
    fd = claim(path, tmp_path / "x", resume=True)
    assert os.pread(fd, 10, 0) == b"new" and (tmp_path / "x").read_bytes() == b"old"
    os.close(fd)


@pytest.mark.parametrize("ending", [".tmp", ".journal", ".report.json", ""])
@pytest.mark.parametrize("what", ["link", "dangling", "folder", "fifo"])
def test_a_pack_follows_no_link_and_replaces_only_files(pictures: Path, tmp_path: Path, ending: str, what: str) -> None:
    victim, odd = tmp_path / "victim", tmp_path / "out" / f"set.dts{ending}"
    victim.write_text("precious")
    odd.parent.mkdir()
    make: dict[str, Callable[[], None]] = {
        "link": lambda: odd.symlink_to(victim),
        "dangling": lambda: odd.symlink_to(tmp_path / "nowhere"),
        "folder": odd.mkdir,
        "fifo": lambda: os.mkfifo(odd),
    }
    make[what]()
    kind = odd.lstat().st_mode
    for resume in (False, True):
        with pytest.raises(tl.UsageError, match=r"folder|link|FIFO"):
            tl.pack_images(pictures, odd.parent / "set.dts", level=0, jobs=1, overwrite=True, resume=resume)
    assert victim.read_text() == "precious" and odd.lstat().st_mode == kind
    assert names(odd.parent) == [odd.name] and not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("ending", [".tmp", ""])
def test_a_recording_follows_no_link(tmp_path: Path, ending: str) -> None:
    (tmp_path / "victim").write_text("precious")
    (tmp_path / f"a.hfr{ending}").symlink_to("victim")
    with pytest.raises(tl.UsageError, match="symbolic link"):
        record(tmp_path / "a.hfr", overwrite=True)
    assert (tmp_path / "victim").read_text() == "precious" and (tmp_path / f"a.hfr{ending}").is_symlink()


def test_a_set_is_not_packed_over_without_being_asked(pictures: Path, tmp_path: Path) -> None:
    out = tmp_path / "set.dts"
    tl.pack_images(pictures, out, level=0, jobs=1)
    before = out.read_bytes()
    for resume in (False, True):
        with pytest.raises(tl.UsageError, match="the file exists"):
            tl.pack_images(pictures, out, level=3, jobs=1, resume=resume)
    assert out.read_bytes() == before and names(tmp_path) == ["set.dts", "set.dts.report.json"]
    tl.pack_images(pictures, out, level=3, jobs=1, overwrite=True)
    assert out.read_bytes() != before


def test_the_pack_commands_take_overwrite() -> None:
    for verb in ("images", "mnist", "cifar10", "cifar100"):
        import trainload.cli.pack_arrays  # noqa: F401 - registers the verbs

        assert "--overwrite" in CliRunner().invoke(pack_app, [verb, "--help"], env={"COLUMNS": "200"}).output


def test_arrays_are_not_packed_over_without_being_asked(tmp_path: Path) -> None:
    (tmp_path / "mnist_test.dts").write_bytes(b"old")
    with pytest.raises(tl.UsageError, match="the file exists"):
        pack_arrays("mnist", tmp_path, tmp_path)
    assert (tmp_path / "mnist_test.dts").read_bytes() == b"old"


def test_an_output_that_cannot_be_written_is_refused_before_the_first_picture(pictures: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OSError, match="file"), pytest.MonkeyPatch.context() as patch:
        patch.setattr("trainload.images.packing.plan.Workers", None)
        tl.pack_images(pictures, tmp_path / "file" / "set.dts", level=3)


def test_a_working_name_is_never_an_input(tmp_path: Path) -> None:
    left = unfinished(tmp_path / "z.hfr").rename(tmp_path / "z.hfr.recovering.tmp")
    data = left.read_bytes()
    assert recover(left, tmp_path / "z.hfr").windows > 10
    assert left.read_bytes() == data
    whole = record(tmp_path / "w.hfr")
    data = whole.read_bytes()
    for name in ("q.hfr.tmp", "m.hfr.tmp"):
        (tmp_path / name).write_bytes(data)
    with tl.open_recording(tmp_path / "q.hfr.tmp") as drive:
        slice_recording(drive, tmp_path / "q.hfr", start_ns=0, end_ns=600, overwrite=True)
    with tl.open_recording(tmp_path / "m.hfr.tmp") as drive, tl.open_recording(whole) as other:
        merge_recordings([drive, other], tmp_path / "m.hfr", overwrite=True)
    assert all((tmp_path / name).read_bytes() == data for name in ("q.hfr.tmp", "m.hfr.tmp"))
    assert tl.verify(tmp_path / "q.hfr").good and tl.verify(tmp_path / "m.hfr").good


def test_an_input_is_never_the_output_through_links_either(tmp_path: Path) -> None:
    whole = record(tmp_path / "a.hfr")
    data = whole.read_bytes()
    (tmp_path / "hard.hfr").hardlink_to(whole)
    export_mcap = pytest.importorskip("trainload.recordings.exporters.mcap").export_mcap
    for out in (whole, tmp_path / "hard.hfr"):
        with tl.open_recording(whole) as drive:
            for work in (
                lambda: slice_recording(drive, out, overwrite=True),  # noqa: B023
                lambda: merge_recordings([drive], out, overwrite=True),  # noqa: B023
                lambda: export_mcap(drive, out, overwrite=True),  # noqa: B023
                lambda: recover(whole, out, overwrite=True),  # noqa: B023
            ):
                with pytest.raises(tl.UsageError, match="it is an input"):
                    work()
    assert whole.read_bytes() == data and names(tmp_path) == ["a.hfr", "hard.hfr"]


def test_recover_says_where_the_original_is_still_being_written(tmp_path: Path) -> None:
    writer = HyperframeWriter(tmp_path / "a.hfr", window=10, lateness=0)
    writer.add_stream("a")
    for n in range(5):
        writer.append("a", n * 20, b"x")
    writer.sync()
    assert recover(writer.part.tmp_path, tmp_path / "now.hfr").still_written
    writer.detach()
    assert not recover(writer.part.tmp_path, tmp_path / "later.hfr").still_written


def test_two_recorders_never_share_a_folder_of_parts(tmp_path: Path) -> None:
    first = Recorder(tmp_path / "drive", split_bytes=1000)
    first.add_stream("a")
    first.write("a", 0, b"x")
    with pytest.raises(tl.UsageError, match=r"another process is writing this file.*drive"):
        Recorder(tmp_path / "drive", split_bytes=1000, overwrite=True)
    assert first.close().frames == 1
    Recorder(tmp_path / "drive", split_bytes=1000, overwrite=True).close()


def test_an_extract_that_fails_leaves_no_folder(pictures: Path, tmp_path: Path) -> None:
    record(tmp_path / "a.hfr")
    tl.pack_images(pictures, tmp_path / "set.dts", level=0, jobs=1)

    def stop(done: int, total: int) -> None:
        if done == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = names(tmp_path)
    runs: list[Callable[..., Any]] = [extract_frames, extract]
    for run in runs:
        with (
            tl.open(tmp_path / ("a.hfr" if run is extract_frames else "set.dts")) as source,
            pytest.raises(OSError, match=r"No space left on device: .*out'"),
        ):
            run(source, tmp_path / "out", progress=stop)
        assert names(tmp_path) == before
    with tl.open_recording(tmp_path / "a.hfr") as drive:
        extract_frames(drive, tmp_path / "out")
    assert (tmp_path / "out" / "recording.json").exists() and names(tmp_path) == sorted([*before, "out"])


def test_new_folders_are_made_durable_and_so_is_what_is_extracted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(
        "trainload.storage.folders.sync_folder", lambda folder: synced.append(os.path.relpath(folder, tmp_path))
    )
    monkeypatch.setattr("trainload.storage.folders.sync_file_system", lambda folder: synced.append("all files"))
    Recorder(tmp_path / "a" / "b" / "drive", split_bytes=1000).close()
    assert synced == [".", "a", "a/b"]
    synced.clear()
    with tl.open_recording(record(tmp_path / "a.hfr")) as drive:
        extract_frames(drive, tmp_path / "out")
    assert synced == ["all files", "."]
