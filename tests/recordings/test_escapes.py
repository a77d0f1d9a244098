"""What files say is checked where it is parsed: of any input, an import, an alignment or a tool gives a value, an error
of ours or one of the system."""

from __future__ import annotations

import json
import random
import sqlite3
import struct
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mcap_bytes as bytes_of
import nuscenes_data
import trainload as tl
from test_import_mcap_kinds import DEFINITIONS, MESSAGES, OTHERS
from trainload.errors import FormatError, TrainloadError
from trainload.formats.json_values import parse_json
from trainload.recordings.aligning.recording import RecordingTimes
from trainload.recordings.exporters.merge import merge_recordings
from trainload.recordings.exporters.slice import slice_recording
from trainload.recordings.format.sections import receive_times_from_bytes
from trainload.recordings.format.streams import StreamInfo, packed_dtype, streams_from_bytes, streams_to_bytes
from trainload.recordings.importers.columns import seconds_to_ns
from trainload.recordings.importers.folders.euroc.asl_yaml import calibration_from_yaml
from trainload.recordings.importers.formats import FORMATS, open_source
from trainload.recordings.importers.import_source import import_source
from trainload.recordings.importers.source import Damage
from trainload.recordings.writing.writer import HyperframeWriter

PACKED = StreamInfo(0, "imu", dtype=packed_dtype(np.dtype("<f4")), packed=True)


@pytest.mark.parametrize(
    "text", ["NaN", "[Infinity]", "-Infinity", "1e999", '{"a": -1e400}', "[" * 100_000, "9" * 5000, ""]
)
def test_json_has_numbers_that_a_float_holds(text):
    with pytest.raises(ValueError, match=r".+"):
        parse_json(text)


@pytest.mark.parametrize(
    "change",
    [
        {"dtype": "<f4"},
        {"dtype": None},
        {"dtype": [["x", "<f4"]]},
        {"dtype": [["timestamp_ns", "<u8"]]},
        {"dtype": [["timestamp_ns", "<i8"], ["x", "<f4"]]},
        {"dtype": [["timestamp_ns", "<u8", [2]], ["x", "<f4"]]},
        {"dtype": [["x", "<f4"], ["timestamp_ns", "<u8"]]},
        {"rate_hz": float("nan")},
        {"rate_hz": 10**400},
        {"calibration": {"K": [float("inf")]}},
    ],
)
def test_a_stream_table_that_tools_could_not_write_again_is_refused(change):
    good = json.loads(streams_to_bytes([PACKED]))
    assert streams_from_bytes(json.dumps(good).encode()) == [PACKED]
    with pytest.raises(FormatError, match="stream table"):
        streams_from_bytes(json.dumps([good[0] | change]).encode())


def test_a_receive_time_that_63_bits_do_not_hold_is_refused():
    assert receive_times_from_bytes(struct.pack("<2Q", 0, (1 << 63) - 1), entries=2).tolist() == [0, (1 << 63) - 1]
    with pytest.raises(FormatError, match="63 bits"):
        receive_times_from_bytes(struct.pack("<2Q", 0, 1 << 63), entries=2)


def test_a_sample_whose_time_63_bits_do_not_hold_is_refused(tmp_path):
    with HyperframeWriter(tmp_path / "a.hfr") as writer:
        writer.add_stream("imu", dtype=packed_dtype(np.dtype("<f4")))
        writer.append("imu", 5, struct.pack("<Qf", 1 << 63, 1))
    with tl.open_recording(tmp_path / "a.hfr") as drive:
        info = replace(drive.streams["imu"], packed=True)
        times = RecordingTimes(drive)
        times.__dict__["streams"] = {"imu": info}
        with pytest.raises(FormatError, match="63 bits"):
            times.timestamps("imu")


@pytest.mark.parametrize("text", ["1e999999", "1e40", "-1e40", "nan", "sNaN", "inf", "9" * 6000, "²", "1e", ""])
def test_a_time_that_is_none_is_a_value_error(text):
    with pytest.raises((ValueError, OverflowError)):
        struct.pack("<q", seconds_to_ns(text))


def test_a_calibration_says_nothing_that_json_cannot(tmp_path):
    (tmp_path / "sensor.yaml").write_text("a: nan\nb: [1, .inf, inf]\nc: 1e999\nd: 2.5\ne: " + "9" * 5000 + "\n")
    found = calibration_from_yaml(tmp_path / "sensor.yaml", Damage())
    assert (found["a"], found["b"], found["c"], found["d"]) == ("nan", [1, ".inf", "inf"], "1e999", 2.5)
    json.dumps(found, allow_nan=False)


def kitti(root: Path, lines: str) -> Path:
    (root / "oxts/data").mkdir(parents=True)
    (root / "oxts/timestamps.txt").write_text(lines)
    for k in range(len(lines.splitlines())):
        (root / f"oxts/data/{k:010}.txt").write_text(" ".join("1" * 30))
    return root


def test_kitti_times_beyond_63_bits_are_none(tmp_path):
    root = kitti(
        tmp_path / "k", "2011-09-26 13:02:25.5\n9999-01-01 00:00:00.0\n0001-01-01 00:00:00\n2262-04-12 00:00:00\n"
    )
    report = import_source(open_source("kitti", root), tmp_path / "a.hfr")
    assert (report.summary.frames, report.damage.frames) == (1, 3)


def bag(path: Path, *statements: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    with sqlite3.connect(path) as database:
        for statement in statements:
            database.execute(statement)
    database.close()
    return path


TOPICS = "create table topics(id integer primary key, name text, type text, serialization_format text)"
ONE = "insert into topics values(1, '/a', 'x', 'cdr')"
TABLE = "create table messages(id {}, topic_id integer, timestamp integer, data blob)"
ROW = "insert into messages values({}, 1, {}, x'00010000')"


@pytest.mark.parametrize(
    ("statements", "frames"),
    [
        (
            (
                "create table topics(id integer primary key, name text)",
                "insert into topics values(1, '/a')",
                TABLE.format("integer primary key"),
                ROW.format(1, 5),
            ),
            1,
        ),
        ((TOPICS, ONE, TABLE.format("integer primary key"), ROW.format((1 << 63) - 1, 5), ROW.format(1, 5)), 2),
        ((TOPICS, ONE, TABLE.format("text"), ROW.format("'abc'", 5), ROW.format(1, 5)), 0),
        ((TOPICS, ONE, TABLE.format("blob"), ROW.format("x'00'", 5), ROW.format("1.5", 5), ROW.format("null", 5)), 0),
        ((TOPICS, ONE, TABLE.format("integer primary key"), ROW.format(1, "'soon'"), ROW.format(2, 5)), 1),
        ((TOPICS, ONE, "create table messages(id integer primary key)", "insert into messages values(1)"), 0),
        (
            (
                TOPICS,
                "insert into topics values(1, x'ff', null, 5)",
                TABLE.format("integer primary key"),
                ROW.format(1, 5),
            ),
            1,
        ),
    ],
)
def test_a_database_of_other_columns_and_types_gives_what_is_sound(tmp_path, statements, frames):
    source = open_source("rosbag2", bag(tmp_path / "b.db3", *statements))
    assert import_source(source, tmp_path / "a.hfr").summary.frames - (frames > 0) == frames  # with the envelopes


@pytest.mark.parametrize("count", ["9" * 5000, "٣", "-1", "1e9", ""])
def test_a_count_that_is_none_is_not_believed(tmp_path, count):
    statements = (TOPICS, ONE, TABLE.format("integer primary key"), ROW.format(1, 5))
    bag(tmp_path / "bag/b_0.db3", *statements)
    (tmp_path / "bag/metadata.yaml").write_text(
        "rosbag2_bagfile_information:\n  storage_identifier: sqlite3\n  relative_file_paths:\n    - b_0.db3\n  files:\n"
        f"    - path: b_0.db3\n      message_count: {count}\n  message_count: {count}\n"
    )
    assert not import_source(open_source("rosbag2", tmp_path / "bag"), tmp_path / "a.hfr").damage


# The kind: bytes of small sound inputs changed at random.


def inputs(root: Path) -> dict[str, Path]:
    """A small sound input per format, most of its bytes structure."""
    made = {"mcap": root / "log.mcap", "euroc": root / "euroc", "tum": root / "tum", "folder": root / "folder"}
    root.mkdir()
    js = b'{"timestamp": {"sec": 5, "nsec": 6}, "frame_id": "a", "latitude": 1.5}'
    own = json.dumps(replace(PACKED, name="own").to_json()).encode()
    more = [
        (bytes_of.SCHEMA, bytes_of.schema(5, "foxglove.LocationFix", "jsonschema", b"{}")),
        (bytes_of.CHANNEL, bytes_of.channel(6, 5, "/fix", "json")),
        (bytes_of.SCHEMA, bytes_of.schema(6, "trainload.imu", "trainload.stream", own)),
        (bytes_of.CHANNEL, bytes_of.channel(7, 6, "own", "raw")),
        (
            bytes_of.CHANNEL,
            bytes_of.channel(8, 0, "trainload.recording", "trainload.recording", meta="{}", clocks="{}"),
        ),
    ]
    bodies = [*MESSAGES, bytes_of.message(6, 0, 9, js), bytes_of.message(7, 0, 9, struct.pack("<Qf", 5, 6))]
    made["mcap"].write_bytes(bytes_of.log([*DEFINITIONS, *more], bodies, OTHERS, crcs=False))
    (made["euroc"] / "imu0").mkdir(parents=True)
    (made["euroc"] / "imu0/data.csv").write_text(
        "#timestamp [ns],w [rad s^-1],a\n1403636579758555392,1,2.5\n1403636579763555392,2,3\n"
    )
    (made["euroc"] / "imu0/sensor.yaml").write_text("sensor_type: imu\nT_BS:\n  data: [1, 2.5]\n")
    made["tum"].mkdir()
    (made["tum"] / "groundtruth.txt").write_text("# time\n1305031102.1753 1 2 3 4 5 6 7\n1305031102.2 1 2 3 4 5 6 7\n")
    (made["folder"] / "cam").mkdir(parents=True)
    (made["folder"] / "cam/1700000000.5.bin").write_bytes(b"12")
    (made["folder"] / "gps.csv").write_text("time,lat,lon\n1.5,2,3\n2.5,3,4\n")
    made["kitti"] = kitti(root / "kitti", "2011-09-26 13:02:25.5\n2011-09-26 13:02:25.6\n")
    made["rosbag2"] = root / "bag"
    bag(
        made["rosbag2"] / "b_0.db3",
        TOPICS,
        ONE,
        TABLE.format("integer primary key"),
        ROW.format(1, 5),
        ROW.format(2, 6),
    )
    (made["rosbag2"] / "metadata.yaml").write_text(
        "rosbag2_bagfile_information:\n  relative_file_paths:\n    - b_0.db3\n  message_count: 2\n"
    )
    return made


EVIL = (
    b"NaN",
    b"1e999",
    b"9" * 400,
    b"-",
    b"\xff",
    b"\0",
    b"[[[[",
    b'"',
    b"\n",
    b".",
    b"9999-",
    b"\x80\0\0\0",
    b"\xff" * 8,
)


def mutated(data: bytes, draw: random.Random) -> bytes:
    for _ in range(draw.randint(1, 3)):
        place = draw.randrange(len(data) + 1)
        piece = draw.choice((*EVIL, bytes([draw.randrange(256)])))
        data = data[:place] + piece + data[place + draw.choice((0, 1, len(piece))) :]
    return data


@pytest.mark.parametrize("kind", ["mcap", "euroc", "tum", "folder", "kitti", "rosbag2"])
def test_any_change_of_a_source_gives_a_recording_or_an_error_of_ours(tmp_path, kind):
    assert kind in FORMATS
    path, draw = inputs(tmp_path / "in")[kind], random.Random(kind)
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    sound = {file: file.read_bytes() for file in files}
    for _ in range(40):
        file = draw.choice(files)
        file.write_bytes(mutated(sound[file], draw))
        with suppress(TrainloadError, OSError):
            import_source(open_source(kind, path), tmp_path / "a.hfr", overwrite=True)
        file.write_bytes(sound[file])


VALUES: tuple[Any, ...] = (
    None,
    [],
    {},
    [1],
    {"a": 1},
    "",
    "x",
    -1,
    1 << 70,
    10**400,
    float("nan"),
    True,
    "\ud800",
    [[]],
    "/",
    0.5,
)


def changed(value, draw: random.Random):
    """JSON with another value at one place, or one key less."""
    at = value
    while True:
        keys = list(at) if isinstance(at, dict) else range(len(at)) if isinstance(at, list) else ()
        if not keys:
            return draw.choice(VALUES)
        key = draw.choice(keys)
        if not (isinstance(at[key], dict | list) and at[key]) or draw.random() < 0.1:
            break
        at = at[key]
    if isinstance(at, dict) and draw.random() < 0.2:
        del at[key]
    else:
        at[key] = draw.choice(VALUES)
    return value


def test_any_change_of_a_table_of_nuscenes_gives_a_recording_or_an_error_of_ours(tmp_path):
    root, draw = tmp_path / "in", random.Random(11)
    nuscenes_data.write_nuscenes(root)
    sound = {file: file.read_bytes() for file in sorted(root.rglob("*.json"))}
    for _ in range(40):
        file = draw.choice(list(sound))
        file.write_text(json.dumps(changed(changed(json.loads(sound[file]), draw), draw)))
        with suppress(TrainloadError, OSError):
            source = open_source("nuscenes", root, log=nuscenes_data.LOG)
            import_source(source, tmp_path / "a.hfr", overwrite=True)
        file.write_bytes(sound[file])


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [
        ("sensor", "token", {}),
        ("category", "token", []),
        ("attribute", "token", {}),
        ("scene", "name", 0.5),
        ("sample_data", "width", [1]),
        ("sample_data", "height", 1 << 70),
        ("sample_annotation", "attribute_tokens", 0.5),
        ("sample_annotation", "num_lidar_pts", {}),
        ("sample", "timestamp", 1 << 70),
    ],
)
def test_a_row_of_nuscenes_of_other_types_is_counted(tmp_path, table, key, value):
    nuscenes_data.write_nuscenes(tmp_path / "in")
    path = tmp_path / f"in/v1.0-mini/{table}.json"
    rows = json.loads(path.read_text())
    rows[0][key] = value
    path.write_text(json.dumps(rows))
    report = import_source(
        open_source("nuscenes", tmp_path / "in", log=nuscenes_data.LOG), tmp_path / "a.hfr", overwrite=True
    )
    assert any(f"{table}.json: no row of this table" in reason for reason in report.damage.reasons)


def test_any_change_of_a_recording_s_tables_gives_a_value_or_an_error_of_ours(tmp_path):
    path, draw = tmp_path / "a.hfr", random.Random(7)
    with HyperframeWriter(path, window="100ms") as writer:
        writer.add_stream("imu", dtype="<f4", packed=True)
        writer.add_stream("cam", rate_hz=30, calibration={"K": [1.5]})
        for k in range(6):
            writer.append("imu", k * 10**7, struct.pack("<f", k))
            writer.append("cam", k * 10**7, b"12", receive_ns=k * 10**7 + 5)
    data = path.read_bytes()
    table = data.rindex(b'[{"id":0')
    for _ in range(60):
        place = draw.choice((table, data.rindex(b"RECV") + 16)) + draw.randrange(60)
        piece = draw.choice((b"NaN", b"1e9", b"9", b'"', b"\xff" * 8, b"]", b"null", b"<u4"))
        path.write_bytes(with_sums(data[:place] + piece + data[place + len(piece) :]))
        with suppress(TrainloadError, OSError), tl.open_recording(path) as drive:
            slice_recording(drive, tmp_path / "s.hfr", overwrite=True)
            merge_recordings([drive], tmp_path / "m.hfr", overwrite=True)
            tl.align(drive, to="cam", using={"imu": tl.Nearest(max="50ms")}).report()
            tl.align(drive, to="imu", using={"cam": tl.Nearest(max="50ms")}).report()


def with_sums(data: bytes) -> bytes:
    """The recording with the CRC-32 of every section of its section list made right."""
    from isal import isal_zlib

    from trainload.recordings.format.hyperframe import HEADER_BYTES, HyperframeHeader

    header = HyperframeHeader.from_bytes(data[:HEADER_BYTES], file_size=len(data), path="")
    made, at = bytearray(data), header.sections_offset
    while at < header.sections_offset + header.sections_size:
        size = struct.unpack_from("<Q", made, at + 4)[0]
        struct.pack_into("<I", made, at + 12, isal_zlib.crc32(made[at + 16 : at + 16 + size]))
        at += 16 + size
    return bytes(made)
