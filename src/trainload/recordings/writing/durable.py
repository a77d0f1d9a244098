"""What of a recording a power cut cannot take any more, so that whoever sent the frames may forget them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from trainload.recordings.writing.pending_frames import PendingFrame
from trainload.recordings.writing.streams import OpenStream


@dataclass(frozen=True, slots=True)
class Durable:
    """How far everything is on the disk; it only grows, and only by a sync that succeeded.

    until_ns: every frame with a timestamp up to this, -1 for none; but for late ones, which came after their window: of
    these only `frames` tells. windows: whole windows, in all parts together.
    frames: by stream, the StreamIndex up to which every frame is on the disk or was dropped, -1 for none; of a stream
    whose numbers go up. Of a packed stream: the number of its sample, as given, or counted from 0.
    """

    until_ns: int = -1
    windows: int = 0
    frames: dict[str, int] = field(default_factory=dict)


def durable_now(
    streams: Iterable[OpenStream], pending: Iterable[PendingFrame], taken_to_ns: int, windows: int
) -> Durable:
    """What a sync has just made safe. pending: frames in no window yet. taken_to_ns: the end of the last window."""
    firsts: dict[int, int] = {}
    for frame in pending:
        stream_id = frame.stream.info.id
        firsts[stream_id] = min(firsts.get(stream_id, frame.stream_index), frame.stream_index)
    frames = {s.info.name: min(s.taken_index, firsts.get(s.info.id, s.taken_index + 1) - 1) for s in streams}
    return Durable(taken_to_ns, windows, frames)
