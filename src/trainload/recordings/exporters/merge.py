"""Several recordings as one: the parts of a split recording joined, or sensors that were recorded apart."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainload.errors import UsageError
from trainload.formats.durations import duration_ns
from trainload.formats.progress import Progress
from trainload.recordings.exporters.rewrite import RewriteSummary, Selection, rewrite, unknown_sections
from trainload.recordings.format.hyperframe import MAX_STREAMS
from trainload.recordings.format.sections import Drop
from trainload.recordings.format.streams import StreamInfo
from trainload.recordings.reading.hyperframe import HyperframeReader


def merge_recordings(
    recordings: Sequence[HyperframeReader],
    path: str | os.PathLike[str],
    *,
    window: str | int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> RewriteSummary:
    """Write all frames of all recordings to `path`, by time; streams of one name become one.

    Stored bytes, StreamIndex, receive times, durations, drop counts and unknown sections are kept; a frame that two
    inputs share is written once. META of the first input counts; what others say differently stands under
    "merged_from". window: of the new file; left out, that of the first input. progress: gets frames. Raises UsageError
    where one name means two kinds of stream, or `path` exists; FormatError for damaged frames.
    """
    if not recordings:
        raise UsageError("nothing to merge")
    infos, selections = _join(recordings)
    window_ns = recordings[0].header.window_length_ns if window is None else duration_ns(window, what="window")
    files = [file for recording in recordings for file in recording.files]
    return rewrite(
        path,
        list(infos.values()),
        selections,
        window_ns=window_ns,
        meta=_join_meta(recordings, path),
        drops=_join_drops(recordings, infos),
        unknown=unknown_sections(files),
        inputs=files,
        overwrite=overwrite,
        progress=progress,
    )


def _join(recordings: Sequence[HyperframeReader]) -> tuple[dict[str, StreamInfo], list[Selection]]:
    infos: dict[str, StreamInfo] = {}
    selections: list[Selection] = []
    used: set[int] = set()
    for recording in recordings:
        for name, info in recording.streams.items():
            known = infos.get(name)
            if known is None:
                free = info.id if info.id not in used else next(n for n in range(MAX_STREAMS) if n not in used)
                known = infos[name] = replace(info, id=free)
                used.add(free)
            elif replace(info, id=known.id, codec=known.codec) != known:
                raise UsageError(
                    f"stream {name!r} is not the same in all inputs: {recording.path} has {info}, not {known}"
                )
            for file in recording.files:
                if info.id in file.rows:
                    selections.append(Selection(file, file.rows[info.id], known.id))
    if not selections:
        raise UsageError("the inputs hold no frame")
    return infos, selections


def _join_meta(recordings: Sequence[HyperframeReader], path: str | os.PathLike[str]) -> dict[str, Any]:
    """All META; "merged_from" names the inputs as seen from the new file's folder, so that no home folder is told."""
    folder = Path(path).absolute().parent
    merged: dict[str, Any] = {}
    for recording in recordings:
        for key, value in recording.meta.items():
            merged.setdefault(key, value)
    others = [{"path": os.path.relpath(recording.path, folder), "meta": recording.meta} for recording in recordings]
    if any(merged[key] != value for recording in recordings for key, value in recording.meta.items()):
        merged["merged_from"] = others
    return merged


def _join_drops(recordings: Sequence[HyperframeReader], infos: dict[str, StreamInfo]) -> list[Drop]:
    sums: dict[tuple[int, str], list[int]] = {}
    for recording in recordings:
        for drop in recording.drops:
            info = recording.infos.get(drop.stream_id)
            if info is not None:
                total = sums.setdefault((infos[info.name].id, drop.reason), [0, 0])
                total[0] += drop.frames
                total[1] += drop.bytes
    return [Drop(stream_id, reason, *total) for (stream_id, reason), total in sums.items()]
