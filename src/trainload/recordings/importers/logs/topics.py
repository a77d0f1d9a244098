"""Messages of a log to streams and frames: a stream per topic, type and form; acquisition and receive time apart.

The stamp in the message is the acquisition time and taken for the hardware's; the log's own time is when the host
received it. A message without a stamp has only the log's time, and its stream is host-stamped. Who published a message
makes no stream of its own.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from trainload.codecs.compression import ZSTD_MAGIC, zstd_decompress
from trainload.errors import UsageError
from trainload.recordings.format.envelopes import ENVELOPE_STREAM, RECORD_STREAM
from trainload.recordings.format.exported import LOG_TIME, LOG_TIME_FOR_ALL
from trainload.recordings.importers.logs.channel_numbers import identity
from trainload.recordings.importers.logs.messages.json import json_parser
from trainload.recordings.importers.logs.messages.protobuf import protobuf_parser
from trainload.recordings.importers.logs.messages.ros import UNDECODED, ros_parser
from trainload.recordings.importers.logs.messages.video_units import is_key_frame
from trainload.recordings.importers.sensor_types import Form, MessageParser, ParsedMessage
from trainload.recordings.importers.source import Channel, Damage, SourceFrame, SourceStream, Wrapping

_BAD_MESSAGE = (
    ValueError,
    IndexError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
    struct.error,
)
CLOCKS = ("hardware", "host")
TIMES = ("stamp", "log")
MAX_MESSAGE_BYTES = 256 << 20  # stored or unpacked: what an import may hold in memory
_MOST_REASONS = 20
MAX_FORMS = 64  # of one topic; pictures that are cut out at ever new sizes are kept without a shape from there on


_RESERVED = (ENVELOPE_STREAM, RECORD_STREAM)
_OF_PUBLISHER = ("callerid", "latching")  # metadata that differs between the publishers of one topic


class LogMessage(NamedTuple):
    """One message as a log has it. channel: position in the list of channels."""

    channel: int
    log_ns: int
    publish_ns: int
    sequence: int
    data: memoryview


class TopicStreams:
    """Turns log messages into SourceStreams and SourceFrames.

    times: "log" takes the log's time for every frame, for logs whose stamps run on another clock (a simulation, the
    time since boot); the stamp stays in the envelope.
    clocks: the user's word on a topic's or stream's clock, over what the messages suggest. A message that is not what
    its type says is kept whole in a stream of its own and counted in `damage`, without a lost frame. packed_messages:
    True where the log says that each message is a Zstandard frame; CDR messages that are one need no such word.
    """

    def __init__(
        self,
        channels: list[Channel],
        damage: Damage,
        clocks: Mapping[str, str] | None = None,
        *,
        times: str = "stamp",
        packed_messages: bool = False,
    ) -> None:
        for name, clock in (clocks or {}).items():
            if clock not in CLOCKS:
                raise UsageError(f'the clock of {name!r} must be "hardware" or "host", not {clock!r}')
        self.channels = channels
        if times not in TIMES:
            raise UsageError(f"times come from the {' or the '.join(TIMES)}, not from {times!r}")
        self._by_stamp = times == "stamp"
        self._unstamped = LOG_TIME if self._by_stamp else LOG_TIME_FOR_ALL
        self._damage = damage
        self._clocks = {name.strip("/"): clock for name, clock in (clocks or {}).items()}
        self._packed_messages = packed_messages
        self._parsers: dict[int, MessageParser] = {}
        self._groups: dict[int, int] = {}  # channel to the first one that differs from it in its publisher alone
        self._group_of: dict[tuple[object, ...], int] = {}
        self._streams: dict[tuple[int, Form, bool], str] = {}
        self._forms: Counter[int] = Counter()
        self._names = set(_RESERVED)
        self._numbers: Counter[str] = Counter()  # the last one behind each name
        self._undecoded: Counter[tuple[int, str]] = Counter()
        self._kept_as_bytes: Counter[tuple[int, str]] = Counter()

    def items(self, message: LogMessage) -> Iterator[SourceStream | SourceFrame]:
        """The message's frame, and before it its stream where that is new."""
        if message.data[:4] == ZSTD_MAGIC:
            message = self._unpacked(message)
        parsed = self._parse(message)
        stamped = parsed.stamp_ns > 0 and self._by_stamp
        group = self._groups.get(message.channel)
        if group is None:
            group = self._group(message.channel)
        key = (group, parsed.form, stamped)
        name = self._streams.get(key)
        if name is None and self._forms[group] >= MAX_FORMS:
            key = (group, _without_shape(parsed.form), stamped)
            name = self._streams.get(key)
        if name is None:
            stream = self._stream(key, parsed)
            name = self._streams[key] = stream.name
            self._forms[group] += 1
            yield stream
        wrapping = Wrapping(
            message.log_ns,
            message.publish_ns,
            message.sequence,
            parsed.join,
            parsed.offset,
            parsed.shell,
            message.channel,
        )
        time_ns = parsed.stamp_ns if stamped else message.log_ns
        alone = is_key_frame(parsed.form.encoding, parsed.data)
        yield SourceFrame(name, time_ns, parsed.data, message.log_ns, 0, wrapping, alone)

    def say(self, clocks: Mapping[str, str], *, by_log_time: bool) -> None:
        """What an export of ours says of the streams; the user's word on a clock goes before it."""
        self._clocks = {**clocks, **self._clocks}
        if by_log_time:
            self._by_stamp, self._unstamped = False, LOG_TIME_FOR_ALL

    def notes(self) -> list[str]:
        """What the user should know of the messages that came, in sentences."""
        publishers = Counter(self._groups.values())
        topics = [channel.topic for channel in self.channels]
        undecoded = [
            f"{count:,} messages of {topics[number]} are {kind}: kept as bytes, without stamps and arrays"
            for (number, kind), count in self._undecoded.items()
        ]
        as_bytes = [
            f"{count:,} messages of {topics[number]} are kept as bytes, not as an array: {why}"
            for (number, why), count in self._kept_as_bytes.most_common(_MOST_REASONS)
        ]
        shared = [
            f"{topics[group]} has {count:,} publishers; their messages are in one stream"
            for group, count in publishers.items()
            if count > 1
        ]
        return undecoded + as_bytes + shared

    def _group(self, number: int) -> int:
        """The first channel that differs from this one in its publisher alone."""
        channel = self.channels[number]
        metadata = {key: value for key, value in channel.metadata.items() if key not in _OF_PUBLISHER}
        same = identity(replace(channel, metadata=metadata))
        group = self._groups[number] = self._group_of.setdefault(same, number)
        return group

    def _unpacked(self, message: LogMessage) -> LogMessage:
        """The message in a Zstandard frame; one that is none, or that does not unpack, as it is."""
        channel = self.channels[message.channel]
        if not self._packed_messages and channel.encoding != "cdr":
            return message
        try:
            return message._replace(data=memoryview(zstd_decompress(message.data, MAX_MESSAGE_BYTES)))
        except ValueError as error:
            self._damage.add(f"{channel.topic} at {message.log_ns}: kept compressed: {error}")
            return message

    def _parse(self, message: LogMessage) -> ParsedMessage:
        channel = self.channels[message.channel]
        try:
            if message.channel not in self._parsers:
                self._parsers[message.channel] = _parser_of(channel)
            parsed = self._parsers[message.channel](message.data)
            if parsed.form.why:
                self._kept_as_bytes[message.channel, parsed.form.why] += 1
            if parsed.form.encoding in UNDECODED:
                self._undecoded[message.channel, parsed.form.encoding] += 1
            return parsed
        except _BAD_MESSAGE as error:
            place = f"{channel.topic} at {message.log_ns}"
            self._damage.add(f"{place}: no {channel.type_name}, kept as bytes: {error}")
            return ParsedMessage(Form("generic", channel.encoding), 0, message.data)

    def _stream(self, key: tuple[int, Form, bool], parsed: ParsedMessage) -> SourceStream:
        channel, (number, form, stamped) = self.channels[key[0]], key
        plain = channel.topic.strip("/") or "topic"
        name = self.take_name(plain)
        may_be_plain = plain not in _RESERVED and self._forms[number] < MAX_FORMS  # the last one is of mixed forms
        clock = self._clocks.get(name, self._clocks.get(plain, "hardware" if stamped else "host"))
        return SourceStream(
            name,
            form.kind,
            form.encoding,
            form.dtype,
            form.shape,
            clock=clock,
            time_source="stamp in the message" if stamped else self._unstamped,
            receive_source="log time",
            calibration={"frame_id": parsed.frame_id} if parsed.frame_id else {},
            channel=number,
            topic=plain if may_be_plain else "",
            fields=dict(form.fields),
            layout=form.layout,
        )

    def take_name(self, plain: str) -> str:
        """`plain`, or where it is taken with the next free number behind it."""
        name = plain
        while name in self._names:
            self._numbers[plain] += 1
            name = f"{plain}#{self._numbers[plain] + 1}"
        self._names.add(name)
        return name


def _without_shape(form: Form) -> Form:
    typed = form.dtype is not None or form.layout is not None
    return Form(form.kind, form.encoding if typed else "bytes")


def _parser_of(channel: Channel) -> MessageParser:
    if channel.encoding in ("cdr", "ros1"):
        return ros_parser(channel)
    if channel.encoding == "protobuf":
        return protobuf_parser(channel)
    if channel.encoding == "json":
        return json_parser(channel)
    whole = Form("generic", channel.encoding or "unknown")
    return lambda data: ParsedMessage(whole, 0, data)
