"""ROS 2 bags that rosbag2 compressed come in as if they were plain; truncated ones as far as they unpack."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
from pathlib import Path

import pytest

import trainload as tl
from sensor_messages import ROS2, TYPES, acquired, log
from test_import_rosbags import by_oracle, messages_of
from trainload.codecs.compression import zstd_compress, zstd_file
from trainload.errors import FormatError
from trainload.recordings.importers.formats import open_source
from trainload.recordings.importers.import_source import import_source
from trainload.recordings.importers.logs.mcap.source import McapSource
from trainload.recordings.importers.logs.plain_files import PREFIX
from trainload.recordings.importers.logs.rosbag2.metadata import BagMetadata
from trainload.recordings.importers.logs.rosbag2.source import Rosbag2Source, open_rosbag2

rosbag2 = pytest.importorskip("rosbags.rosbag2")
MODES = [("SQLITE3", "FILE"), ("SQLITE3", "MESSAGE"), ("MCAP", "FILE"), ("MCAP", "MESSAGE"), ("MCAP", "STORAGE")]


def make_bag(path: Path, storage: str, mode: str, count: int = 12) -> Path:
    writer = rosbag2.Writer(path, version=9, storage_plugin=rosbag2.StoragePlugin[storage])
    writer.set_compression(rosbag2.CompressionMode[mode], rosbag2.CompressionFormat.ZSTD)
    with writer:
        connections = {topic: writer.add_connection(topic, name, typestore=ROS2) for topic, name in TYPES.items()}
        for topic, time, _, _, data in log(ROS2, count):
            writer.write(connections[topic], time, data)
    return path


def make_large_bag(path: Path, storage: str) -> list[tuple[str, int, bytes]]:
    """A compressed file of 1.2 MB of noise; its messages."""
    rng = random.Random(5)
    rows = [("/note", acquired(k), b"\0\1\0\0" + rng.randbytes(4000)) for k in range(300)]
    writer = rosbag2.Writer(path, version=9, storage_plugin=rosbag2.StoragePlugin[storage])
    writer.set_compression(rosbag2.CompressionMode.FILE, rosbag2.CompressionFormat.ZSTD)
    with writer:
        connection = writer.add_connection("/note", TYPES["/note"], typestore=ROS2)
        for _, time, data in rows:
            writer.write(connection, time, data)
    return rows


def expected(count: int = 12) -> list[tuple[str, int, bytes]]:
    return [(topic, time, data) for topic, time, _, _, data in log(ROS2, count)]


@pytest.mark.parametrize(("storage", "mode"), MODES)
def test_a_compressed_bag_comes_in_whole(tmp_path, storage, mode):
    bag = make_bag(tmp_path / "bag", storage, mode)
    source = open_rosbag2(bag)
    found = sorted(messages_of(source))
    assert found == sorted(expected()) == sorted(by_oracle(rosbag2.Reader(bag)))
    assert not source.damage
    assert not source.notes
    import_source(open_rosbag2(bag), tmp_path / "drive.hfr")
    with tl.open_recording(tmp_path / "drive.hfr") as drive:
        assert drive.timestamps("lidar").tolist() == [acquired(k) for k in range(12)]
        assert drive.read_at_index("cam/raw", 0).array().shape == (2, 3, 3)


@pytest.mark.parametrize(("storage", "mode"), MODES)
@pytest.mark.parametrize("says", ["", "nonsense: [", "compression_mode: FILE", "compression_mode: none"])
def test_metadata_that_is_absent_or_lies_changes_nothing(tmp_path, storage, mode, says):
    bag = make_bag(tmp_path / "bag", storage, mode, 3)
    (bag / "metadata.yaml").unlink()
    if says:
        text = f"rosbag2_bagfile_information:\n  storage_identifier: mcap\n  compression_format: zstd\n  {says}\n"
        (bag / "metadata.yaml").write_text(text)
    source = open_rosbag2(bag)
    assert sorted(messages_of(source)) == sorted(expected(3))
    assert not source.damage


def test_metadata_that_calls_plain_messages_compressed_changes_nothing(tmp_path):
    bag = make_bag(tmp_path / "bag", "SQLITE3", "NONE", 3)
    text = (bag / "metadata.yaml").read_text().replace("compression_mode: ''", "compression_mode: MESSAGE")
    (bag / "metadata.yaml").write_text(text)
    assert BagMetadata.of(bag).mode == "message"
    source = open_rosbag2(bag)
    assert sorted(messages_of(source)) == sorted(expected(3))
    assert not source.damage


@pytest.mark.parametrize("storage", ["SQLITE3", "MCAP"])
def test_one_file_of_a_bag_needs_no_folder(tmp_path, storage):
    bag = make_bag(tmp_path / "bag", storage, "FILE", 3)
    [packed] = bag.glob("*.zstd")
    path = shutil.move(packed, tmp_path / "recording")
    assert sorted(messages_of(open_rosbag2(path))) == sorted(expected(3))


def test_splits_come_in_their_order_whether_compressed_or_not(tmp_path):
    bag = tmp_path / "bag"
    bag.mkdir()
    for number in range(11):
        made = make_bag(tmp_path / f"one{number}", "SQLITE3", "FILE" if number % 3 else "NONE", 1 + number)
        [file] = made.glob("*.db3*")
        shutil.move(file, bag / f"bag_{number}{''.join(file.suffixes)}")
    shutil.copy(bag / "bag_3.db3", bag / "spare")
    (bag / "bag_3.db3.zstd").write_bytes(zstd_compress((bag / "spare").read_bytes()[:5000]))  # a recorder died here
    found = messages_of(open_rosbag2(bag))
    assert found == [row for number in range(11) for row in expected(1 + number)]


def test_a_truncated_file_gives_its_first_messages_and_a_count(tmp_path):
    bag = make_bag(tmp_path / "bag", "SQLITE3", "FILE", 200)
    [path] = bag.glob("*.zstd")
    packed, every = path.read_bytes(), expected(200)
    for share in (0.35, 0.6, 0.9):
        path.write_bytes(packed[: int(len(packed) * share)])
        source = open_rosbag2(bag)
        found = messages_of(source)
        assert found == every[: len(found)]
        assert source.damage.frames == len(every) - len(found)
        assert len(found) > 100 * share
        (bag / "metadata.yaml").rename(tmp_path / "metadata.yaml")
        without = open_rosbag2(bag)
        assert messages_of(without) == found
        assert without.damage
        (tmp_path / "metadata.yaml").rename(bag / "metadata.yaml")


def test_a_damaged_file_gives_what_unpacks_before_the_damage(tmp_path):
    bag = tmp_path / "bag"
    every = make_large_bag(bag, "SQLITE3")
    [path] = bag.glob("*.zstd")
    with path.open("rb") as packed:
        plain = zstd_file(packed).read()
    frames = [zstd_compress(plain[place : place + 100_000]) for place in range(0, len(plain), 100_000)]
    path.write_bytes(b"".join(frames))
    assert messages_of(open_rosbag2(bag)) == every
    path.write_bytes(b"".join(frames[:9]) + bytes(50) + b"".join(frames[10:]))
    source = open_rosbag2(bag)
    found = messages_of(source)
    assert 150 < len(found) < len(every)
    assert found == every[: len(found)]
    assert source.damage.frames == len(every) - len(found)
    assert "unpacked to byte" in source.damage.reasons[0]
    assert source.damage.bytes > 0


def test_a_truncated_mcap_split_gives_its_first_messages(tmp_path):
    bag = tmp_path / "bag"
    every = make_large_bag(bag, "MCAP")
    [path] = bag.glob("*.zstd")
    packed = path.read_bytes()
    path.write_bytes(packed[: len(packed) * 3 // 4])
    source = open_rosbag2(bag)
    found = messages_of(source)
    assert found == every[: len(found)]
    assert 0 < len(found) < len(every)
    assert source.damage


@pytest.mark.parametrize("storage", ["SQLITE3", "MCAP"])
def test_temporary_files_go_whatever_happens(tmp_path, storage):
    bag, scratch = make_bag(tmp_path / "bag", storage, "FILE", 3), tmp_path / "scratch"
    scratch.mkdir()
    left = lambda: sorted(scratch.iterdir())  # noqa: E731

    source = open_rosbag2(bag, scratch=scratch)
    source.survey()
    assert [path.name.startswith(PREFIX) for path in left()] == [True]
    items = source.items()
    next(items)
    assert len(left()) == 1
    items.close()  # type: ignore[attr-defined]
    assert left() == []

    list(source.items())
    assert left() == []

    source.survey()
    del source, items
    assert left() == []


def test_no_temporary_file_stays_after_an_error(tmp_path, monkeypatch):
    bag, scratch = make_bag(tmp_path / "bag", "SQLITE3", "FILE", 3), tmp_path / "scratch"
    scratch.mkdir()
    [path] = bag.glob("*.zstd")
    path.write_bytes(zstd_compress(b"no database" * 1000))
    with pytest.raises(FormatError):
        list(Rosbag2Source(path, scratch=scratch).items())
    assert list(scratch.iterdir()) == []

    begun = []

    def full(stored):
        begun.extend(scratch.iterdir())
        if begun:  # not where only the head is looked at
            raise OSError(28, "No space left on device")
        return zstd_file(stored)

    monkeypatch.setattr("trainload.recordings.importers.logs.plain_files.zstd_file", full)
    with pytest.raises(OSError, match="No space"):
        list(Rosbag2Source(path, scratch=scratch).items())
    assert [each.name.startswith(PREFIX) for each in begun] == [True]
    assert list(scratch.iterdir()) == []


def test_the_temporary_file_lies_beside_the_output_and_a_bag_of_one_file_is_unpacked_once(tmp_path, monkeypatch):
    bag, out = make_bag(tmp_path / "bag", "SQLITE3", "FILE", 12), tmp_path / "out"
    out.mkdir()
    seen = []

    class Watched:  # looks into the folder when a file is unpacked to its end
        def __init__(self, stored):
            self.stream = zstd_file(stored)

        def read(self, size):
            block = self.stream.read(size)
            if not block:
                seen.extend(out.iterdir())
            return block

    monkeypatch.setattr("trainload.recordings.importers.logs.plain_files.zstd_file", Watched)
    import_source(open_source("rosbag2", bag, scratch=out), out / "drive.hfr")
    assert [path.name.startswith(PREFIX) for path in seen] == [True]
    assert [path.name for path in out.iterdir()] == ["drive.hfr"]


@pytest.mark.parametrize("storage", ["SQLITE3", "MCAP"])
def test_a_message_that_does_not_unpack_is_kept_as_it_is(tmp_path, storage):
    bag = make_bag(tmp_path / "bag", storage, "NONE", 2)
    [path] = bag.glob("*.db3" if storage == "SQLITE3" else "*.mcap")
    frame = zstd_compress(b"\0\1\0\0" + bytes(300))
    broken = frame[:-9]
    if storage == "SQLITE3":
        with sqlite3.connect(path) as edited:
            edited.execute("UPDATE messages SET data = ? WHERE id = 3", (broken,))
        edited.close()
    else:
        shutil.rmtree(bag)
        writer = rosbag2.Writer(bag, version=9, storage_plugin=rosbag2.StoragePlugin.MCAP)
        with writer:
            writer.write(writer.add_connection("/lidar", TYPES["/lidar"], typestore=ROS2), acquired(0), broken)
    source = open_rosbag2(bag)
    found = messages_of(source)
    assert ("/lidar", broken) in [(topic, data) for topic, _, data in found]
    assert "kept compressed" in source.damage.reasons[0]
    assert source.damage.frames == 0


def test_a_claimed_size_above_the_limit_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("trainload.recordings.importers.logs.topics.MAX_MESSAGE_BYTES", 1000)
    bag = tmp_path / "bag"
    writer = rosbag2.Writer(bag, version=9, storage_plugin=rosbag2.StoragePlugin.MCAP)
    with writer:
        writer.write(
            writer.add_connection("/note", TYPES["/note"], typestore=ROS2), acquired(0), zstd_compress(bytes(5000))
        )
    source = McapSource(bag)
    [(_, _, data)] = messages_of(source)
    assert data == zstd_compress(bytes(5000))
    assert source.damage


def test_another_compression_is_named(tmp_path):
    bag = make_bag(tmp_path / "bag", "SQLITE3", "NONE", 1)
    text = (bag / "metadata.yaml").read_text()
    text = text.replace("compression_mode: ''", "compression_mode: message")
    (bag / "metadata.yaml").write_text(text.replace("compression_format: ''", "compression_format: lz4"))
    assert "lz4" in open_rosbag2(bag).notes[0]


@pytest.mark.parametrize(("storage", "mode"), MODES)
def test_any_damage_to_a_compressed_bag_gives_messages_or_a_format_error(tmp_path, storage, mode):
    bag, scratch = make_bag(tmp_path / "bag", storage, mode, 3), tmp_path / "scratch"
    scratch.mkdir()
    [path] = [path for path in bag.iterdir() if path.name != "metadata.yaml"]
    whole, rng = path.read_bytes(), random.Random(2)
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path.write_bytes(damaged[: rng.randrange(len(whole))] if rng.random() < 0.3 else damaged)
        with contextlib.suppress(FormatError):
            list(open_rosbag2(bag, scratch=scratch).items())
        assert list(scratch.iterdir()) == []
