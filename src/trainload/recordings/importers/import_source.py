"""A Source written as a recording: streams, frames, what the log had around them, and the facts of the import in META.

Memory holds two windows of frames and one chunk of the source, whatever their number.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trainload.formats.durations import duration_ns
from trainload.formats.progress import Progress
from trainload.recordings.format.envelopes import ENVELOPE_ENCODING, ENVELOPE_STREAM, Envelope
from trainload.recordings.format.hyperframe import MAX_TIMESTAMP_NS
from trainload.recordings.format.streams import is_compressed
from trainload.recordings.importers.lateness import Lateness
from trainload.recordings.importers.resume import Leftover
from trainload.recordings.importers.source import Channel, Damage, Source, SourceFrame, SourceStream
from trainload.recordings.importers.stream_names import WantedNames
from trainload.recordings.importers.window_length import WindowLength, choose_window_length
from trainload.recordings.writing.writer import HyperframeWriter, WriteSummary, none_committed
from trainload.storage.target import check_target

ENVELOPE_BATCH_BYTES = 64 << 10
_TELL_EVERY = 256  # frames
_MAX_DURATION_NS = (1 << 32) - 1


@dataclass(frozen=True, slots=True, repr=False)
class ImportReport:
    """What an import wrote and what it could not. streams: per stream its clock and where its times come from."""

    summary: WriteSummary
    window: WindowLength
    streams: dict[str, dict[str, Any]]
    damage: Damage
    notes: list[str]

    def __repr__(self) -> str:
        summary, damage = self.summary, self.damage
        unread = f"; unreadable: {damage.frames:,} frames, {damage.bytes:,} bytes" if damage else ""
        counts = f"{summary.frames:,} frames of {len(self.streams):,} streams in {summary.windows:,} windows"
        return f"ImportReport({summary.path!r}: {counts}{unread})"

    def facts(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        return {
            "path": self.summary.path,
            "frames": self.summary.frames,
            "windows": self.summary.windows,
            "bytes_in": self.summary.bytes_in,
            "file_bytes": self.summary.file_bytes,
            "late": self.summary.late,
            "window_ns": self.window.window_ns,
            "window_reason": self.window.reason,
            "streams": self.streams,
            "unreadable": _damage_facts(self.damage),
            "notes": [*self.notes, *self.summary.warnings],
        }


def import_source(
    source: Source,
    out: str | os.PathLike[str],
    *,
    window: str | int = "auto",
    codec: str = "none",
    overwrite: bool = False,
    resume: bool = False,
    progress: Progress | None = None,
    kind: str = "",
    inputs: Sequence[str | os.PathLike[str]] = (),
) -> ImportReport:
    """Write all of `source` as the recording `out`, which has its name only when it is whole.

    window: "auto", or a length. codec: for streams that are not compressed already. resume: go on where an interrupted
    import of the same source stopped. progress: gets bytes or frames of the source. inputs: paths that are read, none
    of which may be `out`. Raises FormatError for a source that is not what it should be, UsageError where `out` exists;
    an interrupted import can be resumed.
    """
    check_target(out, overwrite=overwrite, inputs=inputs)
    leftover = Leftover.of(out, kind) if resume else None
    try:
        choice = _window_length(source, window, leftover)
        summary, run = _write(source, out, choice, leftover, codec, overwrite, progress, kind)
    finally:
        if leftover is not None:
            leftover.close()
    about_late = run.lateness.sentence(summary.late)
    if about_late:
        source.notes.append(about_late)
    if progress is not None:
        _, total = source.progress()
        progress(total, total)
    return ImportReport(summary, choice, run.streams, source.damage, source.notes)


def _write(
    source: Source,
    out: str | os.PathLike[str],
    choice: WindowLength,
    leftover: Leftover | None,
    codec: str,
    overwrite: bool,
    progress: Progress | None,
    kind: str,
) -> tuple[WriteSummary, _Import]:
    """Write the file; what it holds, and the import as it went."""
    meta: dict[str, Any] = {"import": {"format": kind}}
    committed = none_committed if leftover is None else leftover.stored
    with HyperframeWriter(out, window=choice.window_ns, meta=meta, overwrite=overwrite, committed=committed) as writer:
        run = _Import(writer, source, codec, meta, leftover)
        try:
            run.add_all(progress)
        except KeyboardInterrupt:
            writer.write_closed()
            writer.detach()
            raise
        summary = writer.finalize()
    if leftover is not None:
        leftover.remove()
    return summary, run


def _window_length(source: Source, window: str | int, leftover: Leftover | None) -> WindowLength:
    if leftover is not None:
        return WindowLength(leftover.window_ns, "window of the import that was interrupted")
    if window == "auto":
        return choose_window_length(source.survey())
    return WindowLength(duration_ns(window, what="window"), "window as asked for")


class _Import:
    """The state of one import: stream ids, frame counts, and the envelopes that wait for their frame."""

    def __init__(
        self, writer: HyperframeWriter, source: Source, codec: str, meta: dict[str, Any], leftover: Leftover | None
    ) -> None:
        self._writer = writer
        self._leftover = leftover
        self._source = source
        self._codec = codec
        self._all_meta = meta
        self._meta: dict[str, Any] = meta["import"]
        self._ids: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._envelopes: list[bytes] = []
        self._envelope_bytes = 0
        self._batches = 0
        self._newest_ns = 0
        self._names = WantedNames()
        self.streams: dict[str, dict[str, Any]] = {}
        self.lateness = Lateness()

    def add_all(self, progress: Progress | None) -> None:
        """Everything of the source."""
        for count, item in enumerate(self._source.items()):
            if isinstance(item, SourceStream):
                self.add_stream(item)
            else:
                self.add_frame(item)
            if progress is not None and count % _TELL_EVERY == 0:
                progress(*self._source.progress())
        self.finish()

    def add_stream(self, stream: SourceStream) -> None:
        """Declare a stream; what cannot be in the stream table goes into META."""
        self._declare(
            stream.name,
            kind=stream.kind,
            encoding=stream.encoding,
            dtype=stream.dtype,
            shape=stream.shape,
            rate_hz=stream.rate_hz,
            frame_duration=stream.frame_duration_ns,
            shuffle=stream.shuffle,
            clock=stream.clock,
            codec=self._codec_for(stream),
            packed=stream.packed,
            calibration=stream.calibration,
            fields=stream.fields,
            layout=stream.layout,
        )
        self._counts[stream.name] = 0
        self._names.add(stream)
        self.streams[stream.name] = {
            "clock": stream.clock,
            "time_source": stream.time_source,
            "receive_source": stream.receive_source,
            "channel": stream.channel,
            "frames": 0,
        }
        self._write_meta()

    def add_frame(self, frame: SourceFrame) -> None:
        """Append a frame and keep its wrapping. A time that the format cannot hold is counted as damage."""
        if not 0 <= frame.timestamp_ns <= MAX_TIMESTAMP_NS:
            reason = f"{frame.stream}: the time {frame.timestamp_ns:,} ns does not fit"
            self._source.damage.add(reason, frames=1, size_bytes=len(frame.data))
            return
        number = self._counts[frame.stream] if frame.number < 0 else frame.number
        self._counts[frame.stream] += 1
        stream_id = self._ids[frame.stream]
        self._append(frame, stream_id, number)
        self.lateness.add(frame)
        if frame.wrapping is not None:
            self._wrap(Envelope(stream_id, number, *frame.wrapping), frame.timestamp_ns)

    def _append(self, frame: SourceFrame, stream_id: int, number: int) -> None:
        receive_ns = frame.receive_ns if 0 <= frame.receive_ns <= MAX_TIMESTAMP_NS else 0
        duration = frame.duration_ns if 0 <= frame.duration_ns <= _MAX_DURATION_NS else 0
        self._writer.append(
            stream_id,
            frame.timestamp_ns,
            frame.data,
            receive_ns=receive_ns,
            duration_ns=duration,
            stream_index=number,
            key_frame=frame.key_frame,
        )

    def _declare(self, name: str, **about: Any) -> None:
        self._ids[name] = self._writer.add_stream(name, **about)
        if self._leftover is not None:
            self._leftover.name(self._ids[name], name)

    def finish(self) -> None:
        """Write the last envelopes and all windows, give streams their last names, and note the facts of the import."""
        self._flush_envelopes()
        for name, count in self._counts.items():
            self.streams[name]["frames"] = count
        self._writer.flush()  # names in its windows stay as they were, so that an import can be resumed
        self._rename()
        self._write_meta()

    def _rename(self) -> None:
        """Of the streams of a topic, the one with the most frames gets its name."""
        names: dict[str, str] = {}
        for one, other in self._names.swaps(self._counts):
            self._writer.swap_names(self._ids[one], self._ids[other])
            self.streams[one], self.streams[other] = self.streams[other], self.streams[one]
            names |= {one: other, other: one}
        self._source.notes += self._names.notes(self._counts, names)

    def _codec_for(self, stream: SourceStream) -> str:
        return "none" if is_compressed(stream.encoding) else self._codec

    def _wrap(self, envelope: Envelope, timestamp_ns: int) -> None:
        if ENVELOPE_STREAM not in self._ids:
            self._declare(ENVELOPE_STREAM, kind="envelopes", encoding=ENVELOPE_ENCODING, clock="host", codec="zstd")
        record = envelope.to_bytes()
        self._envelopes.append(record)
        self._newest_ns = max(self._newest_ns, timestamp_ns)
        self._envelope_bytes += len(record)
        if self._envelope_bytes >= ENVELOPE_BATCH_BYTES:
            self._flush_envelopes()

    def _flush_envelopes(self) -> None:
        if not self._envelopes:
            return
        stream_id = self._ids[ENVELOPE_STREAM]
        self._writer.append(stream_id, self._newest_ns, b"".join(self._envelopes), stream_index=self._batches)
        self._batches += 1
        self._envelopes.clear()
        self._envelope_bytes = 0

    def _write_meta(self) -> None:
        self._meta["streams"] = self.streams
        known = self._meta.setdefault("channels", [])
        known += [_channel_facts(channel) for channel in self._source.channels[len(known) :]]
        self._meta["unreadable"] = _damage_facts(self._source.damage)
        self._meta["notes"] = self._source.notes
        for key, value in self._source.meta.items():
            self._all_meta.setdefault(key, value)


def _channel_facts(channel: Channel) -> dict[str, Any]:
    try:
        schema, coding = channel.schema.decode("utf-8"), "utf-8"
    except UnicodeDecodeError:
        schema, coding = base64.b64encode(channel.schema).decode("ascii"), "base64"
    return {
        "topic": channel.topic,
        "type": channel.type_name,
        "encoding": channel.encoding,
        "schema_encoding": channel.schema_encoding,
        "schema": schema,
        "schema_coding": coding,
        "metadata": dict(channel.metadata),
    }


def _damage_facts(damage: Damage) -> dict[str, Any]:
    return {"frames": damage.frames, "bytes": damage.bytes, "reasons": damage.reasons}
