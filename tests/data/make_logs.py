"""Writes logs/ anew with the `rosbags` and `mcap` packages, and what the logs hold into logs/contents.json."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from mcap.writer import CompressionType
from mcap.writer import Writer as McapWriter
from rosbags import rosbag1, rosbag2

sys.path.append(str(Path(__file__).resolve().parents[1] / "helpers"))
from sensor_messages import ROS1, ROS2, TYPES, log

LOGS = Path(__file__).parent / "logs"
Messages = list[tuple[str, int, int, int, bytes]]  # topic, log and publish time, sequence number, bytes


def write_bag1(path: Path, messages: Messages, compression: str = "") -> None:
    writer = rosbag1.Writer(path)
    if compression:
        writer.set_compression(rosbag1.Writer.CompressionFormat[compression])
    with writer:
        connections = {topic: writer.add_connection(topic, name, typestore=ROS1) for topic, name in TYPES.items()}
        for topic, time, _, _, data in messages:
            writer.write(connections[topic], time, data)


def write_bag2(folder: Path, messages: Messages, *, definitions: bool = True) -> None:
    """A folder with one SQLite file; without definitions, as ROS 2 wrote it before Iron."""
    with rosbag2.Writer(folder, version=9, storage_plugin=rosbag2.StoragePlugin.SQLITE3) as writer:
        connections = {topic: writer.add_connection(topic, name, typestore=ROS2) for topic, name in TYPES.items()}
        for topic, time, _, _, data in messages:
            writer.write(connections[topic], time, data)
    [path] = folder.glob("*.db3")
    with sqlite3.connect(path) as bag:
        if not definitions:
            bag.execute("DROP TABLE message_definitions")
    bag.execute("VACUUM")
    bag.close()


def write_mcap(path: Path, messages: Messages, compression: str) -> None:
    with path.open("wb") as file:
        writer = McapWriter(file, compression=CompressionType[compression], chunk_size=3000)
        writer.start("ros2", "trainload tests")
        writer.add_metadata("drive", {"city": "Karlsruhe"})
        writer.add_attachment(1, 2, "notes.txt", "text/plain", b"dry road")
        channels = {}
        for topic, name in TYPES.items():
            schema = writer.register_schema(name, "ros2msg", ROS2.generate_msgdef(name)[0].encode())
            channels[topic] = writer.register_channel(topic, "cdr", schema)
        for topic, received, published, sequence, data in messages:
            writer.add_message(channels[topic], received, data, published, sequence)
        writer.finish()


def described(messages: Iterable[tuple[str, int, int, int, bytes]]) -> list[tuple[str, int, int, str]]:
    return [(topic, time, len(data), hashlib.sha256(data).hexdigest()) for topic, time, _, _, data in messages]


def main() -> None:
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir()
    ros1, ros2 = list(log(ROS1)), list(log(ROS2, 40))
    half = len(ros2) // 2
    kinds: dict[str, tuple[Messages, Callable[[Path, Messages], None]]] = {
        "plain.bag": (ros1, write_bag1),
        "lz4.bag": (ros1, lambda path, some: write_bag1(path, some, "LZ4")),
        "bz2.bag": (ros1, lambda path, some: write_bag1(path, some, "BZ2")),
        "no-messages.bag": ([], write_bag1),
        "ros2": (ros2, write_bag2),
        "ros2-without-definitions": (ros2, lambda path, some: write_bag2(path, some, definitions=False)),
        "zstd.mcap": (ros2, lambda path, some: write_mcap(path, some, "ZSTD")),
        "plain.mcap": (ros2[:80], lambda path, some: write_mcap(path, some, "NONE")),
        "splits/drive_0.mcap": (ros2[:half], lambda path, some: write_mcap(path, some, "LZ4")),
        "splits/drive_1.mcap": (ros2[half:], lambda path, some: write_mcap(path, some, "LZ4")),
    }
    for name, (messages, write) in kinds.items():
        (LOGS / name).parent.mkdir(exist_ok=True)
        write(LOGS / name, messages)
    (LOGS / "empty-file.bag").write_bytes(b"")
    (LOGS / "text.bag").write_text("This is text.\n")
    contents = {"ros1": described(ros1), "ros2": described(ros2)}
    (LOGS / "contents.json").write_text(
        "{\n"
        + ",\n".join(
            f'"{kind}": [\n' + ",\n".join(json.dumps(message) for message in messages) + "\n]"
            for kind, messages in contents.items()
        )
        + "\n}\n"
    )


if __name__ == "__main__":
    main()
