"""ROS 1 and ROS 2 bags: every message that `rosbags` reads, and of damaged bags what can be read, with a count."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest

import trainload as tl
from present import present
from sensor_messages import LATENCY, ROS1, ROS2, TYPES, acquired, cloud, log
from trainload.errors import FormatError, UsageError
from trainload.recordings.exporters.mcap import export_mcap
from trainload.recordings.format.envelopes import Envelope
from trainload.recordings.importers.import_source import import_source
from trainload.recordings.importers.logs.rosbag1.source import Rosbag1Source
from trainload.recordings.importers.logs.rosbag2.source import Rosbag2Source, open_rosbag2
from trainload.recordings.importers.source import SourceFrame, SourceStream

rosbag1 = pytest.importorskip("rosbags.rosbag1")
from rosbags import rosbag2  # noqa: E402


def messages_of(source) -> list[tuple[str, int, bytes]]:
    """(topic, log time, message) as the importer has them."""
    topics: dict[str, str] = {}
    found = []
    for item in source.items():
        if isinstance(item, SourceStream) and item.channel is not None:
            topics[item.name] = source.channels[item.channel].topic
        elif isinstance(item, SourceFrame) and item.wrapping is not None:
            message = Envelope(0, 0, *item.wrapping).message(item.data)
            found.append((topics[item.stream], item.receive_ns, message))
    return found


def by_oracle(reader) -> list[tuple[str, int, bytes]]:
    with reader:
        return [(connection.topic, time, bytes(data)) for connection, time, data in reader.messages()]


def make_bag1(path: Path, compression: str) -> Path:
    writer = rosbag1.Writer(path)
    if compression:
        writer.set_compression(rosbag1.Writer.CompressionFormat[compression])
    with writer:
        connections = {topic: writer.add_connection(topic, name, typestore=ROS1) for topic, name in TYPES.items()}
        for topic, time, _, _, data in log(ROS1):
            writer.write(connections[topic], time, data)
    return path


@pytest.mark.parametrize("compression", ["", "BZ2", "LZ4"])
def test_a_ros1_bag_comes_in_whole(tmp_path, compression):
    path = make_bag1(tmp_path / "drive.bag", compression)
    source = Rosbag1Source(path)
    assert sorted(messages_of(source)) == sorted(by_oracle(rosbag1.Reader(path)))
    assert not source.damage
    import_source(Rosbag1Source(path), tmp_path / "drive.hfr")
    with tl.open_recording(tmp_path / "drive.hfr") as drive:
        assert drive.timestamps("lidar").tolist() == [acquired(k) for k in range(12)]
        assert (present(drive.receive_times("lidar")) - drive.timestamps("lidar") >= LATENCY).all()
        assert np.array_equal(drive.read_at_index("lidar", 4).array()["ring"], cloud(4)["ring"])
        assert drive.read_at_index("odom", 3).array()["position"].tolist() == [[3, 1, 2]]
        assert drive.read_at_index("imu", 3).array()["angular_velocity"].tolist() == [[1, 2, 3]]
        assert drive.read_at_index("gps", 3).array()["latitude"][0] == 48
        assert drive.streams["scan"].clock == "hardware"
        assert drive.streams["note"].clock == "host"
        assert export_mcap(drive, tmp_path / "drive.mcap").restored == 12 * len(TYPES)


FGROSBAG = "shared/data/sensors/ros/fgrosbag/fixtures"
ROSBAG2 = "shared/data/sensors/ros/rosbag2/rosbag2_py/test/resources/sqlite3"


@pytest.mark.parametrize(
    "name",
    [f"logs/{name}.bag" for name in ("plain", "lz4", "bz2")]
    + [f"{FGROSBAG}/{name}.bag" for name in ("example", "example-lz4", "example-bz2")],
)
def test_real_ros1_bags_come_in_whole(at_hand, name):
    path = at_hand(name)
    source = Rosbag1Source(path)
    found = messages_of(source)
    assert sorted(found) == sorted(by_oracle(rosbag1.Reader(path)))
    assert sum(span.frames for span in source.survey().values()) == len(found)
    assert not source.damage


@pytest.mark.parametrize("place", ["logs", FGROSBAG])
def test_a_ros1_bag_without_messages_is_an_empty_recording_and_others_are_refused(at_hand, tmp_path, place):
    folder = at_hand(place)
    assert import_source(Rosbag1Source(folder / "no-messages.bag"), tmp_path / "a.hfr").summary.frames == 0
    for name in ("empty-file.bag", "text.bag" if place == "logs" else "asci-file.txt"):
        with pytest.raises(FormatError):
            list(Rosbag1Source(folder / name).items())


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        *((name, Rosbag1Source) for name in ("plain.bag", "lz4.bag", "bz2.bag")),
        *((name, Rosbag2Source) for name in ("ros2", "ros2-without-definitions")),
    ],
)
def test_the_stored_bags_hold_what_is_written_beside_them(at_hand, kind, source):
    told = json.loads(at_hand("logs/contents.json").read_text())["ros1" if kind.endswith(".bag") else "ros2"]
    found = messages_of(source(at_hand(f"logs/{kind}")))
    facts = [[topic, time, len(data), hashlib.sha256(data).hexdigest()] for topic, time, data in found]
    assert sorted(facts) == sorted(told)


@pytest.mark.parametrize("compression", ["", "BZ2", "LZ4"])
def test_a_ros1_bag_that_is_cut_off_gives_its_first_messages(tmp_path, compression):
    path = make_bag1(tmp_path / "drive.bag", compression)
    every = messages_of(Rosbag1Source(path))
    data = path.read_bytes()
    for share in (0.3, 0.6, 0.9):
        path.write_bytes(data[: int(len(data) * share)])
        source = Rosbag1Source(path)
        found = messages_of(source)
        assert found == every[: len(found)]
        assert source.damage or found == every
        if not compression and share > 0.5:
            assert found


def test_any_damage_to_a_ros1_bag_gives_messages_or_a_format_error(tmp_path):
    path = make_bag1(tmp_path / "drive.bag", "LZ4")
    data = path.read_bytes()
    rng = random.Random(3)
    for _ in range(200):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        path.write_bytes(changed)
        with contextlib.suppress(FormatError):
            list(Rosbag1Source(path).items())


@pytest.mark.parametrize("storage", ["SQLITE3", "MCAP"])
def test_a_ros2_bag_comes_in_whole(tmp_path, storage):
    with rosbag2.Writer(tmp_path / "bag", version=9, storage_plugin=rosbag2.StoragePlugin[storage]) as writer:
        connections = {topic: writer.add_connection(topic, name, typestore=ROS2) for topic, name in TYPES.items()}
        for topic, time, _, _, data in log(ROS2):
            writer.write(connections[topic], time, data)
    source = open_rosbag2(tmp_path / "bag")
    assert sorted(messages_of(source)) == sorted(by_oracle(rosbag2.Reader(tmp_path / "bag")))
    assert not source.damage
    import_source(open_rosbag2(tmp_path / "bag"), tmp_path / "drive.hfr")
    with tl.open_recording(tmp_path / "drive.hfr") as drive:
        assert drive.timestamps("scan").tolist() == [acquired(k) for k in range(12)]
        assert drive.read_at_index("cam/raw", 0).array().shape == (2, 3, 3)


@pytest.mark.parametrize(
    "name",
    ["logs/ros2", "logs/ros2-without-definitions"]
    + [f"{ROSBAG2}/{name}" for name in ("wbag", "talker", "reindex_test_bags/multiple_files", "convert_a")],
)
def test_real_ros2_bags_come_in_whole(at_hand, name):
    folder = at_hand(name)
    source = Rosbag2Source(folder)
    found = messages_of(source)
    assert not source.damage
    assert sum(span.frames for span in source.survey().values()) == len(found) > 0
    rows = []
    for path in sorted(folder.glob("*.db3")):
        bag = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
        rows += bag.execute("SELECT name, timestamp, data FROM messages JOIN topics ON topics.id = topic_id").fetchall()
        bag.close()
    assert sorted(found) == sorted(rows)


@pytest.mark.parametrize("files", [True, False], ids=["files", "relative_file_paths"])
@pytest.mark.parametrize("suffix", [".db3", ".db3.zstd"])
def test_a_split_that_metadata_names_and_that_is_not_there_is_counted(tmp_path, suffix, files):
    names = [f"my bag_{k}{suffix}" for k in range(3)]
    for name in (names[0], names[2]):
        with sqlite3.connect(tmp_path / name.removesuffix(".zstd")) as bag:
            bag.execute("create table topics(id integer primary key, name text, type text, serialization_format text)")
            bag.execute("create table messages(id integer primary key, topic_id integer, timestamp integer, data blob)")
            bag.execute("insert into topics values(1, '/s', 'x', 'cdr')")
            bag.execute("insert into messages values(1, 1, 5, x'00010000')")
        bag.close()
    counts = "".join(f"    - path: {name}\n      message_count: 10\n" for name in names)
    listed = "".join(f"    - {name}\n" for name in names)
    (tmp_path / "metadata.yaml").write_text(
        f"rosbag2_bagfile_information:\n  storage_identifier: sqlite3\n  relative_file_paths:\n{listed}"
        + (f"  files:\n{counts}" if files else "")
    )
    source = open_rosbag2(tmp_path)
    said = " with its 10 messages" if files else ""
    assert source.damage.reasons == [f"{tmp_path}/my bag_1.db3 is not there{said}, though metadata.yaml names it"]
    assert source.damage.frames == (10 if files else 0)
    assert import_source(source, tmp_path / "out.hfr").streams["s"]["frames"] == 2


def test_a_bag_whose_files_have_other_names_is_whole(tmp_path):
    (tmp_path / "drive.mcap").write_bytes(b"\x89MCAP0\r\n")
    (tmp_path / "metadata.yaml").write_text("relative_file_paths:\n  - bag_0.mcap\n")
    assert not open_rosbag2(tmp_path).damage


@pytest.mark.parametrize("name", ["logs/ros2-without-definitions", f"{ROSBAG2}/wbag"])
def test_old_bags_get_standard_definitions_and_say_so(at_hand, name):
    source = Rosbag2Source(at_hand(name))
    list(source.items())
    channel = next(channel for channel in source.channels if channel.type_name == "std_msgs/msg/String")
    assert b"string data" in channel.schema
    assert channel.metadata["definition"] == "by rosbags, not in the bag"


@pytest.mark.parametrize("name", ["logs/ros2/ros2.db3", f"{ROSBAG2}/wbag/wbag_0.db3"])
def test_a_damaged_page_of_a_ros2_bag_costs_its_messages_alone(tmp_path, at_hand, name):
    path = tmp_path / "bag.db3"
    shutil.copyfile(at_hand(name), path)
    path.chmod(0o644)
    every = messages_of(Rosbag2Source(path))
    data = bytearray(path.read_bytes())
    data[4096 * 12 : 4096 * 13] = bytes(4096)
    path.write_bytes(data)
    source = Rosbag2Source(path)
    found = messages_of(source)
    assert set(found) <= set(every)
    assert len(every) > len(found) > len(every) / 2
    assert source.damage.frames > 0


@pytest.mark.parametrize("name", ["logs/ros2/ros2.db3", f"{ROSBAG2}/talker/talker.db3"])
def test_a_ros2_bag_whose_schema_is_damaged_is_counted_as_lost(tmp_path, at_hand, name):
    data = at_hand(name).read_bytes()
    path = tmp_path / "bag.db3"
    path.write_bytes(data.replace(b"CREATE TABLE messages", b"CREATE\xff\xff\xffBLE messages"))
    report = import_source(Rosbag2Source(path), tmp_path / "drive.hfr")
    assert report.summary.frames == 0
    assert report.damage


def test_a_foreign_file_among_splits_is_counted_and_the_others_are_read(tmp_path):
    make_bag1(tmp_path / "drive_0.bag", "")
    (tmp_path / "drive_1.bag").write_bytes(b"")
    make_bag1(tmp_path / "drive_2.bag", "LZ4")
    source = Rosbag1Source(tmp_path)
    assert len(messages_of(source)) == 2 * 12 * len(TYPES)
    assert "drive_1.bag" in source.damage.reasons[0]


def test_bags_compressed_by_a_plugin_are_refused_with_what_to_do(tmp_path):
    (tmp_path / "bag").mkdir()
    (tmp_path / "bag" / "bag_0.db3.lz4").write_bytes(b"")
    with pytest.raises(UsageError, match="unpack"):
        open_rosbag2(tmp_path / "bag")
