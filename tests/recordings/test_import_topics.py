"""Which stream a message goes to: by topic, type and form, not by publisher; the largest form has the topic's name."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import mcap_bytes as bytes_of
import trainload as tl
from trainload.recordings.exporters.mcap import export_mcap
from trainload.recordings.format.envelopes import Envelope, envelopes_from_bytes
from trainload.recordings.importers.import_source import import_source
from trainload.recordings.importers.logs.channel_numbers import ChannelNumbers
from trainload.recordings.importers.logs.mcap.source import McapSource
from trainload.recordings.importers.source import Channel, Damage
from trainload.recordings.writing.streams import StreamSet

T0 = 1_700_000_000_000_000_000


def imu(time_ns: int, value: float = 0.0) -> bytes:
    data = b"\0\1\0\0" + struct.pack("<iI", *divmod(time_ns, 10**9)) + struct.pack("<I", 4) + b"imu\0"
    return data + b"\0" * (-(len(data) - 4) % 8) + struct.pack("<37d", value, *[0.0] * 36)


def written(path: Path, channels: list[bytes], messages: list[tuple[int, int, bytes]]) -> Path:
    schema = bytes_of.schema(1, "sensor_msgs/msg/Imu", data=b"std_msgs/Header header\n")
    definitions = [(bytes_of.SCHEMA, schema), *((bytes_of.CHANNEL, body) for body in channels)]
    bodies = [bytes_of.message(number, k, time, data) for k, (number, time, data) in enumerate(messages)]
    path.write_bytes(bytes_of.log(definitions, bodies))
    return path


def late_clock(path: Path, unstamped: int, count: int) -> Path:
    """A sensor that does not know the time at first."""
    messages = [
        (1, T0 + k * 10**7 + 10**6, imu(0 if k < unstamped else T0 + k * 10**7, float(k))) for k in range(count)
    ]
    return written(path, [bytes_of.channel(1, 1, "/imu")], messages)


def test_first_messages_without_a_stamp_do_not_take_the_name_of_the_topic(tmp_path):
    report = import_source(McapSource(late_clock(tmp_path / "a.mcap", 2, 20)), tmp_path / "a.hfr")
    with tl.open_recording(tmp_path / "a.hfr") as drive:
        assert {name: drive.count(name) for name in ("imu", "imu#2")} == {"imu": 18, "imu#2": 2}
        assert (drive.streams["imu"].clock, drive.streams["imu#2"].clock) == ("hardware", "host")
        assert drive.timestamps("imu")[0] == T0 + 2 * 10**7
        assert drive.read_at_index("imu", 0).array()["orientation"][0, 0] == 2
        assert drive.meta["import"]["streams"]["imu"]["frames"] == 18
        assert drive.meta["import"]["notes"] == report.notes
        export_mcap(drive, tmp_path / "again.mcap")
    assert report.notes == [
        "imu has messages of 2 forms: 18 in imu (imu raw, stamped); 2 in imu#2 (imu raw, without a stamp, at log time)"
    ]
    import_source(McapSource(tmp_path / "again.mcap"), tmp_path / "b.hfr")
    with tl.open_recording(tmp_path / "b.hfr") as drive:
        assert drive.count("imu") == 18


def test_an_import_whose_streams_change_their_names_can_be_repeated_and_resumed(tmp_path, monkeypatch):
    path = late_clock(tmp_path / "a.mcap", 2, 400)
    import_source(McapSource(path), tmp_path / "whole.hfr")
    from trainload.recordings.writing.writer import HyperframeWriter

    with monkeypatch.context() as patch:
        patch.setattr(HyperframeWriter, "swap_names", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            import_source(McapSource(path), tmp_path / "drive.hfr")
    import_source(McapSource(path), tmp_path / "drive.hfr", resume=True)
    with tl.open_recording(tmp_path / "whole.hfr") as whole, tl.open_recording(tmp_path / "drive.hfr") as drive:
        assert whole.streams == drive.streams
        assert [(f.stream, f.timestamp_ns) for f in whole.frames()] == [
            (f.stream, f.timestamp_ns) for f in drive.frames()
        ]


def test_publishers_of_one_topic_share_a_stream_and_go_out_by_themselves(tmp_path):
    channels = [
        bytes_of.channel(1, 1, "/imu", callerid="/a", latching="0"),
        bytes_of.channel(2, 1, "/imu", callerid="/b", latching="1"),
        bytes_of.channel(3, 1, "/imu", robot="2"),
    ]
    messages = [(k % 3 + 1, T0 + k, imu(T0 + k)) for k in range(9)]
    report = import_source(McapSource(written(tmp_path / "a.mcap", channels, messages)), tmp_path / "a.hfr")
    with tl.open_recording(tmp_path / "a.hfr") as drive:
        assert {name: drive.count(name) for name in ("imu", "imu#2")} == {"imu": 6, "imu#2": 3}
        export_mcap(drive, tmp_path / "again.mcap")
    assert "/imu has 2 publishers; their messages are in one stream" in report.notes
    reader = pytest.importorskip("mcap.reader")
    with (tmp_path / "again.mcap").open("rb") as file:
        found = [
            (message.sequence, channel.metadata.get("callerid"))
            for _, channel, message in reader.make_reader(file).iter_messages(log_time_order=False)
        ]
    assert found == [(k, ("/a", "/b", None)[k % 3]) for k in range(9)]


@pytest.mark.parametrize("topic", ["/import/envelopes", "/import/records"])
def test_a_topic_may_be_called_as_what_an_import_keeps(tmp_path, topic):
    path = tmp_path / "a.mcap"
    definitions = [(bytes_of.CHANNEL, bytes_of.channel(1, 0, topic, "x"))]
    path.write_bytes(
        bytes_of.log(
            definitions,
            [bytes_of.message(1, k, T0 + k, b"12") for k in range(3)],
            [(bytes_of.METADATA, bytes_of.metadata("drive", {"city": "Karlsruhe"}))],
        )
    )
    report = import_source(McapSource(path), tmp_path / "a.hfr")
    assert not report.damage
    with tl.open_recording(tmp_path / "a.hfr") as drive:
        assert drive.count(f"{topic.strip('/')}#2") == 3
        made = export_mcap(drive, tmp_path / "again.mcap")
    assert (made.messages, made.restored, made.records) == (3, 3, 1)


def test_envelopes_of_version_1_are_still_read():
    old = struct.pack("<HIQQIBII", 3, 4, 5, 6, 7, 0, 0, 2) + b"ab"
    [found] = envelopes_from_bytes(old * 1, "trainload.envelopes.v1")
    assert found == Envelope(3, 4, 5, 6, 7, 0, 0, b"ab", None)
    new = Envelope(3, 4, 5, 6, 7, 0, 0, b"ab", 70_000)
    assert list(envelopes_from_bytes(new.to_bytes() * 2, "trainload.envelopes.v2")) == [new, new]


class Counting(list):
    """A list that counts how often its items are compared."""

    looks = 0

    def __contains__(self, item):
        Counting.looks += len(self)
        return super().__contains__(item)

    def index(self, *args):
        Counting.looks += len(self)
        return super().index(*args)


def test_channels_are_found_without_a_look_at_the_others():
    channels = Counting()
    numbers = ChannelNumbers(channels, Damage(), "log", "channel")
    for number in range(300):
        numbers.add(number, Channel(f"/{number}", "t", "cdr", metadata={"a": "b"}))
        numbers.add(-number - 1, Channel(f"/{number}", "t", "cdr", metadata={"a": "b"}))
    assert (len(channels), channels.looks) == (300, 0)


def test_what_an_import_does_for_a_stream_does_not_grow_with_their_number(tmp_path, monkeypatch):
    from trainload.recordings.importers import import_source as module

    count = 300
    described: list[int] = []
    tables: list[int] = []
    real, infos = module._channel_facts, StreamSet.infos.fget  # type: ignore[attr-defined]

    def counted(calls, called):
        def call(argument):
            calls.append(1)
            return called(argument)

        return call

    monkeypatch.setattr(module, "_channel_facts", counted(described, real))
    monkeypatch.setattr(StreamSet, "infos", property(counted(tables, infos)))
    definitions = [(bytes_of.CHANNEL, bytes_of.channel(k, 0, f"/{k}", "x")) for k in range(count)]
    messages = [bytes_of.message(k, 0, T0 + k, b"12") for k in range(count)]
    (tmp_path / "a.mcap").write_bytes(bytes_of.log(definitions, messages))
    report = import_source(McapSource(tmp_path / "a.mcap"), tmp_path / "a.hfr")
    assert len(report.streams) == len(described) == count
    assert len(tables) < 10
