"""Every kind of MCAP file that the specification allows comes in whole and goes out again: grown records, definitions
in the data section alone, no chunks, no summary, no checksums; and the conformance suite, where it is at hand."""

from __future__ import annotations

import itertools
import json
import struct
import tarfile
from pathlib import Path
from typing import Any

import pytest

import mcap_bytes as bytes_of
import trainload as tl
from trainload.errors import FormatError
from trainload.recordings.exporters.mcap import export_mcap
from trainload.recordings.format.log_records import record_from_bytes
from trainload.recordings.importers.import_source import import_source
from trainload.recordings.importers.logs.mcap.source import McapSource

pytest.importorskip("mcap")
from mcap.stream_reader import StreamReader

DEFINITIONS = [
    (bytes_of.SCHEMA, bytes_of.schema(1, "std_msgs/msg/String")),
    (bytes_of.SCHEMA, bytes_of.schema(2, "my/Type", "c", b"\4\5\6")),
    (bytes_of.CHANNEL, bytes_of.channel(1, 1, "/text", qos="reliable")),
    (bytes_of.CHANNEL, bytes_of.channel(2, 2, "/mine", "a", foo="bar", empty="")),
    (bytes_of.CHANNEL, bytes_of.channel(3, 0, "/plain", "b")),
    (bytes_of.CHANNEL, bytes_of.channel(4, 2, "/silent", "a")),
]
MESSAGES = [bytes_of.message(k % 3 + 1, k, 1000 + k, b"\0\1\0\0" + bytes([k, 0, 0, 0]), 900 + k) for k in range(9)]
OTHERS = [
    (bytes_of.ATTACHMENT, bytes_of.attachment(5, "notes", b"ok")),
    (bytes_of.METADATA, bytes_of.metadata("drive", {"city": "Karlsruhe", "": ""})),
    (bytes_of.ATTACHMENT, bytes_of.attachment(6, "empty", b"", crc=False)),
]


def facts(kind: str, fields: dict) -> tuple:
    """A record by what it says, without the numbers that a file gives it."""
    names = {
        "Schema": ("name", "encoding", "data"),
        "Channel": ("topic", "message_encoding", "metadata"),
        "Message": ("log_time", "publish_time", "sequence", "data"),
        "Metadata": ("name", "metadata"),
        "Attachment": ("name", "media_type", "create_time", "log_time", "data"),
    }[kind]
    values = (fields[name] for name in names)
    plain = (
        sorted(v.items()) if isinstance(v, dict) else bytes(map(int, v)) if isinstance(v, list) else v for v in values
    )
    return kind, *(str(value) for value in plain)


def contents(path: Path) -> tuple[list[tuple[Any, ...]], list[str]]:
    """Messages with their channel and schema in order; and schemas, channels, attachments and metadata."""
    schemas: dict[int, tuple[Any, ...]] = {0: ()}
    channels: dict[int, tuple[Any, ...]] = {}
    messages: list[tuple[Any, ...]] = []
    others: set[tuple[Any, ...]] = set()
    found: Any
    with path.open("rb") as file:
        for found in StreamReader(file).records:
            kind, fields = type(found).__name__, vars(found)
            if kind == "Schema":
                schemas[found.id] = facts(kind, fields)
            if kind == "Channel":
                channels[found.id] = facts(kind, fields), schemas[found.schema_id]
            if kind == "Message":
                messages.append((facts(kind, fields), channels[found.channel_id]))
            if kind in ("Attachment", "Metadata"):
                others.add(facts(kind, fields))
    return messages, sorted(map(str, others | set(channels.values()) | set(schemas.values())))


def there_and_back(path: Path, folder: Path):
    report = import_source(McapSource(path), folder / "drive.hfr", overwrite=True)
    with tl.open_recording(folder / "drive.hfr") as drive:
        export_mcap(drive, folder / "again.mcap", overwrite=True)
    return report, contents(folder / "again.mcap")


KINDS = [
    pytest.param(chunked, crcs, repeated, more, id=f"{'chunks' if chunked else 'plain'}-{crcs}-{repeated}-{len(more)}")
    for chunked, crcs, repeated, more in itertools.product(
        (True, False),
        (True, False),
        ((bytes_of.SCHEMA, bytes_of.CHANNEL), (bytes_of.CHANNEL,), (bytes_of.SCHEMA,), (), None),
        (b"", bytes_of.MORE),
    )
]


@pytest.mark.parametrize(("chunked", "crcs", "repeated", "more"), KINDS)
def test_every_kind_of_file_comes_in_whole_and_goes_out_again(tmp_path, chunked, crcs, repeated, more):
    plain, path = tmp_path / "plain.mcap", tmp_path / "log.mcap"
    plain.write_bytes(bytes_of.log(DEFINITIONS, MESSAGES, OTHERS))
    path.write_bytes(
        bytes_of.log(DEFINITIONS, MESSAGES, OTHERS, chunked=chunked, crcs=crcs, repeated=repeated, more=more)
    )
    report, found = there_and_back(path, tmp_path)
    assert not report.damage, report.damage.reasons
    assert found == contents(plain)


def test_a_schema_in_the_data_section_alone_gives_stamps_and_types(tmp_path):
    path = tmp_path / "log.mcap"
    header = b"\0\1\0\0" + struct.pack("<iI", 1_700_000_000, 5) + struct.pack("<I", 4) + b"imu\0"
    imu = header + b"\0" * (-(len(header) - 4) % 8) + struct.pack("<37d", *range(37))
    path.write_bytes(
        bytes_of.log(
            [
                (bytes_of.SCHEMA, bytes_of.schema(7, "sensor_msgs/msg/Imu", data=b"std_msgs/Header header\n")),
                (bytes_of.CHANNEL, bytes_of.channel(1, 7, "/imu")),
            ],
            [bytes_of.message(1, k, 1_700_000_000_050_000_000 + k, imu) for k in range(3)],
            repeated=(bytes_of.CHANNEL,),
        )
    )
    import_source(McapSource(path), tmp_path / "drive.hfr")
    with tl.open_recording(tmp_path / "drive.hfr") as drive:
        info = drive.streams["imu"]
        assert (info.kind, info.clock, drive.timestamps("imu")[0]) == ("imu", "hardware", 1_700_000_000_000_000_005)
        assert drive.meta["import"]["channels"][0]["type"] == "sensor_msgs/msg/Imu"


def test_a_schema_that_is_nowhere_is_counted_and_its_messages_are_kept(tmp_path):
    path = tmp_path / "log.mcap"
    path.write_bytes(bytes_of.log([(bytes_of.CHANNEL, bytes_of.channel(1, 9, "/a"))], MESSAGES[:1]))
    report, (messages, _) = there_and_back(path, tmp_path)
    assert report.damage.reasons == [f"{path}: schema 9 of /a is not in the file"]
    assert len(messages) == 1


def test_a_grown_attachment_is_checked_by_its_own_checksum(tmp_path):
    path = tmp_path / "log.mcap"
    data = bytes_of.log(DEFINITIONS, MESSAGES, OTHERS, more=bytes_of.MORE)
    path.write_bytes(data.replace(b"notes", b"n0tes"))
    report, (messages, others) = there_and_back(path, tmp_path)
    assert (report.damage.frames, len(messages)) == (1, 9)
    assert not [line for line in others if "tes" in line]


@pytest.mark.parametrize("record", [b"", b"\x05abc", b"\x0c\xff\0\0\0a", b"\x09" + bytes(10), b"\x0c" + bytes(5)])
def test_a_kept_record_that_is_broken_is_a_format_error(record):
    with pytest.raises(FormatError, match="import/records"):
        record_from_bytes(record)


@pytest.mark.slow
def test_the_conformance_suite_comes_in_whole_and_goes_out_again(tmp_path, at_hand):
    with tarfile.open(at_hand("shared/data/mcap-conformance.tar.xz")) as tar:
        tar.extractall(tmp_path, filter="data")
    files = sorted(tmp_path.glob("*/*/*.mcap"))
    wrong = [path.name for path in files if not conforms(path, tmp_path)]
    assert (len(files), wrong) == (416, [])


def conforms(path: Path, folder: Path) -> bool:
    records = json.loads(path.with_suffix(".json").read_text())["records"]
    kinds = ("Schema", "Channel", "Message", "Attachment", "Metadata")
    wanted = [facts(found["type"], dict(found["fields"])) for found in records if found["type"] in kinds]
    report, (messages, others) = there_and_back(path, folder)
    found = [fields for fields, _ in messages]
    expected = [fields for fields in wanted if fields[0] == "Message"]
    rest = "".join(others)
    return (
        not report.damage
        and found == expected
        and all(str(fields) in rest for fields in wanted if fields[0] != "Message")
    )
