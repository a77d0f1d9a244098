"""A recording that goes out as MCAP and comes in again is the same: times, clocks, types, calibration, META."""

from __future__ import annotations

import json

import numpy as np
import pytest

import mcap_bytes as bytes_of
import trainload as tl
from test_import_topics import T0, imu, written
from trainload.recordings.exporters.mcap import export_mcap
from trainload.recordings.format.exported import FRAME_ENCODING, FRAME_TOPIC, RECORDING, STREAM_SCHEMA
from trainload.recordings.importers.import_source import import_source
from trainload.recordings.importers.logs.mcap.source import McapSource

pytest.importorskip("mcap")


def recorded(path):
    meta = {"vehicle": "x", "gain": float("nan")}
    with tl.Recorder(path, window="100ms", meta=meta) as rec:
        cam = rec.add_stream(
            "camera/front", kind="camera", encoding="jpeg", rate_hz=30, calibration={"K": [1, 2.5], "frame": "c"}
        )
        lidar = rec.add_stream(
            "lidar", kind="lidar", dtype="<f4", shape=(-1, 4), clock="host", frame_duration="100ms", codec="zstd"
        )
        gyro = rec.add_stream("gyro", kind="imu", dtype=[("w", "<f8", 3)], packed=True)
        speed = rec.add_stream("speed", dtype="<f4", packed=True, clock="host")
        for k in range(12):
            t = T0 + k * 33_000_000
            rec.write(
                cam,
                t,
                bytes((255, 216, k)),
                receive_ns=(0, t, t + 5)[k % 3],
                duration_ns=k % 4,
                key_frame=k % 5 == 0,
                stream_index=2 * k,
            )
            rec.write(lidar, t + 1, np.full((3, 4), k, "<f4"), receive_ns=t + 9)
            rec.write(speed, t + 7, np.float32(k))
            for j in range(3):
                rec.write(gyro, t + j * 1000, np.array((k, j, 0.0)), receive_ns=t + 9)


def contents(path):
    with tl.open_recording(path) as drive:
        streams = {
            name: (
                i.kind,
                i.encoding,
                i.dtype,
                i.shape,
                i.rate_hz,
                i.clock,
                i.frame_duration_ns,
                i.packed,
                dict(i.calibration),
            )
            for name, i in drive.streams.items()
        }
        frames = [
            (f.stream, f.stream_index, f.timestamp_ns, f.key, f.hardware_time, bytes(f.data)) for f in drive.frames()
        ]
        times = [
            (name, None if found is None else found.tolist())
            for name in sorted(drive.streams)
            for found in (drive.receive_times(name), drive.durations(name))
        ]
        meta = json.dumps({key: value for key, value in drive.meta.items() if key != "import"}, sort_keys=True)
        return streams, sorted(frames), times, meta


def test_a_recording_comes_back_from_mcap_as_it_was(tmp_path):
    recorded(tmp_path / "a.hfr")
    with tl.open_recording(tmp_path / "a.hfr") as drive:
        export_mcap(drive, tmp_path / "a.mcap")
    report = import_source(McapSource(tmp_path / "a.mcap"), tmp_path / "b.hfr", window="100ms")
    assert not report.damage
    assert contents(tmp_path / "b.hfr") == contents(tmp_path / "a.hfr")
    with tl.open_recording(tmp_path / "b.hfr") as drive:
        assert not [name for name in drive.streams if name.startswith("import/")]
        export_mcap(drive, tmp_path / "b.mcap")
    import_source(McapSource(tmp_path / "b.mcap"), tmp_path / "c.hfr", window="100ms")
    assert contents(tmp_path / "c.hfr") == contents(tmp_path / "a.hfr")


@pytest.mark.parametrize("how", [{"clocks": {"imu": "host"}}, {"times": "log"}])
def test_what_the_user_said_of_a_log_comes_back_too_unless_the_user_says_otherwise(tmp_path, how):
    messages = [(1, T0 + k * 10**7 + 500, imu(T0 + k * 10**7)) for k in range(5)]
    path = written(tmp_path / "a.mcap", [bytes_of.channel(1, 1, "/imu")], messages)
    import_source(McapSource(path, **how), tmp_path / "a.hfr")
    with tl.open_recording(tmp_path / "a.hfr") as drive:
        export_mcap(drive, tmp_path / "again.mcap")
    import_source(McapSource(tmp_path / "again.mcap"), tmp_path / "b.hfr")
    import_source(McapSource(tmp_path / "again.mcap", clocks={"imu": "hardware"}, times="stamp"), tmp_path / "c.hfr")
    with (
        tl.open_recording(tmp_path / "a.hfr") as a,
        tl.open_recording(tmp_path / "b.hfr") as b,
        tl.open_recording(tmp_path / "c.hfr") as c,
    ):
        assert a.streams["imu"].clock == b.streams["imu"].clock == "host"
        assert a.timestamps("imu").tolist() == b.timestamps("imu").tolist()
        assert (c.streams["imu"].clock, c.timestamps("imu")[0]) == ("hardware", T0)
        export_mcap(b, tmp_path / "third.mcap")
    assert (tmp_path / "third.mcap").read_bytes() == (tmp_path / "again.mcap").read_bytes()


@pytest.mark.parametrize(
    ("topic", "encoding", "schema", "data", "metadata"),
    [
        ("a", "raw", b"[]", b"12", {}),
        ("a", "raw", b'{"id":0,"name":"a","rate_hz":1e999}', b"12", {}),
        ("a", "raw", b'{"id":0,"name":"a","packed":true}', b"12", {}),
        ("a", "raw", b'{"id":0,"name":"a","packed":true,"dtype":[["timestamp_ns","<u8"],["x","<f4"]]}', b"12", {}),
        ("a", "raw", b"[" * 100_000, b"12", {}),
        (FRAME_TOPIC, FRAME_ENCODING, b"", b"12", {}),
        (RECORDING, RECORDING, b"", b"", {"meta": "[1]"}),
        (RECORDING, RECORDING, b"", b"", {"clocks": '{"a": "sundial"}'}),
        (RECORDING, RECORDING, b"", b"", {"clocks": "[" * 100_000}),
    ],
)
def test_an_export_that_is_none_is_counted_and_its_messages_are_kept(tmp_path, topic, encoding, schema, data, metadata):
    definitions = [
        (bytes_of.SCHEMA, bytes_of.schema(1, "x", STREAM_SCHEMA, schema)),
        (bytes_of.CHANNEL, bytes_of.channel(1, 1, topic, encoding, **metadata)),
        (bytes_of.CHANNEL, bytes_of.channel(2, 0, "/other", "x")),
    ]
    messages = [bytes_of.message(number, 0, 5, data) for number in (1, 2)]
    (tmp_path / "a.mcap").write_bytes(bytes_of.log(definitions, messages))
    report = import_source(McapSource(tmp_path / "a.mcap"), tmp_path / "a.hfr")
    assert report.damage.reasons
    assert report.streams["other"]["frames"] == 1
