"""MCAP logs come in without loss and go out again byte for byte; damaged ones give what can be read, and a count."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import trainload as tl
from present import present
from sensor_messages import ACQUIRED, LATENCY, ROS2, TYPES, S, acquired, cloud, log
from trainload.errors import FormatError
from trainload.recordings.exporters.mcap import export_mcap
from trainload.recordings.format.envelopes import Envelope
from trainload.recordings.importers.import_source import import_source
from trainload.recordings.importers.logs.mcap.source import McapSource
from trainload.recordings.importers.source import SourceFrame

mcap_writer = pytest.importorskip("mcap.writer")
from mcap.reader import make_reader  # noqa: E402

COMPRESSIONS = ("NONE", "LZ4", "ZSTD")


def write_log(path: Path, *, compression: str = "ZSTD", count: int = 12, chunk_size: int = 3000) -> Path:
    with path.open("wb") as file:
        kind = mcap_writer.CompressionType[compression]
        writer = mcap_writer.Writer(file, compression=kind, chunk_size=chunk_size)
        writer.start("ros2", "test")
        writer.add_metadata("drive", {"city": "Karlsruhe"})
        channels = {}
        for topic, name in TYPES.items():
            schema = writer.register_schema(name, "ros2msg", ROS2.generate_msgdef(name)[0].encode())
            channels[topic] = writer.register_channel(topic, "cdr", schema, {"qos": "reliable"})
        for topic, log_ns, publish_ns, sequence, data in log(ROS2, count):
            writer.add_message(channels[topic], log_ns, data, publish_ns, sequence)
        writer.add_attachment(ACQUIRED, ACQUIRED, "calibration.yaml", "text/yaml", b"k: 1")
        writer.finish()
    return path


def contents(path: Path) -> list[tuple[Any, ...]]:
    with path.open("rb") as file:
        reader = make_reader(file)
        found: list[tuple[Any, ...]] = [
            (
                s and (s.name, s.encoding, s.data),
                c.topic,
                c.message_encoding,
                c.metadata,
                m.log_time,
                m.publish_time,
                m.sequence,
                m.data,
            )
            for s, c, m in reader.iter_messages(log_time_order=False)
        ]
        found += [(a.name, a.media_type, a.log_time, a.create_time, a.data) for a in reader.iter_attachments()]
        found += [(m.name, m.metadata) for m in reader.iter_metadata()]
    return found


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_log_goes_through_a_recording_and_comes_out_equal(tmp_path, compression):
    source = write_log(tmp_path / "log.mcap", compression=compression)
    report = import_source(McapSource(source), tmp_path / "drive.hfr", codec="zstd")
    assert not report.damage
    with tl.open_recording(tmp_path / "drive.hfr") as drive:
        made = export_mcap(drive, tmp_path / "again.mcap", compression=compression.lower())
    assert contents(tmp_path / "again.mcap") == contents(source)
    assert made.restored == made.messages == 12 * len(TYPES)


@pytest.fixture(scope="module")
def drive_path(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("mcap")
    import_source(McapSource(write_log(folder / "log.mcap")), folder / "drive.hfr")
    return folder / "drive.hfr"


def test_sensor_messages_become_arrays(drive_path):
    with tl.open_recording(drive_path) as drive:
        picture = drive.read_at_index("cam/raw", 3)
        assert np.array_equal(picture.array(), (np.arange(18) + 3).astype(np.uint8).reshape(2, 3, 3))
        assert picture.info.encoding == "bgr8"
        jpeg = drive.read_at_index("cam/jpeg", 4)
        assert (jpeg.info.encoding, bytes(jpeg.data)) == ("jpeg", b"\xff\xd8" + b"\x04" * 7)
        points = drive.read_at_index("lidar", 5).array()
        for name in ("x", "y", "z", "ring"):
            assert np.array_equal(points[name], cloud(5)[name])
        imu = drive.read_at_index("imu", 6).array()
        assert imu["angular_velocity"].tolist() == [[1, 2, 6]]
        assert imu["linear_acceleration_covariance"][0, 8] == 9
        fix = drive.read_at_index("gps", 7).array()
        assert (fix["longitude"][0], fix["status"][0], fix["service"][0]) == (18, -1, 5)
        odometry = drive.read_at_index("odom", 8).array()
        assert odometry["position"].tolist() == [[8, 1, 2]]
        assert odometry["twist_covariance"][0, 35] == 35


def test_acquisition_and_receive_time_are_kept_apart_and_the_clock_is_stated(drive_path):
    with tl.open_recording(drive_path) as drive:
        for name in ("lidar", "cam/jpeg", "scan"):  # scan: a type that is not known, but has a Header
            assert drive.timestamps(name).tolist() == [acquired(k) for k in range(12)]
            late = present(drive.receive_times(name)) - drive.timestamps(name)
            assert (late // 1000 == LATENCY // 1000).all()
            assert drive.streams[name].clock == "hardware"
        assert drive.streams["note"].clock == "host"
        assert (drive.timestamps("note") == drive.receive_times("note")).all()
        facts = drive.meta["import"]["streams"]
        assert facts["lidar"]["time_source"] == "stamp in the message"
        assert facts["note"]["time_source"] == "log time"


def test_an_imported_log_is_aligned_by_its_acquisition_times(drive_path):
    with tl.open_recording(drive_path) as drive:
        pairs = tl.align(drive, to="lidar", using={"cam/jpeg": tl.Nearest(), "imu": tl.Interpolate(max_gap="150ms")})
        camera, imu = pairs.report().streams
        assert camera.max_ns == 0
        assert present(camera.latency).p50_ns == pytest.approx(LATENCY, abs=100)
        assert imu.unmatched == 0
        assert pairs.values("imu")["orientation"].shape == (12, 4)


def test_unknown_types_stay_whole_with_their_schema(drive_path):
    with tl.open_recording(drive_path) as drive:
        frame = drive.read_at_index("note", 2)
        assert ROS2.deserialize_cdr(bytes(frame.data), "std_msgs/msg/String").data == "note 2"  # type: ignore[attr-defined]
        channel = drive.meta["import"]["channels"][drive.meta["import"]["streams"]["note"]["channel"]]
        assert (channel["type"], channel["schema_encoding"]) == ("std_msgs/msg/String", "ros2msg")
        assert "string data" in channel["schema"]


def test_the_user_can_say_what_stamped_a_topic_and_that_log_times_count(tmp_path):
    path = write_log(tmp_path / "log.mcap", count=2)
    import_source(McapSource(path, clocks={"/imu": "host"}), tmp_path / "a.hfr")
    import_source(McapSource(path, times="log"), tmp_path / "b.hfr")
    with tl.open_recording(tmp_path / "a.hfr") as drive:
        assert drive.streams["imu"].clock == "host"
        assert drive.timestamps("imu")[0] == acquired(0)
    with tl.open_recording(tmp_path / "b.hfr") as drive:
        assert {info.clock for info in drive.streams.values()} == {"host"}
        assert (drive.timestamps("imu") == drive.receive_times("imu")).all()
        export_mcap(drive, tmp_path / "b.mcap")
    assert contents(tmp_path / "b.mcap") == contents(path)


def messages_of(path: Path) -> tuple[list[bytes], McapSource]:
    source = McapSource(path)
    frames = [item for item in source.items() if isinstance(item, SourceFrame) and item.wrapping is not None]
    return [Envelope(0, 0, *present(frame.wrapping)).message(frame.data) for frame in frames], source


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_log_that_is_cut_off_gives_its_first_messages(tmp_path, compression):
    whole = write_log(tmp_path / "log.mcap", compression=compression, chunk_size=1 << 20)
    every, _ = messages_of(whole)
    data = whole.read_bytes()
    for share in (0.2, 0.5, 0.8):
        (tmp_path / "cut.mcap").write_bytes(data[: int(len(data) * share)])
        found, source = messages_of(tmp_path / "cut.mcap")
        assert found == every[: len(found)]
        assert source.damage or found == every  # a cut through the index alone loses nothing
        if compression == "NONE" and share > 0.2:
            assert len(found) > 10


def test_a_chunk_whose_checksum_fails_is_counted_and_the_rest_is_read(tmp_path):
    path = write_log(tmp_path / "log.mcap", compression="NONE")
    every, _ = messages_of(path)
    data = bytearray(path.read_bytes())
    data[data.find(b"note 5")] ^= 1
    path.write_bytes(data)
    found, source = messages_of(path)
    assert 0 < len(found) < len(every)
    assert source.damage.frames == len(every) - len(found)
    assert "CRC" in source.damage.reasons[0]


@pytest.mark.parametrize("with_index", [True, False])
def test_garbage_in_the_middle_is_skipped_to_the_next_chunk(tmp_path, with_index):
    path = write_log(tmp_path / "log.mcap", compression="LZ4")
    every, _ = messages_of(path)
    data = path.read_bytes()
    place = data.find(b"\x03\0\0\0lz4") - 37
    broken = data[:place] + b"\0" * 3000 + data[place + 3000 :]
    path.write_bytes(broken if with_index else broken[:-40])
    found, source = messages_of(path)
    assert len(every) / 3 < len(found) < len(every)
    assert all(message in every for message in found)
    assert source.damage.bytes > 0


def test_any_damage_gives_messages_or_a_format_error(tmp_path):
    data = write_log(tmp_path / "log.mcap", count=3).read_bytes()
    rng = random.Random(7)
    path = tmp_path / "bad.mcap"
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            changed[rng.randrange(len(changed))] = rng.choice((0, 1, 0x7F, 0xFF, rng.randrange(256)))
        path.write_bytes(changed[: rng.randint(1, len(changed))] if rng.random() < 0.3 else changed)
        try:
            for item in McapSource(path).items():
                assert item is not None
            McapSource(path).survey()
        except FormatError:
            pass


@pytest.mark.parametrize(
    ("name", "frames", "streams", "window"),
    [
        ("logs/splits", 8 * 40 + 4, 9, "100ms"),  # with two metadata records and two attachments
        ("shared/data/sensors/ros/rosbag2/rosbag2_py/test/resources/mcap/wbag", 6074, 8, "1us"),
    ],
)
def test_splits_of_one_log_are_one_recording(tmp_path, at_hand, name, frames, streams, window):
    report = import_source(McapSource(at_hand(name)), tmp_path / "drive.hfr", window=window)
    assert sum(facts["frames"] for facts in report.streams.values()) == frames
    assert len(report.streams) == streams


@pytest.mark.parametrize(
    "name",
    [
        "logs/zstd.mcap",
        "logs/plain.mcap",
        "shared/data/sensors/ros/nav2_turtlebot.mcap",
        "shared/data/sensors/ros/rosbag2/rosbag2_cpp/test/rosbag2_cpp/bags/topics_and_services.mcap",
        "shared/data/sensors/ros/rosbag2/rosbag2_tests/resources/mcap/wrong_rmw_test/wrong_rmw_test_0.mcap",
    ],
)
def test_real_logs_come_out_equal(tmp_path, at_hand, name):
    path = at_hand(name)
    report = import_source(McapSource(path), tmp_path / "drive.hfr")
    assert not report.damage
    with tl.open_recording(tmp_path / "drive.hfr") as drive:
        export_mcap(drive, tmp_path / "again.mcap")
    assert contents(tmp_path / "again.mcap") == contents(path)


def test_foxglove_json_and_protobuf_come_in_as_arrays_and_go_out_equal(tmp_path):
    path = tmp_path / "log.mcap"
    points = np.arange(12, dtype="<f4").reshape(3, 4)
    stamp = {"sec": ACQUIRED // S, "nsec": 7}
    fields = [{"name": name, "offset": 4 * k, "type": 7} for k, name in enumerate("xyzi")]
    coded = base64.b64encode(points.tobytes()).decode()
    compressed = {
        "timestamp": stamp,
        "frame_id": "c",
        "format": "jpeg",
        "data": base64.b64encode(b"\xff\xd8x").decode(),
    }
    json_cloud = {"timestamp": stamp, "frame_id": "l", "point_stride": 16, "fields": fields, "data": coded}
    fix = {"timestamp": stamp, "latitude": 1.5, "longitude": 2.5, "altitude": 3.5, "position_covariance": [0] * 9}
    definitions, protobuf = protobuf_messages(points)
    with path.open("wb") as file:
        writer = mcap_writer.Writer(file)
        writer.start()
        for topic, name, value in (
            ("/c", "CompressedImage", compressed),
            ("/l", "PointCloud", json_cloud),
            ("/f", "LocationFix", fix),
        ):
            schema = writer.register_schema(f"foxglove.{name}", "jsonschema", b"{}")
            channel = writer.register_channel(topic, "json", schema)
            writer.add_message(channel, ACQUIRED + 50, json.dumps(value).encode(), ACQUIRED + 40, 1)
        for name, data in protobuf.items():
            schema = writer.register_schema(f"foxglove.{name}", "protobuf", definitions)
            channel = writer.register_channel(f"/p/{name}", "protobuf", schema)
            writer.add_message(channel, ACQUIRED + 60, data, ACQUIRED + 55, 2)
        writer.finish()
    report = import_source(McapSource(path), tmp_path / "drive.hfr", window="100ms")
    assert not report.damage
    with tl.open_recording(tmp_path / "drive.hfr") as drive:
        for cloud_name in ("l", "p/PointCloud"):
            got = drive.read_at_index(cloud_name, 0).array()
            assert got["z"].tolist() == points[:, 2].tolist()
            assert drive.timestamps(cloud_name)[0] == ACQUIRED + 7
        for picture in ("c", "p/CompressedImage"):
            assert bytes(drive.read_at_index(picture, 0).data) == b"\xff\xd8x"
            assert drive.streams[picture].encoding == "jpeg"
        assert drive.read_at_index("f", 0).array()["longitude"][0] == 2.5
        assert drive.read_at_index("p/LocationFix", 0).array()["altitude"][0] == 30
        assert drive.read_at_index("p/RawImage", 0).array().shape == (2, 2)
        export_mcap(drive, tmp_path / "again.mcap")
    assert contents(tmp_path / "again.mcap") == contents(path)


def protobuf_messages(points: np.ndarray) -> tuple[bytes, dict[str, bytes]]:
    """A FileDescriptorSet of the foxglove types, with numbers of its own, and a message of each."""
    pb = pytest.importorskip("google.protobuf.descriptor_pb2")
    from google.protobuf import descriptor_pool, message_factory, timestamp_pb2

    field = pb.FieldDescriptorProto
    kinds = {
        "s": field.TYPE_STRING,
        "b": field.TYPE_BYTES,
        "u": field.TYPE_FIXED32,
        "d": field.TYPE_DOUBLE,
        "e": field.TYPE_UINT32,
    }
    layouts = {
        "CompressedImage": "frame_id:s format:s timestamp:T data:b",
        "RawImage": "timestamp:T frame_id:s width:u height:u encoding:s step:u data:b",
        "PackedElementField": "name:s offset:u type:e",
        "PointCloud": "timestamp:T frame_id:s point_stride:u fields:F data:b",
        "LocationFix": "timestamp:T latitude:d longitude:d altitude:d position_covariance:D position_covariance_type:e",
    }
    file = pb.FileDescriptorProto(
        name="foxglove.proto", package="foxglove", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    for name, layout in layouts.items():
        message = file.message_type.add(name=name)
        for number, part in enumerate(layout.split(), 1):
            key, kind = part.split(":")
            made = message.field.add(name=key, number=number, label=field.LABEL_OPTIONAL)
            if kind in "TF":
                made.type = field.TYPE_MESSAGE
                made.type_name = ".google.protobuf.Timestamp" if kind == "T" else ".foxglove.PackedElementField"
            else:
                made.type = kinds[kind.lower()]
            if kind in "FD":
                made.label = field.LABEL_REPEATED
    pool = descriptor_pool.DescriptorPool()
    time_file = pb.FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(time_file)
    pool.Add(time_file)
    pool.Add(file)
    types = {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"foxglove.{name}")) for name in layouts}
    stamp = {"seconds": ACQUIRED // S, "nanos": 7}
    fields = [types["PackedElementField"](name=name, offset=4 * k, type=7) for k, name in enumerate("xyzi")]
    messages = {
        "CompressedImage": types["CompressedImage"](timestamp=stamp, frame_id="c", format="jpeg", data=b"\xff\xd8x"),
        "RawImage": types["RawImage"](timestamp=stamp, width=2, height=2, encoding="mono16", step=4, data=b"12345678"),
        "PointCloud": types["PointCloud"](timestamp=stamp, point_stride=16, fields=fields, data=points.tobytes()),
        "LocationFix": types["LocationFix"](
            timestamp=stamp, latitude=10, longitude=20, altitude=30, position_covariance=range(9)
        ),
    }
    both = pb.FileDescriptorSet(file=[time_file, file])
    return both.SerializeToString(), {name: value.SerializeToString() for name, value in messages.items()}


def test_a_recording_of_our_own_exports_with_its_times(tmp_path):
    from trainload.recordings.writing.writer import HyperframeWriter

    with HyperframeWriter(tmp_path / "own.hfr") as writer:
        writer.add_stream("camera", kind="camera", encoding="jpeg")
        for k in range(3):
            writer.append("camera", acquired(k), b"jpeg%d" % k, receive_ns=acquired(k) + 9)
    with tl.open_recording(tmp_path / "own.hfr") as drive:
        export_mcap(drive, tmp_path / "own.mcap")
    got = contents(tmp_path / "own.mcap")
    assert [(row[1], row[4], row[5], row[7]) for row in got] == [
        ("camera", acquired(k) + 9, acquired(k), b"jpeg%d" % k) for k in range(3)
    ]


def test_what_is_not_mcap_is_a_format_error(tmp_path):
    for data in (b"", b"\x89MCAP", b"PK" * 50):
        (tmp_path / "no.mcap").write_bytes(data)
        with pytest.raises(FormatError):
            list(McapSource(tmp_path / "no.mcap").items())
