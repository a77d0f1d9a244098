"""Killed programs and lost power: what a recording acknowledged comes back, and nothing else does."""

from __future__ import annotations

import os
import random
import select
import signal
import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path

import pytest

from faulty_file import VolatileFile
from opened_recording import OpenedRecording
from trainload import FormatError
from trainload.recordings.format.records import WindowRecord
from trainload.recordings.recovering.recover import recover
from trainload.recordings.writing import index_runs, spool
from trainload.recordings.writing.recorder import Recorder
from trainload.recordings.writing.writer import HyperframeWriter

MS = 1_000_000
KILLS = 200
RATES = (("cam", 7), ("lidar", 3), ("imu", 1))  # frame n of a stream has the time n * period ms


def payload(name: str, number: int) -> bytes:
    """What frame `number` of a stream holds; a frame with other bytes was invented."""
    seed = f"{name} {number} ".encode()
    return (seed * 100)[: {"cam": 700, "lidar": 333, "imu": 24}[name]]


def record_until_killed(path: Path, acknowledge: int, *, short_runs: bool) -> None:
    """The child: records as fast as it can, and tells through a pipe how many windows it was told are safe.

    short_runs: its index goes into the file without a name from the first windows on.
    """
    if short_runs:
        index_runs.RUN_FRAMES, spool.KEPT_BYTES = 20, 100
    recorder = Recorder(
        path,
        window="20ms",
        lateness="5ms",
        sync_every="2ms",
        queue_bytes=20_000,
        on_commit=lambda windows, _: os.write(acknowledge, windows.to_bytes(4, "little")) and None,  # type: ignore[arg-type]
    )
    for name, period in RATES:
        recorder.add_stream(name, codec="lz4" if name == "lidar" else "none", rate_hz=1000 / period)
    for tick in range(10_000_000):
        for name, period in RATES:
            if tick % period == 0:
                recorder.write(name, tick * MS, payload(name, tick // period), stream_index=tick // period)


def kill_a_recording(path: Path, delay_s: float, *, early: bool, short_runs: bool) -> int:
    """Run the child for `delay_s` from its first sign of life, kill it; the number of windows it acknowledged.

    A sign of life is the file, or, for every run but each fourth, the first acknowledgement.
    """
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read_end)
            record_until_killed(path, write_end, short_runs=short_runs)
        finally:
            os._exit(1)
    os.close(write_end)
    while not path.with_name(path.name + ".tmp").exists():
        time.sleep(0.0005)
    if not early:
        select.select([read_end], [], [], 5)
    time.sleep(delay_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    acknowledged = 0
    with os.fdopen(read_end, "rb") as pipe:
        while len(told := pipe.read(4)) == 4:
            acknowledged = int.from_bytes(told, "little")
    return acknowledged


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_200_moments_every_acknowledged_window_comes_back(tmp_path: Path) -> None:
    rng = random.Random(4)
    acknowledged_in_all = 0
    for run in range(KILLS):
        path = tmp_path / f"{run}.hfr"
        acknowledged = kill_a_recording(path, rng.random() * 0.04, early=run % 4 == 0, short_runs=run % 2 == 1)
        acknowledged_in_all += acknowledged
        unfinished = path.with_name(path.name + ".tmp")
        try:
            report = recover(unfinished, path)
        except FormatError:
            assert acknowledged == 0
        else:
            assert report.windows - report.partial_windows >= acknowledged
            check_recovered(path, torn=report.partial_windows)
            path.unlink()
        unfinished.unlink()
    assert acknowledged_in_all > KILLS
    assert list(tmp_path.iterdir()) == []


def check_recovered(path: Path, *, torn: int) -> None:
    """The frames are the first ones that the child wrote, byte for byte; a window torn by the kill may lack some."""
    file = OpenedRecording(path)
    windows = [one.entries for one in file.records if isinstance(one, WindowRecord) and not one.last]
    assert torn <= 1
    whole = [row for entries in windows[: len(windows) - torn] for row in entries.tolist()]
    written = arrivals()
    assert sorted(row[:1] + row[2:4] for row in whole) == sorted(frame[:3] for frame in islice(written, len(whole)))
    for stream, (name, period) in enumerate(RATES):
        for row, (timestamp, data) in zip(file.rows(name), file.frames(name)):
            assert (row[0], timestamp, data) == (stream, row[2] * period * MS, payload(name, row[2]))


def arrivals() -> Iterator[tuple[int, int, int]]:
    """(stream, index, timestamp) of every frame of the child, in the order of writing."""
    for tick in count():
        for stream, (_, period) in enumerate(RATES):
            if tick % period == 0:
                yield stream, tick // period, tick * MS


@pytest.mark.parametrize("seed", range(40))
def test_a_power_cut_takes_no_window_that_was_synced(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    files: list[VolatileFile] = []

    def open_file(path: Path) -> VolatileFile:
        files.append(VolatileFile(path))
        return files[0]

    writer = HyperframeWriter(tmp_path / "a.hfr", window=100, lateness=0, open_file=open_file)
    writer.add_stream("a", codec="lz4")
    sizes = [rng.choice((10, 500, 9000)) for _ in range(rng.randint(2, 60))]
    safe = 0
    for n, size in enumerate(sizes):
        writer.append("a", n * 60, rng.randbytes(size // 2) + bytes(size // 2))
        if rng.random() < 0.1:
            safe = writer.sync()
    told = [(n * 60, size) for n, size in enumerate(sizes)]
    if rng.random() < 0.3:
        writer.flush()  # and the cut comes before the index is written
    (tmp_path / "cut").write_bytes(files[0].after_power_cut(rng))
    writer.detach()
    try:
        report = recover(tmp_path / "cut", tmp_path / "b.hfr")
    except FormatError:
        assert safe == 0
        return
    after = OpenedRecording(tmp_path / "b.hfr")
    found = [(time, len(data)) for time, data in after.frames("a")]
    assert report.windows >= safe and set(found) <= set(told)
    assert found[: 2 * safe] == told[: 2 * safe]
