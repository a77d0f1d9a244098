"""Messages in every plain CDR give the same streams; in others they stay whole, with their schema, and are counted."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import trainload as tl
from cdr_encoder import encode
from present import present
from sensor_messages import LATENCY, ROS2, TYPES, acquired, cloud, message
from trainload.recordings.format.envelopes import Envelope
from trainload.recordings.importers.import_source import ImportReport, import_source
from trainload.recordings.importers.logs.mcap.source import McapSource
from trainload.recordings.importers.source import Channel, SourceFrame, SourceStream

mcap_writer = pytest.importorskip("mcap.writer")

PLAIN = {
    "CDR_BE": (b"\0\x00", ">", 8),
    "CDR_LE": (b"\0\x01", "<", 8),
    "CDR2_BE": (b"\0\x06", ">", 4),
    "CDR2_LE": (b"\0\x07", "<", 4),
    "CDR2_BE of XTypes 1.2": (b"\0\x10", ">", 4),
    "CDR2_LE of XTypes 1.2": (b"\0\x11", "<", 4),
}
MARKED = {
    "pl_cdr": (2, 3),
    "d_cdr2": (8, 9, 0x14, 0x15),
    "pl_cdr2": (0x0A, 0x0B, 0x12, 0x13),
}
COUNT = 12


def write_log(path: Path, messages: list[tuple[str, bytes]]) -> Path:
    with path.open("wb") as file:
        writer = mcap_writer.Writer(file)
        writer.start("ros2", "test")
        channels = {}
        for topic in dict.fromkeys(topic for topic, _ in messages):
            name = TYPES[topic]
            schema = writer.register_schema(name, "ros2msg", ROS2.generate_msgdef(name)[0].encode())
            channels[topic] = writer.register_channel(topic, "cdr", schema)
        for k, (topic, data) in enumerate(messages):
            writer.add_message(channels[topic], acquired(0) + LATENCY + k, data, acquired(0), k)
        writer.finish()
    return path


def imported(path: Path, messages: list[tuple[str, bytes]]) -> ImportReport:
    return import_source(McapSource(write_log(path.with_suffix(".mcap"), messages)), path, window="1s")


def log(kind: str, **options) -> list[tuple[str, bytes]]:
    identifier, order, widest = PLAIN[kind]
    return [
        (topic, encode(message(ROS2, topic, k), name, identifier, order=order, widest=widest, **options))
        for k in range(COUNT)
        for topic, name in TYPES.items()
    ]


@pytest.mark.parametrize(("kind", "little"), [("CDR_LE", True), ("CDR_BE", False)])
def test_the_encoder_writes_what_rosbags_writes(kind, little):
    made = [
        bytes(ROS2.serialize_cdr(message(ROS2, topic, k), name, little_endian=little))
        for k in range(COUNT)
        for topic, name in TYPES.items()
    ]
    assert [data for _, data in log(kind)] == made


@pytest.mark.parametrize("kind", PLAIN)
def test_every_plain_cdr_gives_the_same_streams(tmp_path, kind):
    report = imported(tmp_path / "drive.hfr", log(kind))
    assert not report.damage
    assert not report.notes
    with tl.open_recording(tmp_path / "drive.hfr") as drive:
        for topic in ("cam/raw", "cam/jpeg", "lidar", "imu", "gps", "odom", "scan"):
            assert drive.timestamps(topic).tolist() == [acquired(k) for k in range(COUNT)]
            assert drive.streams[topic].clock == "hardware"
        for k in range(COUNT):
            pixels = (np.arange(18) + k).astype(np.uint8).reshape(2, 3, 3)
            assert np.array_equal(drive.read_at_index("cam/raw", k).array(), pixels)
            assert bytes(drive.read_at_index("cam/jpeg", k).data) == b"\xff\xd8" + bytes([k]) * (k + 3)
            points = drive.read_at_index("lidar", k).array()
            for name in ("x", "y", "z", "ring"):
                assert np.array_equal(points[name], cloud(k)[name])
            imu = drive.read_at_index("imu", k).array()
            assert imu["angular_velocity"].tolist() == [[1, 2, k]]
            assert imu["orientation"].tolist() == [[0, 0, np.sin(k / 10), np.cos(k / 10)]]
            assert imu["linear_acceleration_covariance"].tolist() == [list(range(1, 10))]
            odometry = drive.read_at_index("odom", k).array()
            assert odometry["position"].tolist() == [[k, 1, 2]]
            assert odometry["twist_covariance"].tolist() == [list(range(36))]
            fix = drive.read_at_index("gps", k).array()
            assert (fix["longitude"][0], fix["status"][0], fix["service"][0]) == (11 + k, -1, 5)


@pytest.mark.parametrize("kind", PLAIN)
def test_every_plain_cdr_goes_out_byte_for_byte(tmp_path, kind):
    messages = log(kind)
    source = McapSource(write_log(tmp_path / "log.mcap", messages))
    names = {}
    found = []
    for item in source.items():
        if isinstance(item, SourceStream):
            names[item.name] = source.channels[present(item.channel)].topic
        elif isinstance(item, SourceFrame):
            found.append((names[item.stream], Envelope(0, 0, *present(item.wrapping)).message(item.data)))
    assert found == messages


@pytest.mark.parametrize("kind", ["CDR2_LE", "CDR2_BE"])
@pytest.mark.parametrize("fields", [0, 1, 4])
def test_point_clouds_of_writers_without_list_sizes_are_read_too(tmp_path, kind, fields):
    identifier, order, widest = PLAIN[kind]
    made = message(ROS2, "/lidar", 3)
    made = dataclasses.replace(made, fields=made.fields[:fields])
    for list_sizes in (True, False):
        data = encode(made, TYPES["/lidar"], identifier, order=order, widest=widest, list_sizes=list_sizes)
        path = tmp_path / f"{list_sizes}.hfr"
        report = imported(path, [("/lidar", data)])
        assert not report.damage
        with tl.open_recording(path) as drive:
            frame = drive.read_at_index("lidar", 0)
            assert bytes(frame.data) == cloud(3).tobytes()
            assert drive.timestamps("lidar").tolist() == [acquired(3)]
            if fields == 4:
                assert np.array_equal(frame.array()["ring"], cloud(3)["ring"])


@pytest.mark.parametrize("kind", MARKED)
def test_delimited_and_parameter_list_messages_stay_whole_and_are_counted(tmp_path, kind):
    for number in MARKED[kind]:
        path = tmp_path / f"{number}.hfr"
        data = bytes((0, number, 0, 0)) + log("CDR2_LE")[3][1][4:]  # would pass for an Imu if it were looked into
        report = imported(path, [("/imu", data)] * 5 + [("/note", data)] * 2)
        assert not report.damage
        assert f"5 messages of /imu are {kind}: kept as bytes" in report.notes[0]
        assert "2 messages of /note" in report.notes[1]
        with tl.open_recording(path) as drive:
            assert (drive.count("imu"), drive.streams["imu"].encoding, drive.streams["imu"].kind) == (
                5,
                kind,
                "generic",
            )
            assert bytes(drive.read_at_index("imu", 0).data) == data
            assert drive.streams["imu"].clock == "host"
            channel = drive.meta["import"]["channels"][drive.meta["import"]["streams"]["imu"]["channel"]]
            assert "linear_acceleration" in channel["schema"]


def test_a_topic_may_change_its_encoding(tmp_path):
    plain, other = log("CDR_LE")[3][1], b"\0\x09\0\0" + bytes(60)
    report = imported(tmp_path / "drive.hfr", [("/imu", plain), ("/imu", other), ("/imu", log("CDR_BE")[3][1])])
    assert not report.damage
    with tl.open_recording(tmp_path / "drive.hfr") as drive:
        assert (drive.count("imu"), drive.count("imu#2")) == (2, 1)


@pytest.mark.parametrize("topic", ["/cam/raw", "/cam/jpeg", "/lidar", "/imu", "/gps", "/odom"])
@pytest.mark.parametrize("more", [b"\0" * 4, b"\0" * 400])
def test_xcdr2_messages_with_bytes_that_no_field_explains_are_not_guessed_at(tmp_path, topic, more):
    identifier, order, widest = PLAIN["CDR2_LE"]
    data = encode(message(ROS2, topic, 2), TYPES[topic], identifier, order=order, widest=widest) + more
    report = imported(tmp_path / "drive.hfr", [(topic, data)])
    assert "kept as bytes" in report.damage.reasons[0]
    assert report.damage.frames == 0
    with tl.open_recording(tmp_path / "drive.hfr") as drive:
        assert bytes(drive.read_at_index(topic[1:], 0).data) == data
        assert drive.streams[topic[1:]].kind == "generic"


def test_encapsulations_that_nobody_knows_stay_whole(tmp_path):
    messages = [("/imu", bytes((0, number)) + log("CDR_LE")[3][1][2:]) for number in (4, 5, 0x0C, 0x16, 0xFF)]
    messages += [("/imu", b""), ("/imu", b"\0"), ("/imu", b"\x01\0\0\0" + bytes(400))]
    imported(tmp_path / "drive.hfr", messages)
    with tl.open_recording(tmp_path / "drive.hfr") as drive:
        assert [bytes(drive.read_at_index("imu", k).data) for k in range(len(messages))] == [d for _, d in messages]
        assert drive.streams["imu"].kind == "generic"


def test_a_header_is_found_in_idl_definitions(tmp_path):
    from trainload.recordings.importers.logs.messages.ros import ros_parser

    idl = """
    // generated
    module demo { module msg {
      @verbatim (language="comment", text="a { strange \\" struct Other { text")
      struct Reading {
        @verbatim (language="comment", text="first")
        std_msgs::msg::Header header; /* when */
        double value;
      };
      struct Bare { double value; };
    }; };
    """
    data = memoryview(log("CDR_LE")[6][1])
    stamps = {}
    for name in ("Reading", "Bare"):
        channel = Channel("/x", f"demo/msg/{name}", "cdr", "ros2idl", idl.encode())
        stamps[name] = ros_parser(channel)(data).stamp_ns
    assert stamps == {"Reading": acquired(0), "Bare": 0}


def test_pictures_of_ever_new_sizes_do_not_become_ever_new_streams(tmp_path):
    from trainload.recordings.importers.logs.topics import MAX_FORMS

    image = message(ROS2, "/cam/raw", 0)
    messages = []
    for height in range(1, MAX_FORMS + 40):
        made = dataclasses.replace(image, height=height, data=np.zeros(height * 9, np.uint8))
        messages.append(("/cam/raw", bytes(ROS2.serialize_cdr(made, TYPES["/cam/raw"]))))
    report = imported(tmp_path / "drive.hfr", messages)
    assert len(report.streams) == MAX_FORMS + 1
    assert not report.damage
    with tl.open_recording(tmp_path / "drive.hfr") as drive:
        last = f"cam/raw#{MAX_FORMS + 1}"
        assert (drive.count(last), drive.streams[last].encoding) == (39, "bgr8")
        assert [len(drive.read_at_index(last, k).data) for k in (0, 38)] == [(MAX_FORMS + 1) * 9, (MAX_FORMS + 39) * 9]
