"""Schemas and channels of one MCAP file, by the numbers that it gives them.

A summary may repeat channels and leave out their schemas, which then stand in the data section alone. So a channel
waits for its schema until its first message.
"""

from __future__ import annotations

import struct
from dataclasses import replace

from trainload.recordings.format.log_records import text_at, texts_at
from trainload.recordings.importers.logs.channel_numbers import ChannelNumbers
from trainload.recordings.importers.logs.mcap.structure import CHANNEL, SCHEMA
from trainload.recordings.importers.source import Channel, Damage


class McapChannels:
    """channels: of the whole log, to which those of this file are added. name: what messages call the file."""

    def __init__(self, channels: list[Channel], damage: Damage, name: str) -> None:
        self._damage = damage
        self._name = name
        self._numbers = ChannelNumbers(channels, damage, name, "channel")
        self._schemas: dict[int, tuple[str, str, bytes]] = {}
        self._waiting: dict[int, tuple[int, Channel]] = {}  # for the schema of that number

    def define(self, opcode: int, body: memoryview) -> None:
        """Take a schema or channel record; one that is broken is counted as damage."""
        try:
            if opcode == SCHEMA:
                self._schema(body)
            elif opcode == CHANNEL:
                self._channel(body)
        except (ValueError, struct.error) as error:
            self._damage.add(f"{self._name}: a broken {'schema' if opcode == SCHEMA else 'channel'}: {error}")

    def place(self, number: int) -> int:
        """Which channel of the log it is."""
        if number in self._waiting:
            self._resolve(number)
        return self._numbers.place(number)

    def finish(self) -> None:
        """Add the channels that had no message."""
        for number in list(self._waiting):
            self._resolve(number)

    def _resolve(self, number: int) -> None:
        schema, channel = self._waiting.pop(number)
        if schema not in self._schemas:
            self._damage.add(f"{self._name}: schema {schema} of {channel.topic} is not in the file")
        self._numbers.add(number, self._with_schema(channel, schema))

    def _with_schema(self, channel: Channel, schema: int) -> Channel:
        name, encoding, definition = self._schemas.get(schema, ("", "", b""))
        return replace(channel, type_name=name, schema_encoding=encoding, schema=definition)

    def _schema(self, body: memoryview) -> None:
        number = struct.unpack_from("<H", body)[0]
        name, place = text_at(body, 2)
        encoding, place = text_at(body, place)
        size = struct.unpack_from("<I", body, place)[0]
        if size > len(body) - place - 4:
            raise ValueError(f"a definition of {size:,} bytes where {len(body) - place - 4:,} are left")
        self._schemas.setdefault(number, (name, encoding, bytes(body[place + 4 : place + 4 + size])))

    def _channel(self, body: memoryview) -> None:
        number, schema = struct.unpack_from("<HH", body)
        if number in self._numbers:
            return
        topic, place = text_at(body, 4)
        encoding, place = text_at(body, place)
        metadata, _ = texts_at(body, place)
        channel = Channel(topic, "", encoding, metadata=metadata)
        if schema and schema not in self._schemas:
            self._waiting.setdefault(number, (schema, channel))
            return
        self._waiting.pop(number, None)
        self._numbers.add(number, self._with_schema(channel, schema))
