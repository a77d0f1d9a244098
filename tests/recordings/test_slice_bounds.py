"""Where a slice begins and ends."""

from __future__ import annotations

from pathlib import Path

from trainload.recordings.exporters.slice import slice_recording
from trainload.recordings.reading.hyperframe import HyperframeReader
from trainload.recordings.writing.writer import HyperframeWriter


def test_a_slice_is_exact_to_the_nanosecond_today(tmp_path: Path) -> None:
    now = 1_796_000_000_000_000_000
    with HyperframeWriter(tmp_path / "a.hfr") as writer:
        writer.add_stream("a")
        for n in range(10):
            writer.append("a", now + n, b"%d" % n)
    with HyperframeReader(tmp_path / "a.hfr") as drive:
        slice_recording(drive, tmp_path / "b.hfr", start_ns=now + 3, end_ns=now + 7)
    with HyperframeReader(tmp_path / "b.hfr") as found:
        assert found.timestamps("a").tolist() == [now + n for n in range(3, 7)]
