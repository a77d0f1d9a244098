"""What a recording holds, measured: rates, jitter, gaps, lost frames, window fill, compression. For `trainload info`.

From the index alone, but for the compression ratio, for which a few payloads of each stream are unpacked, and for the
samples of packed streams, whose times are in the payloads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trainload.errors import FormatError
from trainload.recordings.format.hyperframe import (
    CODEC_MASK,
    HARDWARE_TIME,
    INDEX_ENTRY_BYTES,
    KEY_FRAME,
    LATE,
    SHUFFLED,
)
from trainload.recordings.reading.sample_times import has_sample_times, sample_timing

if TYPE_CHECKING:
    from trainload.recordings.reading.hyperframe import HyperframeReader

_SAMPLED_FRAMES = 16  # payloads unpacked per stream to measure compression
FEW_PAYLOADS, FEW_BYTES = 10_000, 64 << 20  # of packed streams, read without being asked: within a second
_NO_TIMING = {
    "rate_hz": None,
    "jitter_ms": None,
    "jitter_p99_ms": None,
    "longest_gap_ms": None,
    "longest_gap_at_ns": None,
}


def hyperframe_facts(reader: HyperframeReader, *, samples: bool | None = None) -> dict[str, Any]:
    """The recording as JSON values; times in nanoseconds where the name ends in _ns, in milliseconds in _ms.

    samples: read the payloads of packed streams, for the timing of their samples; None: where they are few and small.
    Raises FormatError where window table or side sections are broken.
    """
    header = reader.header
    samples = _are_few(reader) if samples is None else samples
    frames = sum(len(file.index) for file in reader.files)
    return {
        "kind": "HFRM",
        "paths": list(reader.paths),
        "bytes": sum(file.source.size for file in reader.files),
        "profile": "plain" if header.plain else header.profile_version,
        "frames": frames,
        "index_bytes": frames * INDEX_ENTRY_BYTES,
        "sections": sorted({tag.decode("ascii", "backslashreplace") for f in reader.files for tag in f.section_tags}),
        "start_ns": reader.start_ns,
        "end_ns": reader.end_ns,
        "duration_s": (reader.end_ns - reader.start_ns) / 1e9,
        "window_ns": header.window_length_ns,
        "windows": len(reader.windows),
        "streams": [stream_facts(reader, name, samples=samples) for name in reader.streams],
        "drops": [
            {"stream": _name(reader, drop.stream_id), "reason": drop.reason, "frames": drop.frames, "bytes": drop.bytes}
            for drop in reader.drops
        ],
        "meta": reader.meta,
    }


def stream_facts(reader: HyperframeReader, name: str, *, samples: bool) -> dict[str, Any]:
    """What one stream holds: see docs/spec/hyperframe.md for the flags that are counted.

    The timing of a packed stream is that of its samples, and None where they are not read.
    """
    info, flags = reader.streams[name], reader.flags(name)
    stored = int(reader.sizes(name).sum(dtype=np.int64))
    compression, unpacked = _compression(reader, name, info.codec)
    timing = _sample_timing(reader, name, samples) if info.packed else _timing(reader.timestamps(name))
    return {
        "id": info.id,
        "name": name,
        "kind": info.kind,
        "encoding": info.encoding,
        "dtype": None if info.dtype is None else str(info.dtype),
        "clock": info.clock,
        "packed": info.packed,
        "frames": len(flags),
        "samples_per_frame": unpacked / info.dtype.itemsize if info.packed and info.dtype and unpacked else None,
        "stored_bytes": stored,
        "samples": None,
        "nominal_rate_hz": info.rate_hz,
        **timing,
        "lost_samples": timing.get("lost_samples"),
        "lost_frames": _lost(reader.stream_index(name)),
        "late_frames": int(np.count_nonzero(flags & LATE)),
        "key_frames": int(np.count_nonzero(flags & KEY_FRAME)),
        "hardware_stamped": int(np.count_nonzero(flags & HARDWARE_TIME)),
        "window_fill": _window_fill(reader, info.id),
        "compression": compression,
    }


def _are_few(reader: HyperframeReader) -> bool:
    sizes = [reader.sizes(name) for name, info in reader.streams.items() if info.packed]
    return sum(map(len, sizes)) <= FEW_PAYLOADS and sum(int(each.sum(dtype=np.int64)) for each in sizes) <= FEW_BYTES


def _sample_timing(reader: HyperframeReader, name: str, read: bool) -> dict[str, Any]:
    if not read or not has_sample_times(reader.streams[name]):
        return _NO_TIMING
    try:
        return _NO_TIMING | sample_timing(reader.iter_positions(name, 0, reader.count(name)))
    except FormatError as error:
        return _NO_TIMING | {"error": str(error)}


def _timing(times: NDArray[np.int64]) -> dict[str, Any]:
    """Rate over the whole stream; jitter as the spread of the intervals about their median; the longest gap."""
    intervals = np.diff(times)
    if not len(intervals) or times[-1] == times[0]:
        return _NO_TIMING
    off = np.abs(intervals - np.median(intervals))
    longest = int(intervals.argmax())
    return {
        "rate_hz": len(intervals) * 1e9 / float(times[-1] - times[0]),
        "jitter_ms": float(np.sqrt(np.mean(off**2))) / 1e6,
        "jitter_p99_ms": float(np.percentile(off, 99)) / 1e6,
        "longest_gap_ms": float(intervals[longest]) / 1e6,
        "longest_gap_at_ns": int(times[longest]),
    }


def _lost(numbers: NDArray[np.uint32]) -> int:
    """Numbers missing between the first and the last StreamIndex."""
    unique = np.unique(numbers)
    return int(unique[-1]) - int(unique[0]) + 1 - len(unique) if len(unique) else 0


def _window_fill(reader: HyperframeReader, stream_id: int) -> dict[str, Any]:
    """Share of windows in which the stream has a frame, and frames per window."""
    counts = []
    for file in reader.files:
        column = np.flatnonzero(file.windows.stream_ids == stream_id)
        counts.append(file.windows.count[:, column[0]] if len(column) else np.zeros(len(file.windows), np.uint32))
    count = np.concatenate(counts)
    if not len(count):
        return {"share": 0.0, "mean": 0.0, "least": 0, "most": 0}
    return {
        "share": float(np.mean(count > 0)),
        "mean": float(count.mean()),
        "least": int(count.min()),
        "most": int(count.max()),
    }


def _compression(reader: HyperframeReader, name: str, asked: str) -> tuple[dict[str, Any], float | None]:
    """The codec asked for, frames that carry one, stored / unpacked bytes; and bytes of an unpacked frame, on average.

    Both averages are over some frames spread over the stream.
    """
    flags, sizes = reader.flags(name), reader.sizes(name)
    compressed = int(np.count_nonzero(flags & CODEC_MASK))
    facts: dict[str, Any] = {
        "codec": asked,
        "compressed_frames": compressed,
        "shuffled_frames": int(np.count_nonzero(flags & SHUFFLED)),
        "ratio": None,
    }
    if not compressed:
        facts["ratio"] = 1.0 if len(flags) else None
        return facts, float(sizes.mean()) if len(sizes) else None
    picked = np.unique(np.linspace(0, len(flags) - 1, _SAMPLED_FRAMES).astype(np.int64)).tolist()
    try:
        unpacked = sum(len(reader.read_at_index(name, position).data) for position in picked)
    except FormatError as error:
        facts["error"] = str(error)
        return facts, None
    facts["ratio"] = float(sizes[picked].sum(dtype=np.int64)) / max(1, unpacked)
    return facts, unpacked / len(picked)


def _name(reader: HyperframeReader, stream_id: int) -> str:
    info = reader.infos.get(stream_id)
    return info.name if info else str(stream_id)
