"""What an importer holds does not grow with its log: tracemalloc's peak over reading, for each kind of log."""

from __future__ import annotations

import sqlite3
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sensor_messages import ROS1, ROS2, TYPES
from trainload.codecs.compression import zstd_compress
from trainload.recordings.importers.logs.channel_numbers import MAX_UNDESCRIBED
from trainload.recordings.importers.logs.mcap.source import McapSource
from trainload.recordings.importers.logs.rosbag1.source import Rosbag1Source
from trainload.recordings.importers.logs.rosbag2.source import open_rosbag2
from trainload.recordings.importers.source import Source

mcap_writer = pytest.importorskip("mcap.writer")
rosbag1 = pytest.importorskip("rosbags.rosbag1")
from rosbags import rosbag2  # noqa: E402

SMALL, LARGE = 1_000, 10_000
MESSAGE = b"\0\1\0\0\x04\0\0\0abc\0" + bytes(88)


def mcap(path: Path, count: int, *, cut: bool = False, **options) -> Source:
    with path.open("wb") as file:
        writer = mcap_writer.Writer(file, chunk_size=2000, compression=mcap_writer.CompressionType.NONE, **options)
        writer.start()
        channel = writer.register_channel("/note", "cdr", 0)
        for k in range(count):
            writer.add_message(channel, k, MESSAGE, k, k)
        writer.finish()
    if cut:
        path.write_bytes(path.read_bytes()[:-40])
    return McapSource(path)


def mcap_with_holes(path: Path, count: int) -> Source:
    mcap(path, count)
    data = bytearray(path.read_bytes()[:-40])
    for place in range(5000, len(data) - 100, 5000):
        data[place : place + 50] = b"\xa5" * 50
    path.write_bytes(data)
    return McapSource(path)


def bag1(path: Path, count: int) -> Source:
    writer = rosbag1.Writer(path)
    writer.chunk_threshold = 2000
    with writer:
        connection = writer.add_connection("/note", TYPES["/note"], typestore=ROS1)
        for k in range(count):
            writer.write(connection, k, MESSAGE)
    return Rosbag1Source(path)


def bag2(path: Path, count: int, mode: str = "NONE") -> Source:
    writer = rosbag2.Writer(path, version=9)
    writer.set_compression(rosbag2.CompressionMode[mode], rosbag2.CompressionFormat.ZSTD)
    with writer:
        connection = writer.add_connection("/note", TYPES["/note"], typestore=ROS2)
        for k in range(count):
            writer.write(connection, k, MESSAGE)
    return open_rosbag2(path)


def bag2_with_holes(path: Path, count: int) -> Source:
    bag2(path, count)
    [file] = path.glob("*.db3")
    data = bytearray(file.read_bytes())
    for place in range(4096 * 40, len(data) - 4096, 4096 * 20):
        data[place : place + 4096] = bytes(4096)
    file.write_bytes(data)
    return open_rosbag2(path)


def bag2_of_nonsense(path: Path, count: int) -> Source:
    """Every message is of another topic, which is not described."""
    bag2(path, count)
    [file] = path.glob("*.db3")
    with sqlite3.connect(file) as edited:
        edited.execute("UPDATE messages SET topic_id = id + 10")
    edited.close()
    return open_rosbag2(path)


CASES: dict[str, Callable[[Path, int], Source]] = {
    "mcap": mcap,
    "mcap, cut off": lambda path, count: mcap(path, count, cut=True),
    "mcap without chunks": lambda path, count: mcap(path, count, use_chunking=False),
    "mcap with holes": mcap_with_holes,
    "ROS 1": bag1,
    "ROS 2": bag2,
    "ROS 2, file compressed": lambda path, count: bag2(path, count, "FILE"),
    "ROS 2, messages compressed": lambda path, count: bag2(path, count, "MESSAGE"),
    "ROS 2 with holes": bag2_with_holes,
}


def peak(source: Source) -> tuple[int, int]:
    """Bytes that survey and reading held at most, and how many frames came."""
    tracemalloc.start()
    try:
        source.survey()
        frames = sum(1 for _ in source.items())
        return tracemalloc.get_traced_memory()[1], frames
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_ten_times_the_messages_need_no_more_memory(tmp_path, case):
    CASES[case](tmp_path / "warm", 50).survey()  # what the first use of a format imports is no memory of the log
    list(CASES[case](tmp_path / "warmer", 50).items())
    small, few = peak(CASES[case](tmp_path / "small", SMALL))
    large, many = peak(CASES[case](tmp_path / "large", LARGE))
    assert many > 8 * few
    assert large < small + 100_000  # 9,000 messages more: not 12 bytes for each


def test_numbers_that_nothing_describes_do_not_become_ever_more_streams(tmp_path):
    source = bag2_of_nonsense(tmp_path / "bag", 1000)
    frames = [item for item in source.items() if hasattr(item, "wrapping")]
    assert len(frames) == 1000
    assert len({frame.stream for frame in frames}) == MAX_UNDESCRIBED + 1  # type: ignore[union-attr]
    assert len(source.channels) == MAX_UNDESCRIBED + 2


def attachments(size: int, count: int) -> Iterator[bytes]:
    for _ in range(count):
        content = struct.pack("<QQI", 5, 5, 1) + b"a" + struct.pack("<IQ", 0, size) + bytes(size) + bytes(4)
        yield struct.pack("<BQ", 9, len(content)) + content


def test_attachments_before_the_first_message_do_not_pile_up(tmp_path):
    peaks = {}
    for count in (30, 90):
        path = tmp_path / f"{count}.mcap"
        with path.open("wb") as file:
            file.write(b"\x89MCAP0\r\n" + struct.pack("<BQ", 1, 8) + bytes(8))
            file.writelines(attachments(1 << 20, count))
            file.write(struct.pack("<BQI", 15, 4, 0))
        source = McapSource(path)
        tracemalloc.start()
        items = source.items()
        assert [item.timestamp_ns for item in items if hasattr(item, "timestamp_ns")] == [5] * count
        peaks[count] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peaks[90] < peaks[30] + (4 << 20)


def test_a_message_bomb_does_not_unpack_beyond_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("trainload.recordings.importers.logs.topics.MAX_MESSAGE_BYTES", 1 << 20)
    path = tmp_path / "bag"
    writer = rosbag2.Writer(path, version=9)
    with writer:
        connection = writer.add_connection("/note", TYPES["/note"], typestore=ROS2)
        for k in range(3):
            writer.write(connection, k, zstd_compress(bytes(64 << 20)))
    source = open_rosbag2(path)
    tracemalloc.start()
    assert sum(1 for _ in source.items()) == 4
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()
    assert len(source.damage.reasons) == 3
