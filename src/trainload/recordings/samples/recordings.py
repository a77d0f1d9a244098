"""Which recordings a dataset reads, and which parts of them carry the asked tags."""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainload.errors import UsageError
from trainload.recordings.aligning.clock import check_clocks
from trainload.recordings.aligning.recording import RecordingTimes
from trainload.recordings.format.envelopes import IMPORT_PREFIX
from trainload.recordings.reading.hyperframe import HyperframeReader
from trainload.recordings.reading.pictures import PICTURE_ENCODINGS
from trainload.recordings.reading.recording_files import SUFFIX
from trainload.storage.containers import find_files
from trainload.storage.location import is_url

OneRecording = str | os.PathLike[str] | HyperframeReader
Recordings = OneRecording | Sequence[OneRecording]


def open_recordings(recordings: Recordings) -> tuple[HyperframeReader, ...]:
    """The recordings of one or many files, a pattern such as "recordings/*.hfr", or a folder of single recordings.

    URLs and patterns of them are taken too, with the credentials of the environment.
    Parts of one split recording are given as an open reader (`trainload.open(folder)`), so that no clip ends at a seam.
    Readers pickle as their paths and open again where they are used. Raises UsageError where nothing is found.
    """
    found: list[HyperframeReader] = []
    for one in [recordings] if isinstance(recordings, str | os.PathLike | HyperframeReader) else recordings:
        if isinstance(one, HyperframeReader):
            found.append(one)
        elif is_url(one):
            found += [HyperframeReader(url) for url in find_files(one)]
        elif Path(one).is_dir():
            found += [HyperframeReader(path) for path in sorted(Path(one).glob(f"*{SUFFIX}"))]
        elif Path(one).exists():
            found.append(HyperframeReader(one))
        else:
            found += [HyperframeReader(path) for path in sorted(glob.glob(os.fspath(one)))]  # noqa: PTH207
    if not found:
        raise UsageError(f"no {SUFFIX} file in {recordings!r}")
    return tuple(found)


def common_streams(recordings: Sequence[HyperframeReader], streams: Sequence[str] | None) -> tuple[str, ...]:
    """The asked streams, or those of sensors that every recording has. Raises UsageError for one that is missing.

    What an import keeps beside the sensors (IMPORT_PREFIX) is read only where it is asked for.
    """
    if streams is None:
        sensors = [name for name in recordings[0].streams if not name.startswith(IMPORT_PREFIX)]
        return tuple(name for name in sensors if all(name in reader for reader in recordings))
    for reader in recordings:
        for name in streams:
            if name not in reader:
                raise UsageError(f"no stream {name!r}; the recording has {', '.join(reader.streams)}: {reader.path}")
    return tuple(streams)


def warn_of_bytes(recordings: Sequence[HyperframeReader], streams: Sequence[str], *, stacklevel: int = 3) -> None:
    """One warning that names the streams whose samples are bytes, which a model could take for numbers."""
    found = []
    for name in streams:
        info = next((reader.streams[name] for reader in recordings if name in reader), None)
        encoding = "" if info is None else info.encoding.lower()
        if info is not None and info.is_opaque and encoding != "raw" and encoding not in PICTURE_ENCODINGS:
            found.append(f"{name!r} ({info.encoding})")
    if found:
        warnings.warn(
            f"bytes, uint8 (n,), and not numbers are the samples of {', '.join(found)}. Leave them out with "
            "streams=[...], or decode them yourself; video: recording.read(stream, time, decode=True)",
            UserWarning,
            stacklevel=stacklevel + 1,
        )


def mixes_clocks(reader: HyperframeReader, streams: Sequence[str]) -> bool:
    """True where some of these streams are host-stamped and others hardware-stamped: their times do not compare."""
    return check_clocks(RecordingTimes(reader), streams, allow_host=True)


def tagged(
    reader: HyperframeReader, tags: Collection[str], starts: NDArray[np.int64], ends: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """bool [n]: which of the spans [start, end] carry every tag.

    META's "tags" is a list; a name tags the whole recording, {"name", "start_ns", "end_ns"} the time between.
    """
    good = np.ones(len(starts), np.bool_)
    for tag in tags:
        here = np.zeros(len(starts), np.bool_)
        for entry in reader.meta.get("tags", []):
            if entry == tag:
                here[:] = True
            elif isinstance(entry, dict) and entry.get("name") == tag:
                here |= (starts >= entry.get("start_ns", 0)) & (ends <= entry.get("end_ns", np.iinfo(np.int64).max))
        good &= here
    return good
