"""`trainload.import_recording`: a recording in a foreign format, or of another data set, as a recording of ours."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from trainload.formats.progress import Progress
from trainload.recordings.importers.formats import format_name, open_source
from trainload.recordings.importers.import_source import ImportReport, import_source


def import_recording(
    source: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    format: str,
    window: str | int = "auto",
    codec: str = "none",
    clocks: Mapping[str, str] | None = None,
    times: str | None = None,
    log: str | None = None,
    unit: str | None = None,
    stamped_by: str | None = None,
    overwrite: bool = False,
    resume: bool = False,
    progress: Progress | None = None,
) -> ImportReport:
    """Write what lies at `source`, a file or a folder, as the recording `out`, which has its name when it is whole.

    format: "mcap", "rosbag1", "rosbag2", "kitti", "nuscenes", "euroc", "tum", "comma2k19", "folder"; "rosbag" is ROS 1
    or 2 by what lies there. window: "auto", 1 to 2 periods of the slowest stream, or a length, "100ms". codec: of
    streams that are not compressed yet, "none", "lz4", "lz4hc", "zstd". progress: gets bytes or frames of the source.
    resume: go on where an interrupted import of the same source stopped.

    Of logs (MCAP, bags): clocks, stream to "hardware" or "host", what stamped it if you know better; times, "stamp" for
    acquisition times or "log" for when the log got each message. log: which log of a nuScenes folder. Of "folder":
    unit of its times, "ns", "us", "ms" or "s"; stamped_by, "hardware" or "host".

    What could not be read is in the report's `damage`, and the rest is imported. Raises UsageError for an unknown
    format, an option that the format does not take, nothing at `source`, and where `out` exists (unless `overwrite`);
    FormatError for a source that is not of its format; OSError from the system.
    """
    path = Path(source)
    given = {"clocks": clocks, "times": times, "log": log, "unit": unit, "stamped_by": stamped_by}
    options = {name: value for name, value in given.items() if value is not None}
    return import_source(
        open_source(format, path, scratch=Path(out).parent, **options),
        out,
        window=window,
        codec=codec,
        overwrite=overwrite,
        resume=resume,
        progress=progress,
        kind=format_name(format, path),
        inputs=[path],
    )
